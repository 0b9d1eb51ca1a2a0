"""VW: a contextual bandit of Vowpal Wabbit (`--cb_explore_adf`), with the probabilities that it computes itself.

The action is drawn here from the probabilities that Vowpal Wabbit predicts, so propensities are exact. The cost of a
reward is the share of the reward range that it misses: 0 for the highest reward, 1 for the lowest. Costs in [0, 1] are
what `--squarecb` and `--regcb` assume by default, and what step sizes and `--lambda` are made for.

Vowpal Wabbit reads its options from a model file too, so a state is refused unless its options are the learner's own.
"""

from __future__ import annotations

import shlex
import struct
import tempfile
from collections.abc import Iterator, Mapping
from math import inf, isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise.adapters._core.outside import OffersLearner, as_array, draw
from equipoise.adapters.model import dim_setting
from equipoise.errors import InvalidArgument, UnreadableFile, require
from equipoise.learner import Proposal
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive_fraction
from equipoise.types import Action, Array, Context, State

# How many values each option takes. Options that name files, that explore by random numbers of Vowpal Wabbit's own, or
# whose learners do not resume exactly are missing.
EXPLORERS: Mapping[str, int] = {"--squarecb": 0, "--regcb": 0, "--regcbopt": 0, "--epsilon": 1, "--softmax": 0}
WITH_VALUE = (
    *("--lambda", "--gamma_scale", "--gamma_exponent", "--mellowness", "--cb_type", "--loss_function"),
    *("--learning_rate", "-l", "--power_t", "--initial_t", "--decay_learning_rate", "--l1", "--l2"),
    *("--bit_precision", "-b", "--quadratic", "-q", "--cubic", "--interactions"),
)
FLAGS = ("--noconstant", "--adaptive", "--normalized", "--invariant")
OPTIONS: Mapping[str, int] = {**EXPLORERS, **dict.fromkeys(WITH_VALUE, 1), **dict.fromkeys(FLAGS, 0)}
# What `--cb_type` may be: doubly robust costs need a second regression, which some explorers refuse.
COST_TYPES = ("mtr", "ips", "dm")
NAMESPACE = "f"


