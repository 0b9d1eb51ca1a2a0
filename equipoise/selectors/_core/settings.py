"""Groups of settings that several selectors share. `BalancedElimination` documents those of `ConfidenceSettings`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from equipoise.bounds import BOUNDS, Bound, from_json, to_json
from equipoise.confidence import RADII, Confidence, RadiusSettings, make_confidence
from equipoise.errors import InvalidArgument
from equipoise.kernels.streams import SELECTOR, open_stream, seek
from equipoise.settings import Configured, configurable, optional, setting
from equipoise.settings.checks import count, interval, one_of, positive, probability
from equipoise.settings.units import DEFAULT_RANGE, Units
from equipoise.types import Config


def check_bounds(name: str, bounds: object, each: str = "learner") -> tuple[Bound, ...]:
    """Check that there is one candidate bound per learner or algorithm."""
    if not isinstance(bounds, Iterable):
        raise InvalidArgument(f"{name} is {bounds!r}, but must have one bound per {each}")
    candidates = tuple(bounds)
    if not candidates:
        raise InvalidArgument(f"{name} is empty, but must have one bound per {each}")
    for bound in candidates:
        if not isinstance(bound, tuple(BOUNDS.values())):
            raise InvalidArgument(f"{name} has {bound!r}, but every entry must be one of {', '.join(BOUNDS)}")
    return candidates


def encode_bounds(bounds: Iterable[Bound] | None) -> list[Config] | None:
    return None if bounds is None else [to_json(bound) for bound in bounds]


def decode_bounds(rows: Iterable[Config] | None) -> list[Bound] | None:
    return None if rows is None else [from_json(row) for row in rows]


@configurable
class LearnerCount(Configured):
    """Settings of a selector that needs only the number of learners."""

    n_learners: int = setting(check=count, kw_only=False)


@configurable
class CandidateBounds(Configured):
    """Settings of a selector that needs a candidate bound for each learner."""

    needs = frozenset({"bounds"})

    bounds: Sequence[Bound] = setting(check=check_bounds, encode=encode_bounds, decode=decode_bounds, kw_only=False)

    def _set_up(self) -> None:
        self.n_learners = len(self.learner_bounds)
        super()._set_up()

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        """The candidate bound of each learner."""
        return tuple(self.bounds)


@configurable
class CertificateSettings(Units):
    """Settings of a selector with bounded rewards that uses a radius only for its certificate."""

    delta: float = setting(default=0.05, check=probability)
    reward_range: tuple[float, float] = setting(default=None, check=optional(interval))
    contexts: str = setting(default="random", check=partial(one_of, options=("random", "fixed")))
    radius: str = setting(default="mixture", check=partial(one_of, options=RADII))

    def _set_up(self) -> None:
        self._leave_unstated("reward_range", DEFAULT_RANGE)
        super()._set_up()

    def _make_confidence(self, n_learners: int, delta: float | None = None) -> Confidence:
        return make_confidence(self.radius, **self._radius_settings(n_learners, delta))

    def _radius_settings(
        self, n_learners: int, delta: float | None, noise: float | None = None, scale: float = 1.0
    ) -> RadiusSettings:
        width, contexts = self.reward_range[1] - self.reward_range[0], self.contexts
        delta = self.delta if delta is None else delta
        return RadiusSettings(
            n_learners=n_learners, delta=delta, width=width, noise=noise, contexts=contexts, scale=scale
        )


@configurable
class ConfidenceSettings(CertificateSettings):
    """Settings of a selector with a choice of noise model and radius."""

    separate_lower: ClassVar[bool] = False  # whether lower means have a radius of their own

    noise: float | None = setting(default=None, check=optional(positive))
    radius_scale: float = setting(default=1.0, check=positive)

    def _set_up(self) -> None:
        self._leave_unstated("noise", None)
        super()._set_up()

    def _make_confidence(self, n_learners: int, delta: float | None = None) -> Confidence:
        settings = self._radius_settings(n_learners, delta, self.noise, self.radius_scale)
        return make_confidence(self.radius, separate_lower=self.separate_lower, **settings)


@configurable
class Seeded(Configured):
    """Settings of a randomized selector: `seed` is used if `choose` gets no generator."""

    randomized: ClassVar[bool] = True

    seed: int = setting(default=0, check=partial(count, minimum=0, maximum=2**64 - 1))

    def _set_up(self) -> None:
        self._stream = open_stream(self.seed)
        super()._set_up()

    def _own_generator(self, draws: int) -> np.random.Generator:
        seek(self._stream, SELECTOR, draws)
        return self._stream.generator
