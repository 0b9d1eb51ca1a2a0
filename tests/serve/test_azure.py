"""A file of a portfolio, made of a configuration of Azure Personalizer."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from equipoise.errors import EquipoiseError
from equipoise.serve.azure import portfolio_file

# The example of the published description.
CONFIGURATION = {
    "rewardWaitTime": "PT10M",
    "defaultReward": 0,
    "rewardAggregation": "earliest",
    "explorationPercentage": 0.2,
    "modelExportFrequency": "PT5M",
    "logMirrorEnabled": True,
    "logRetentionDays": 7,
    "lastConfigurationEditDate": "2019-01-19T00:00:00Z",
    "learningMode": "Online",
    "modelRetrainDays": 0,
}


def made(name: str = "news", **changes: Any) -> Any:
    given = {key: value for key, value in {**CONFIGURATION, **changes}.items() if value is not None}
    return tomllib.loads(portfolio_file(json.dumps(given), name))


def test_settings_are_those_of_the_resource() -> None:
    content = made()
    assert (content["name"], content["explore"]) == ("news", 0.2)
    assert content["reward"] == {
        "range": [-1, 1],
        "clip": True,
        "deadline": "600s",
        "default": 0.0,
        "aggregate": "first",
    }
    content = made(rewardWaitTime="P1DT2H", rewardAggregation="Sum", defaultReward=-0.5, explorationPercentage=0)
    assert content["explore"] == 0.0
    assert (content["reward"]["deadline"], content["reward"]["aggregate"]) == ("93600s", "sum")
    assert content["reward"]["default"] == -0.5


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"rewardWaitTime": None}, "has no rewardWaitTime"),
        ({"rewardWaitTime": "10 minutes"}, "rewardWaitTime is '10 minutes', but must be a positive duration"),
        ({"rewardWaitTime": "PT0S"}, "must be a positive duration"),
        ({"rewardWaitTime": 600}, "must be a positive duration"),
        ({"rewardAggregation": "latest"}, "rewardAggregation is 'latest', but must be one of earliest, sum"),
        ({"rewardAggregation": ["sum"]}, "must be one of earliest, sum"),
        ({"explorationPercentage": 20}, "explorationPercentage is 20, but must lie in"),
        ({"defaultReward": "0"}, "defaultReward is '0', but must be a real number"),
        ({"name": "a/b"}, "name is 'a/b'"),
    ],
)
def test_a_bad_configuration(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(EquipoiseError, match=rule):
        made(**changes)


@pytest.mark.parametrize("text", ["{", "[]", "7", b"\xff"])
def test_what_is_no_configuration(text: Any) -> None:
    with pytest.raises(EquipoiseError, match="configuration is"):
        portfolio_file(text, "news")


def test_the_command_prints_the_file(tmp_path: Path) -> None:
    pytest.importorskip("typer", reason="needs the extra cli")
    (tmp_path / "service.json").write_text(json.dumps(CONFIGURATION))
    command = [sys.executable, "-m", "equipoise", "personalizer", str(tmp_path / "service.json"), "--name", "news"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert tomllib.loads(done.stdout) == made()
