"""Every theorem and lemma of the paper, by its label: what it says, the function that computes it, how it is checked.

`checks` are keys of the audit's claims; `tests` describes other tests, for statements that are deterministic or not
covered by the audit. `correction` is empty if the statement is correct as printed.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL"; it has no corollaries.
"""

from __future__ import annotations

from typing import NamedTuple

RADIUS, NOISE = "equipoise.confidence.make_radius", "equipoise.confidence.noise_radius"
G, L, A = (f"equipoise.theory.{module}" for module in ("guarantees", "lemmas", "adversarial"))
P = "tools.pages.printed"


class Statement(NamedTuple):
    label: str
    says: str
    functions: tuple[str, ...]  # dotted names
    checks: tuple[str, ...]
    tests: str = ""
    correction: str = ""
    family: str = ""  # of the bounds it is about: power, sqrt-log, linear-sqrt or adversarial; empty if any


STATEMENTS = (
    Statement(
        "lem:balancing",
        "the bounds of active learners differ by at most the bound of one play",
        (f"{G}.imbalance",),
        ("balancing",),
        "property test of Algorithm 1",
        "w in place of 1, for any range of rewards",
    ),
    Statement(
        "lem:mustar_conc",
        "sums of rewards are within the radius of n μ* − Reg, simultaneously for all learners and rounds",
        (RADIUS, f"{P}.printed_mean_radius"),
        ("radius",),
        "",
        "δ is split for M learners only, not for two sums with two tails each; ln ln(n/2) does not exist below n = 3. "
        "One martingale in place of two sums, from the first play on",
    ),
    Statement(
        "lem:regbound_nonelim",
        "the regret of a learner that passes the test is not much larger than that of a well-specified one",
        (f"{G}.survivor_regret", f"{P}.printed_survivor_regret"),
        ("general", "closed form"),
        "",
        "a factor nᵢ/√nᵢ is missing in one line of the proof; the statement is correct. Stated with the learner's own "
        "bound, which balancing bounds by R★ + w",
    ),
    Statement(
        "lem:suff_cond_elimination",
        "a learner with larger regret fails the test",
        (f"{G}.survivor_regret",),
        ("general", "gap plays"),
    ),
    Statement(
        "thm:general_regbound",
        "regret in terms of the actual play counts, for any bounds",
        (f"{G}.general_guarantee", f"{P}.printed_general_guarantee"),
        ("general",),
        "",
        "the play on which the test fires costs an additional w, which the 2M of the theorem covers",
    ),
    Statement(
        "lem:general_ratio_bound",
        "the largest ratio of the plays of a learner to those of ★, bounds c n^β",
        (f"{G}.power_ratio",),
        ("closed form",),
        "property test of Algorithm 1",
        "the step R + 1 ≤ 2R needs R(1) = w; concavity gives the factor 2 without it",
        family="power",
    ),
    Statement(
        "thm:poly_reg",
        "regret with bounds c n^β, for arbitrary misspecified learners",
        (f"{G}.power_guarantee", f"{P}.printed_power_guarantee"),
        ("closed form",),
        "property test: at least the general bound at all play counts that balancing allows",
        "uses 2 (d★/dᵢ)^(1/β) where its lemma gives (2 d★/dᵢ)^(1/β): for β = 1/2 the factor is 4, not 2, and 5 d★ "
        "becomes 2 (1 + 2 d★)",
        family="power",
    ),
    Statement(
        "lem:elimination_gen_obs",
        "the largest number of plays of a learner with a gap, bounds c n^β",
        (f"{G}.power_plays",),
        ("gap plays",),
        "property test: beyond these plays the test must fire",
        "one additional play, on which the test fires",
        family="power",
    ),
    Statement(
        "thm:poly_reg_gap",
        "regret with bounds c n^β if every misspecified learner has a gap",
        (f"{G}.power_gap_guarantee", f"{P}.printed_power_gap_order"),
        ("gap theorem",),
        "",
        "printed in O(...); here with the constants of its lemma",
        family="power",
    ),
    Statement(
        "lem:sqrt_ratio_bound",
        "the play ratio with bounds c √(n ln(n/δ))",
        (f"{G}.sqrt_log_ratio", f"{P}.printed_sqrt_log_ratio"),
        ("closed form",),
        "property test of Algorithm 1",
        "true but loose: the ratio of square roots holds, without 7/4 and without the ln ln. Needs δ ≤ 1/e; otherwise "
        "the bounds are not concave",
        family="sqrt-log",
    ),
    Statement(
        "thm:sqrt_reg",
        "regret with bounds c √(n ln(n/δ))",
        (f"{G}.sqrt_log_guarantee", f"{P}.printed_sqrt_log_guarantee"),
        ("closed form",),
        "property test, as for thm:poly_reg",
        "the proof gives a factor 3 that the statement lacks; with the sharper ratio the statement is true for "
        "T/δ ≥ 143",
        family="sqrt-log",
    ),
    Statement(
        "lem:elimination_sqrt_obs",
        "the largest number of plays of a learner with a gap, bounds c √(n ln(n/δ))",
        (f"{G}.sqrt_log_plays",),
        ("gap plays",),
        "property test: beyond these plays the test must fire",
        "one additional play; stated as analogous, without proof. d_j in its Z is that of ★",
        family="sqrt-log",
    ),
    Statement(
        "thm:sqrt_reg_gap",
        "regret with bounds c √(n ln(n/δ)) if every misspecified learner has a gap",
        (f"{G}.sqrt_log_gap_guarantee", f"{P}.printed_sqrt_log_gap"),
        ("gap theorem",),
        "",
        "smaller constants, by the sharper ratio",
        family="sqrt-log",
    ),
    Statement(
        "lem:lin_sqrt_regret_bound",
        "the regret of a learner that passes the test, bounds C₁ √n + εᵢ C₂ n",
        (f"{G}.linear_sqrt_survivor",),
        ("closed form",),
        "all cases by brute force over play counts that balancing allows",
        "its last case claims nᵢ/√n★ ≤ √nᵢ where n★ < nᵢ, which is false; 3 √nᵢ is correct, so 2 C₁ √nᵢ becomes "
        "6 C₁ √nᵢ. C₁ < w is covered too",
        family="linear-sqrt",
    ),
    Statement(
        "thm:linTmissp",
        "regret with bounds C₁ √n + εᵢ C₂ n",
        (f"{G}.linear_sqrt_guarantee",),
        ("closed form",),
        "property test, as for thm:poly_reg",
        "printed in O(...); here with the corrected constants of its lemma",
        family="linear-sqrt",
    ),
    Statement(
        "lem:yasin",
        "theta* is in OFUL's ellipsoid at all times",
        (f"{L}.ellipsoid_radius", f"{P}.printed_ellipsoid_radius"),
        ("ellipsoid",),
        "",
        "the simplified radius fails for d = 1 (d ln(1/δ) instead of 2 ln(1/δ)); the form with the determinant is used",
    ),
    Statement(
        "lem:LinUCB_regret_guarantee",
        "OFUL's regret while the ellipsoid holds",
        (f"{L}.oful_regret",),
        ("OFUL's regret",),
        "",
        "the main text has L instead of L² in the logarithm; the appendix is correct",
    ),
    Statement(
        "lem:elliptical", "the elliptical potential", (f"{L}.elliptical_potential",), ("potential",), "direct summation"
    ),
    Statement(
        "lem:elliptical_random",
        "the elliptical potential if each vector enters with probability p",
        (f"{L}.random_potential", f"{P}.printed_random_potential"),
        ("random potential",),
        "",
        "the second printed form is an upper bound, not an equality",
    ),
    Statement(
        "lem:uniform_emp_bernstein",
        "sub-Poisson sums stay below a boundary at all times",
        (f"{L}.bernstein_boundary",),
        ("Bernstein",),
    ),
    Statement(
        "lem:playcount_ub",
        "the number of plays of a learner drawn with probability p",
        (f"{L}.most_plays", f"{P}.printed_most_plays"),
        ("play counts",),
        "",
        "its boundary starts at m = t p, which depends on t; with m = p (1 − p) the proof is valid, with half of "
        "the printed constant",
    ),
    Statement(
        "lem:mu_adv_conc",
        "sums of reward noise stay within a radius, for arbitrary contexts",
        (NOISE, f"{P}.printed_noise_radius"),
        ("noise",),
        "",
        "ln ln(4k), although its derivation gives ln ln(2k)",
    ),
    Statement(
        "lem:test_LHS",
        "the left side of the adversarial test bounds the optima of an epoch's rounds",
        ("equipoise.selectors._core.epochs.test",),
        ("epochs",),
        "",
        "called a lower bound in the paper, but it is an upper one",
    ),
    Statement(
        "thm:adv_epoch_balancing_termination",
        "an epoch of well-specified learners does not end",
        ("equipoise.selectors._core.epochs.test",),
        ("epochs",),
    ),
    Statement(
        "lem:regret_bounds_balanced_prob",
        "the sum of the observed bounds in an epoch",
        (f"{A}.balanced_regret_bounds",),
        ("epoch bounds",),
        "",
        "∧ R^max per play is not a valid bound if rewards lie in [−R^max, R^max]; the full width is",
    ),
    Statement(
        "thm:adv_general_regret",
        "regret of an epoch, with constants",
        (f"{A}.epoch_guarantee", f"{P}.printed_epoch_guarantee"),
        ("closed form",),
        "computed by hand for one class",
        "three events with two tails of noise are four, not two; the cap b of the potential must not depend on t",
        family="adversarial",
    ),
    Statement(
        "thm:adv_epoch_balancing_regret",
        "regret of an epoch, common range of rewards",
        (f"{A}.epoch_guarantee",),
        ("closed form",),
        "",
        "printed in Õ(...), with 1 − 2δ; see thm:adv_general_regret",
        family="adversarial",
    ),
    Statement(
        "thm:adv_epoch_balancing_regret_ls",
        "regret of an epoch, ranges L S",
        (f"{A}.epoch_guarantee",),
        (),
        "the same function with other ranges; no experiment has different ranges",
        "printed in Õ(...), with 1 − 2δ; see thm:adv_general_regret",
        family="adversarial",
    ),
    Statement(
        "theorem::main_adversarial",
        "regret of Algorithm 3",
        (f"{A}.adversarial_guarantee",),
        ("closed form", "epochs"),
        "",
        "states 1 − 3(M + 1)δ and proves “1 − 4M”; here δ/(4M) for each of four events in M epochs, ellipsoids apart",
        family="adversarial",
    ),
)