def check_options(name: str, value: Any) -> str:
    """Options of the allow-list, with exactly one explorer."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is {value!r:.80}, but must be a string of options")
    words = shlex.split(value.replace("=", " "))
    explorers, position = [], 0
    while position < len(words):
        word = words[position]
        if word not in OPTIONS:
            raise InvalidArgument(f"{name} has {word!r}, but may have only {', '.join(OPTIONS)}")
        given = words[position + 1 : position + 1 + OPTIONS[word]]
        if len(given) < OPTIONS[word] or any(each.startswith("--") for each in given):
            raise InvalidArgument(f"{name} has {word!r} without its value")
        if word == "--cb_type" and given[0] not in COST_TYPES:
            raise InvalidArgument(f"{name} has --cb_type {given[0]}, but it must be one of {', '.join(COST_TYPES)}")
        explorers += [word] if word in EXPLORERS else []
        position += 1 + OPTIONS[word]
    if len(explorers) != 1:
        raise InvalidArgument(f"{name} is {value!r}, but must have exactly one of {', '.join(EXPLORERS)}")
    return value


def check_known(probability: Any) -> float:
    """The probability with which an action was played. Costs are divided by it, so an unknown one cannot be used."""
    if isnan(probability):
        raise InvalidArgument("probability is nan, but must be known, as Vowpal Wabbit divides costs by it")
    return positive_fraction("probability", probability)


class Prepared(NamedTuple):
    """The examples of a context, ready for use, and what was predicted for them."""

    key: tuple[int, bytes]  # of the context: number and features of the actions
    examples: list[Any]
    probabilities: list[float]


@configurable
class VW(OffersLearner):
    """A contextual bandit of Vowpal Wabbit.

    A context is `Offers`, or a K x d matrix with one offered action per row; K may change from round to round. The
    features of a row are in the namespace "f", so `-q ff` adds products of features.
    """

    options: str = setting(
        "Options with one of --squarecb, --regcb, --regcbopt, --epsilon and --softmax.", check_options, kw_only=False
    )
    dim: int | None = dim_setting()

    accepts = frozenset({"off_policy", "probability"})
    provides = frozenset({"pmf"})

    def _set_up(self) -> None:
        super()._set_up()
        require("a learner of Vowpal Wabbit", "vowpalwabbit")
        self._names = [f"x{column}" for column in range(self._dim)]
        words = shlex.split(self.options.replace("=", " "))
        self._knows_greedy = not {"--regcb", "--regcbopt"} & set(words)
        if self._knows_greedy:
            self.provides = frozenset({"greedy", "pmf"})  # type: ignore[misc]  # of this learner, not of the class
        fixed = ["--cb_explore_adf", "--quiet", "--preserve_performance_counters", "--random_seed", "0"]
        self._arguments = [*fixed, *words]
        self._workspace = self._open()
        self._label_type = self._workspace.get_label_type()  # else every example would look it up
        self._header = read_header(self._dump())
        self._prepared: Prepared | None = None
        self._saved: bytes | None = None  # predictions move a counter in the file, but change no prediction

    def default_name(self) -> str:
        return f"VW {self.options}"

    def _open(self, *more: str) -> Any:
        from vowpalwabbit import Workspace

        return Workspace(arg_list=[*self._arguments, *more])

    def _n_features(self) -> int | None:
        return self.dim

    def _pmf(self, rows: Array) -> Array:
        return np.array(self._prepare(rows).probabilities)

    def _propose_row(self, rows: Array, rng: np.random.Generator) -> Proposal:
        probabilities = self._prepare(rows).probabilities
        best = probabilities.index(max(probabilities))
        action = draw(probabilities, best, rng.random())
        return Proposal(action, -inf, nan, probabilities[action], best if self._knows_greedy else None, nan)

    def _prepare(self, actions: Array) -> Prepared:
        """The examples of these actions with their prediction, kept from the last call if they are the same."""
        key = len(actions), actions.tobytes()
        if self._prepared is not None:
            if self._prepared.key == key:
                return self._prepared
            self._release()
        workspace, label_type = self._workspace, self._label_type
        # One row at a time: hundreds of tuples at once would start the garbage collector in every round.
        examples = [workspace.example({NAMESPACE: features}, label_type) for features in self._features(actions)]
        for example in examples:
            example.setup_example()  # lists of examples are not set up by predict or learn
        predicted: list[float] = workspace.predict(examples)
        total = sum(predicted)  # 1 only in single precision
        self._prepared = Prepared(key, examples, [probability / total for probability in predicted])
        return self._prepared

    def _features(self, actions: Array) -> Iterator[list[tuple[str, float]]]:
        """The named features of each action; as in text, a feature that is zero is absent."""
        names = self._names
        if np.count_nonzero(actions) == actions.size:
            return (list(zip(names, row, strict=True)) for row in actions.tolist())
        return ([named for named in zip(names, row, strict=True) if named[1]] for row in actions.tolist())

    def _release(self) -> None:
        if self._prepared is not None:
            self._workspace.finish_example(self._prepared.examples)
            self._prepared = None

    def learn(
        self, context: Context, action: Action, reward: float, weight: float = 1.0, *, probability: float | None = None
    ) -> None:
        """Learn from the reward of an offered action.

        `probability` is that with which the action was played; by default that of the current model, which is right if
        nothing was learned since the decision. An unknown one (nan) is refused, as costs are divided by it.
        """
        choices = self.check_context(context)
        position = choices.position(action)
        cost = 1.0 - self.share(self.check_reward(reward, weight))
        known = None if probability is None else check_known(probability)
        prepared = self._prepare(choices.rows)
        chance = prepared.probabilities[position] if known is None else known
        if chance == 0.0:
            raise InvalidArgument(f"action is {action!r}, which the learner never plays: its probability must be given")
        prepared.examples[position].set_label_string(f"0:{cost!r}:{chance!r}")
        self._workspace.learn(prepared.examples)
        self._release()
        self._saved = None

    def _learned(self) -> State:
        if self._saved is None:
            self._saved = self._dump()
        return {"model": as_array(self._saved)}

    def _set_learned(self, learned: State) -> None:
        data = learned["model"].tobytes()
        header = read_header(data)
        if header != self._header:
            raise InvalidArgument(f"state has the options {header}, but must have {self._header} for {self.name}")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "model")
            file.write_bytes(data)
            workspace = self._open("--initial_regressor", str(file))
        self._release()
        self._workspace, self._saved = workspace, data

    def _dump(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:  # a temporary file is renamed, so it needs a folder
            file = Path(folder, "model")
            self._workspace.save(str(file))
            return file.read_bytes()


class Header(NamedTuple):
    """What a model file says before its weights: how many bits, and which options."""

    bits: int
    options: str


def read_header(data: bytes) -> Header:
    """The header of a model file: version, id, "m", range of labels, bits, LDA, n-grams, skips, options."""
    try:
        start = 0
        for _ in ("version", "id"):
            start += 4 + struct.unpack_from("<I", data, start)[0]
        kind, _, _, bits, lda, n_grams, skips, length = struct.unpack_from("<cffIIIII", data, start)
        if kind != b"m" or lda or n_grams or skips:
            raise UnreadableFile("the state of a learner is no model of Vowpal Wabbit with the options of an adapter")
        begin = start + struct.calcsize("<cffIIIII")
        return Header(bits, data[begin : begin + length].rstrip(b"\0").decode("utf-8"))
    except (struct.error, UnicodeDecodeError) as error:
        raise UnreadableFile(f"the state of a learner is no model of Vowpal Wabbit: {error}") from error
