"""`equipoise check`: what it approves can be served, over HTTP and as a flag; and it names the learner that cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.cli import application
from equipoise.errors import InvalidArgument
from equipoise.serve.examples import decide_request, evaluate_request, takes_flags
from tests.adapters.subjects import needs
from tests.serve.served import ARMS, COLORS, LINEAR, client, configs

HEAD = 'version = 1\nname = "trial"\n'
NAMES = '[actions]\nnames = ["red", "blue"]\n'
NUMBER = '{ type = "number", scaled = false, missing = "zero" }'
CONTEXT = f"[context]\nage = {NUMBER}\nvisits = {NUMBER}\n"
UCB = '[[learner]]\nuse = "UCB"\narms = 2\n'
WIDE = '[[learner]]\nuse = "OFUL"\nname = "wide"\ndim = 6\n'
CROSSED = """[[learner]]
use = "OFUL"
name = "crossed"
action_bound = 3.0
[learner.features]
use = "Interactions"
left = { use = "OneHot", ids = ["red", "blue"] }
right = { use = "Shared", dim = %d }
"""


def check(folder: Path, text: str, *options: str) -> Any:
    (folder / "file.toml").write_text(text)
    return CliRunner().invoke(application(), ["check", str(folder / "file.toml"), *options])


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (ARMS, True),
        (COLORS, False),  # its offers may have a price
        (LINEAR, False),
        (HEAD + NAMES + CONTEXT + UCB + CROSSED % 2, True),
        (HEAD + NAMES + UCB + CROSSED % 3, False),
        (HEAD + UCB + CROSSED % 3, False),
        (HEAD + "explore = 0.9\n" + UCB, True),  # it was refused, as a round had no learner
        (HEAD + "explore = 1.0\n" + UCB, True),
        (HEAD + '[reward]\naggregate = "sum"\ndeadline = "1h"\ndefault = 0.0\n' + UCB, True),  # rewards have keys
        (HEAD + WIDE + '[[learner]]\nuse = "OFUL"\nname = "narrow"\ndim = 2\n', False),
        (
            HEAD + NAMES + "[actions.features]\n" + "".join(f"{x} = {NUMBER}\n" for x in "abcdef") + CONTEXT + WIDE,
            False,
        ),
    ],
)
def test_what_is_approved_is_served(tmp_path: Path, text: str, flags: bool) -> None:
    result = check(tmp_path, text)
    assert result.exit_code == 0, result.output
    (config,) = configs(text)
    assert takes_flags(config) == flags == ("a flag evaluation too" in result.output)
    with client(text) as service:
        assert service.post(f"/v1/portfolios/{config.name}/decide", json=decide_request(config)).status_code == 200
        if flags:
            path = f"/ofrep/v1/evaluate/flags/{config.name}"
            assert service.post(path, json=evaluate_request(config)).status_code == 200


@pytest.mark.parametrize(
    ("text", "learner", "reason"),
    [
        (HEAD + NAMES + CONTEXT + UCB + WIDE, "UCB", "0 columns, but must have at least 6 for learner 'wide'"),
        (HEAD + NAMES + WIDE, "wide", "0 columns, but must have at least 6"),
        (HEAD + NAMES + CONTEXT + CROSSED % 3, "crossed", "2 shared features, but must have at least 3"),
        (
            HEAD + f"[actions.features]\na = {NUMBER}\nb = {NUMBER}\n" + WIDE,
            "wide",
            "2 columns, but must have at least 6",
        ),
        (HEAD + NAMES.replace('"blue"', '"green"') + CONTEXT + CROSSED % 2, "crossed", "'green' is unknown"),
    ],
)
def test_a_learner_that_cannot_play_is_named(tmp_path: Path, text: str, learner: str, reason: str) -> None:
    result = check(tmp_path, text)
    message = str(result.exception)
    assert result.exit_code != 0 and isinstance(result.exception, InvalidArgument), result.output
    assert message.startswith(f"a round that learner '{learner}' plays on") and "dry round" not in result.output
    assert "the file declares what requests have by [context.NAME]" in message
    assert reason in message


TYPED = (
    HEAD
    + """
[context.device]
type = "category"
values = ["phone", "desktop"]
[actions.features.price]
type = "number"
low = 0
high = 10
"""
)
ADAPTED = """
[[learner]]
use = "VW"
options = "--squarecb"
[[learner]]
use = "Exploring"
name = "sgd"
model = { use = "Sklearn", estimator = { use = "linear_model.SGDRegressor" } }
"""


@needs("vowpalwabbit")
@needs("sklearn")
def test_adapters_play_what_the_file_declares(tmp_path: Path) -> None:
    result = check(tmp_path, TYPED + ADAPTED)
    assert result.exit_code == 0, result.output
    with client(TYPED + ADAPTED) as service:
        request = {"context": {"device": "phone"}, "offers": [{"id": id_, "features": {"price": 3.0}} for id_ in "ab"]}
        for name in ("VW --squarecb", "sgd"):
            body = {**request, "available": [name]}
            answer = service.post("/v1/portfolios/trial/decide", json=body).json()
            assert answer["learner"] == name and answer["action_id"] in ("a", "b")


def test_a_bound_that_declared_features_exceed_is_found(tmp_path: Path) -> None:
    """The example of a request has small numbers, which the learner would take."""
    learner = '[[learner]]\nuse = "OFUL"\nname = "linear"\naction_bound = 1.2\n'
    result = check(tmp_path, TYPED + learner)
    assert "action_bound of learner 'linear' is 1.2, but features that the file declares" in str(result.exception)
    for better in (learner.replace("action_bound = 1.2\n", ""), learner + "clip_norm = true\n"):
        assert check(tmp_path, TYPED + better).exit_code == 0


@pytest.mark.parametrize(
    ("deadline", "options", "code", "words"),
    [
        ('"24h"', ("--rate", "1.1"), 0, ("at most 95,040 wait", "contexts of the dry round take 133.1 MB")),
        ('"24h"', ("--rate", "1.2"), 1, ("--max-open is 100,000, but must be at least 103,680",)),
        ('"24h"', ("--rate", "1.2", "--max-open", "110000"), 0, ("at most 103,680 wait",)),
        ('"1h"', ("--rate", "10", "--max-open-bytes", "1000000"), 1, ("--max-open-bytes is 1,000,000, but must be",)),
        ("200_000", ("--rate", "10"), 1, ("at most 200,000 wait", "--max-open is 100,000, but must be")),
        (None, ("--rate", "10"), 0, ("no deadline: missing rewards decide how many decisions wait",)),
        ('"24h"', (), 0, ()),
    ],
)
def test_it_says_how_many_decisions_wait(
    tmp_path: Path, deadline: str | None, options: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    """Rate times deadline, before the service answers 503."""
    table = "" if deadline is None else f"[reward]\ndeadline = {deadline}\ndefault = 0.0\n"
    result = check(tmp_path, HEAD + UCB.replace("[[learner]]", table + "[[learner]]"), *options)
    assert result.exit_code == code, result.output
    assert [word for word in words if word not in result.output] == [], result.output
    assert ("wait for rewards" in result.output) == (bool(options) and deadline is not None)
