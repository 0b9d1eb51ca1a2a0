"""Bytes of objects are equal for equal objects, and build nothing but classes of the library."""

from __future__ import annotations

import collections
import functools
import os

import numpy as np
import pytest

from equipoise.errors import InvalidArgument, UnreadableFile

pytest.importorskip("skops", reason="skops is not installed")
pytest.importorskip("sklearn", reason="sklearn is not installed")
from sklearn.neural_network import MLPRegressor

from equipoise.adapters._core.objects import pack, unpack


def network() -> MLPRegressor:
    model = MLPRegressor(hidden_layer_sizes=(3,), random_state=1)
    for t in range(5):
        model.partial_fit(np.full((1, 2), t / 5), [t / 3])
    return model


@pytest.mark.slow
def test_equal_objects_have_equal_bytes() -> None:
    assert pack(network()) == pack(network())


def test_bytes_survive_a_round_trip() -> None:
    data = pack(network())
    restored = unpack(data, ("sklearn", "numpy"))
    assert pack(restored) == data
    assert restored.predict(np.ones((1, 2))) == network().predict(np.ones((1, 2)))


def test_objects_that_are_shared_stay_shared() -> None:
    array = np.arange(3.0)
    one, other = unpack(pack([array, array]), ())
    assert one is other


def test_classes_of_other_packages_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"the state of a model names sklearn.* of numpy"):
        unpack(pack(network()), ("numpy",))


@pytest.mark.parametrize("function", [os.system, functools.partial(os.system, "true")], ids=["function", "partial"])
def test_functions_are_refused(function: object) -> None:
    with pytest.raises(InvalidArgument, match=r"the state of a model names (posix\.system|functools\.partial)"):
        unpack(pack({"call": function}), ("sklearn",))


def test_functions_of_the_library_are_refused() -> None:
    from sklearn.utils import shuffle

    with pytest.raises(InvalidArgument, match=r"sklearn\.utils\S*shuffle, which is not a class"):
        unpack(pack({"call": shuffle}), ("sklearn",))


def test_damaged_bytes_are_refused() -> None:
    with pytest.raises(UnreadableFile, match="the state of a model is damaged"):
        unpack(b"nothing", ())


def test_counters_of_the_standard_library_are_allowed() -> None:
    counts = collections.Counter({"a": 2.5})
    assert unpack(pack(counts), ()) == counts
