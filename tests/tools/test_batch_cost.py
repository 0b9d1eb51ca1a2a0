"""A quick version of tools/studies/batch_cost.py."""

import sys

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from tools.studies.batch_cost import FILES, WAYS, measure

MAX_SHARE = 0.4  # of the CPU time of the same requests, one after the other


@pytest.mark.service
@pytest.mark.skipif(sys.platform != "linux", reason="CPU time of threads is read as on Linux")
@pytest.mark.parametrize("name", FILES)
def test_a_batch_costs_less_than_its_requests(name: str) -> None:
    found = measure(name, rounds=4)
    assert found["batch"] < MAX_SHARE * found[WAYS[0]], found
