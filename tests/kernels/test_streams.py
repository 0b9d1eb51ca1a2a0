"""A stream moved in place gives the very numbers of a generator built afresh at that seed, lane and round."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError
from equipoise.kernels.streams import CONTEXTS, INSTANCE, LEARNERS, REWARDS, SELECTOR, generator_at, open_stream, seek

WORDS = st.integers(0, 2**64 - 1)


def philox(seed: int, lane: int, round_: int) -> np.random.Generator:
    """What the streams promise, from NumPy's public interface alone."""
    key, counter = seed + (lane << 64), round_ << 192  # NumPy takes both as one long integer, low word first
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def draws(generator: np.random.Generator) -> list[float]:
    """Numbers of every kind that keeps state of its own: whole words, half words, rejection sampling, many words."""
    return [
        generator.random(),
        float(generator.integers(2**32, dtype=np.uint32)),
        generator.normal(),
        float(generator.integers(10)),
        *generator.random(7).tolist(),
        generator.gamma(0.3),
        float(generator.integers(2**32, dtype=np.uint32)),
    ]


@given(WORDS, st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6))
def test_seek_gives_the_numbers_of_a_fresh_generator(seed: int, places: list[tuple[int, int]]) -> None:
    stream = open_stream(seed)
    for lane, round_ in places:
        seek(stream, lane, round_)
        assert draws(stream.generator) == draws(philox(seed, lane, round_))


@given(WORDS, WORDS, WORDS)
def test_generator_at_gives_the_same_numbers(seed: int, lane: int, round_: int) -> None:
    assert draws(generator_at(seed, lane, round_)) == draws(philox(seed, lane, round_))


def test_a_new_stream_stands_at_the_start_of_lane_0() -> None:
    assert draws(open_stream(12).generator) == draws(philox(12, 0, 0))


@pytest.mark.parametrize("n_before", range(10))
def test_seek_forgets_half_words_and_the_rest_of_a_block(n_before: int) -> None:
    stream = open_stream(3)
    stream.generator.integers(2**32, size=n_before, dtype=np.uint32)
    seek(stream, SELECTOR, 5)
    assert draws(stream.generator) == draws(philox(3, SELECTOR, 5))


def test_seek_also_returns_to_an_earlier_round() -> None:
    stream = open_stream(3)
    first: dict[int, list[float]] = {}
    for round_ in [0, 1, 2, 1, 0, 2]:
        seek(stream, LEARNERS, round_)
        numbers = draws(stream.generator)
        assert first.setdefault(round_, numbers) == numbers


def test_seeds_lanes_and_rounds_all_differ() -> None:
    lanes = [INSTANCE, SELECTOR, CONTEXTS, CONTEXTS + 1, REWARDS, REWARDS + 1, LEARNERS, LEARNERS + 1]
    places = [(seed, lane, round_) for seed in (0, 1) for lane in lanes for round_ in (0, 1, 2)]
    blocks = [tuple(generator_at(*place).random(4)) for place in places]
    assert len(set(blocks)) == len(places)


def test_long_rounds_do_not_run_into_the_next_round() -> None:
    within = set(generator_at(0, 0, 0).random(100_000).tolist())
    following = set(generator_at(0, 0, 1).random(100_000).tolist())
    # 53-bit fractions: 1e10 pairs, so one chance coincidence has probability 1e-6.
    assert not within & following


def test_two_streams_share_nothing() -> None:
    one, other = open_stream(1), open_stream(1)
    one.generator.random(3)
    seek(one, LEARNERS, 9)
    assert draws(other.generator) == draws(philox(1, 0, 0))


def test_another_layout_of_the_generator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    view = np.ctypeslib.as_array
    monkeypatch.setattr(np.ctypeslib, "as_array", lambda cells: view(cells).copy())  # cells that place nothing
    with pytest.raises(EquipoiseError, match=r"^NumPy [\d.]+ stores the state of Philox in a layout"):
        open_stream(0)
