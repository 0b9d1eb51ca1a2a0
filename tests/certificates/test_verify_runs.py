"""`equipoise verify` on real runs: every record is accepted, each of 1,000 single-field alterations is rejected."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.certificates.records import elimination_record, verify_record
from equipoise.cli import main
from equipoise.lab.audit.pools import make_pool
from equipoise.simulation.tapes import Tapes, run_on_tapes
from tests.certificates.alterations import require_alterations_rejected
from tests.certificates.ended_epochs import RECORDS as ENDS

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """What Algorithm 1 eliminated in runs from tapes, and the ended epochs of runs of Algorithm 3."""
    found = []
    for seed in range(5):
        pool = make_pool("n^(1/2)", gap=True)
        run_on_tapes(Tapes(pool.problem, pool.learners, np.array([2000]), seed), pool.selector)
        names = [learner.name for learner in pool.learners]
        for gone in pool.selector.eliminations:
            found.append(
                elimination_record(
                    gone, selector_label="balanced", seed=seed, premises=pool.selector.premises, learner_names=names
                )
            )
    assert len(found) == 5
    return [*found, *ENDS]


def test_every_record_of_a_real_run_is_accepted(records: list[dict[str, Any]], tmp_path: Path) -> None:
    assert [verify_record(record) for record in records] == [[]] * len(records)
    file = tmp_path / "eliminations.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(SystemExit) as stopped:
        main(["verify", str(file)])
    assert not stopped.value.code


def test_a_thousand_random_alterations_are_rejected(records: list[dict[str, Any]]) -> None:
    require_alterations_rejected(records, seed=7)


def test_unknown_versions_and_missing_fields_are_refused(records: list[dict[str, Any]]) -> None:
    for record in (records[0], records[-1]):
        (fault,) = verify_record({**record, "version": 4})
        assert fault.startswith("version is 4, but only 1")
        for name in record.keys() - {"instance"}:
            less = copy.deepcopy(record)
            del less[name]
            assert any(fault.endswith("is missing") or "no field" in fault for fault in verify_record(less)), name
