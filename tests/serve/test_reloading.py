"""Files that are read again while the service runs: a file that is rejected changes nothing."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL
from equipoise.serve.reloading import apply_file
from equipoise.serve.server import reload_files
from equipoise.serve.service import Service, Settings, open_in, open_in_memory
from equipoise.serve.tokens import Tokens
from tests.serve.served import configs

NESTED = """
version = 1
name = "nested"
[reward]
deadline = 3
default = 0.0
[[learner]]
use = "OFUL"
dim = 2
[[learner]]
use = "OFUL"
dim = 4
"""
WIDE = '[[learner]]\nuse = "OFUL"\ndim = 8\n'
GONE = '[[learner]]\nuse = "OFUL"\ndim = 3\n'
BOUND = 'bound = { use = "Power", coefficient = 1.0 }\n'
SAME_ROUND = '[selector]\nuse = "BalancedElimination"\nsame_round = true\n'


def facts(service: Service) -> tuple[tuple[str, ...], object]:
    hosted = asyncio.run(service.portfolios["nested"].engine.run(lambda hosted: hosted))
    return hosted.portfolio.learner_names, hosted.portfolio.settings.deadline


def test_a_change_of_several_parts_is_taken_in_as_a_whole_or_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    """The deadline was applied, though the learner that joins is refused later."""
    caplog.set_level(logging.INFO, "equipoise")
    service = Service(Tokens(), Settings(), open_in_memory)
    fixed = NESTED.replace("[[learner]]", "[[learner]]\n" + BOUND).replace("[reward]", SAME_ROUND + "[reward]")
    longer = fixed.replace("deadline = 3", "deadline = 5")
    refused, accepted = configs(longer + WIDE + BOUND, longer)
    asyncio.run(apply_file(service, *configs(fixed)))
    before = facts(service)
    caplog.clear()
    with pytest.raises(InvalidArgument, match="BalancedElimination takes no more learners"):
        asyncio.run(apply_file(service, refused))
    assert facts(service) == before
    assert not [message for message in caplog.messages if not message.startswith("The selector is")]
    asyncio.run(apply_file(service, accepted))
    assert facts(service) == (("OFUL(d=2)", "OFUL(d=4)"), 5)


def test_a_second_file_of_the_same_name_is_rejected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would change the portfolio of the first file, which would change it back."""
    service = Service(Tokens(), Settings(), open_in_memory)
    for name, text in (("a.toml", NESTED), ("b.toml", NESTED + WIDE)):
        (tmp_path / name).write_text(text)
    with caplog.at_level(logging.ERROR, "equipoise.serve"):
        asyncio.run(reload_files(service, tmp_path, tmp_path / "tokens.json"))
    assert facts(service)[0] == ("OFUL(d=2)", "OFUL(d=4)")
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.endswith("is not served: name is 'nested', but must differ from those of the other portfolios")
    assert service.ready and service.n_failed() == 1 and list(service.failed) == ["b.toml"]


@pytest.mark.parametrize("way", ["reload", "restart"])
def test_a_name_may_leave_the_file_and_return(tmp_path: Path, way: str) -> None:
    """It became "OFUL(d=8) (2)", then any further edit was refused until a restart, after which it played on."""
    service = Service(Tokens(), Settings(), open_in(tmp_path))
    states: list[Any] = []

    def apply(text: str) -> None:
        nonlocal service
        if way == "restart" and service.portfolios:
            service.close()
            service = Service(Tokens(), Settings(), open_in(tmp_path))
        asyncio.run(apply_file(service, *configs(text)))
        hosted = asyncio.run(service.portfolios["nested"].engine.run(lambda hosted: hosted))
        states.append({row["name"]: row["state"] for row in hosted.portfolio.health()["learners"]})

    for text in (NESTED, NESTED + WIDE, NESTED, NESTED + WIDE, NESTED + WIDE + GONE, NESTED + GONE, NESTED + GONE):
        apply(text)
    service.close()
    first, again = "OFUL(d=8)", "OFUL(d=8) (2)"
    assert [(row.get(first), row.get(again), row.get("OFUL(d=3)")) for row in states] == [
        (None, None, None),
        ("active", None, None),
        ("removed", None, None),
        ("removed", "active", None),
        ("removed", "active", "active"),
        ("removed", "removed", "active"),
        ("removed", "removed", "active"),
    ]


def test_what_was_changed_at_run_time_stays(tmp_path: Path) -> None:
    """A learner that the file names and a client removed stays away; one that only a client added stays."""
    for way in ("reload", "restart"):
        service = Service(Tokens(), Settings(), open_in(tmp_path / way))
        asyncio.run(apply_file(service, *configs(NESTED)))
        engine = service.portfolios["nested"].engine
        asyncio.run(engine.run(lambda hosted: hosted.portfolio.add_learner(OFUL(3, name="extra"))))
        asyncio.run(engine.run(lambda hosted: hosted.portfolio.remove_learner("OFUL(d=4)")))
        longer, seen = NESTED.replace("deadline = 3", "deadline = 5"), ""
        for text in (longer, longer + GONE.replace("dim = 3", 'dim = 3\nname = "extra"'), longer):
            if way == "restart":
                service.close()
                service = Service(Tokens(), Settings(), open_in(tmp_path / way))
            asyncio.run(apply_file(service, *configs(text)))
            hosted = asyncio.run(service.portfolios["nested"].engine.run(lambda hosted: hosted))
            states = [row["state"] for row in hosted.portfolio.health()["learners"]]
            # Once the file has named the added learner, it leaves with the file.
            assert states == ["active", "removed", "removed" if text is longer and "extra" in seen else "active"]
            seen = text
        service.close()
