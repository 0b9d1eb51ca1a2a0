"""What every algorithm computes is as it was recorded: experiments, and portfolios whose rewards come late.

`tests/recorded/bits.json` has one record per experiment and per portfolio; `tests/record_bits.py` says what is in them
and how they are made. A change that is not meant to change what is computed leaves all of them as they are. A change
that is must state in its description which records it changes and why; `python -m tests.record_bits` then writes them
anew.
"""

from pathlib import Path

import pytest

from equipoise.lab.experiments import EXPERIMENTS
from equipoise.selectors import SELECTORS
from tests.conftest import INTERPRETED
from tests.record_bits import SIZES, differences, experiment_record, recorded, variant_record
from tests.recorded_portfolios import LOST_FROM, ROUNDS, VARIANTS, fate


@pytest.mark.compiled
@pytest.mark.skipif(INTERPRETED, reason="recorded as compiled; the last digits of plain Python may differ")
@pytest.mark.parametrize("name", SIZES)
def test_experiment_computes_what_was_recorded(name: str, tmp_path: Path) -> None:
    assert differences("experiments", name, experiment_record(name, tmp_path / name)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_portfolio_decides_what_was_recorded(name: str) -> None:
    assert differences("portfolios", name, variant_record(VARIANTS[name])) == []


def test_every_experiment_and_every_selector_is_recorded() -> None:
    assert set(SIZES) == set(EXPERIMENTS) == set(recorded("experiments"))
    assert set(VARIANTS) == set(recorded("portfolios"))
    assert {type(variant.make().selector) for variant in VARIANTS.values()} == set(SELECTORS.values())


def test_the_records_hold_eliminations() -> None:
    """Else they would say nothing about what leads to one."""
    eliminating = [name for name, record in recorded("experiments").items() if record["eliminated"]]
    assert {"nested", "ucb-width", "context-or-not", "adversarial"} <= set(eliminating)
    selectors = {name.partition(",")[0] for name, record in recorded("portfolios").items() if record["inactive"]}
    assert {"BalancedElimination", "AdversarialElimination", "RealizedBalancing", "DynamicBalancing"} <= selectors


def test_rewards_come_at_once_late_out_of_order_or_never() -> None:
    fates = [fate(t, LOST_FROM) for t in range(ROUNDS)]
    assert {what for what, _ in fates} == {"at once", "late", "withdrawn", "lost"}
    assert {delay for what, delay in fates if what == "late"} == set(range(1, 51))
    arrivals = [t + delay for t, (what, delay) in enumerate(fates) if what == "late"]
    assert arrivals != sorted(arrivals)


def test_a_difference_is_told_by_name() -> None:
    then = recorded("portfolios")["Uniform"]
    now = {**then, "decisions": "other"}
    assert differences("portfolios", "Uniform", now) == [
        f"portfolios: decisions of 'Uniform' was {then['decisions']} and is other"
    ]
    assert differences("portfolios", "nobody", now) == ["portfolios: 'nobody' has never been recorded"]
