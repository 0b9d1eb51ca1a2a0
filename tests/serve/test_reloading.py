"""Files that are read again while the service runs: a file that is rejected changes nothing."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL
from equipoise.serve.reloading import apply_file, reopen
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


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("copy", [NESTED + WIDE, 'version = \nname = "nested"\n'])
@pytest.mark.parametrize("name", ["a.toml", "nested.copy.toml"])
def test_files_with_the_same_name_are_all_refused_at_a_start(name: str, copy: str, tmp_path: Path) -> None:
    """Each would change what the others say: the copy that someone left was served, if its name came first."""
    service = Service(Tokens(), Settings(), open_in(tmp_path / "data"))
    write(tmp_path, {"nested.toml": NESTED, "other.toml": NESTED.replace('"nested"', '"other"'), name: copy})
    for _ in range(2):
        asyncio.run(reload_files(service, tmp_path, tmp_path / "tokens.json"))
        assert list(service.portfolios) == ["other"] and list(service.failed) == ["nested"]
        cause = f"name is 'nested' in {' and '.join(sorted(['nested.toml', name]))}, but must differ"
        assert cause in service.failed["nested"].reason and service.ready
        with pytest.raises(InvalidArgument, match=cause):
            asyncio.run(reopen(service, "nested"))
    assert not (tmp_path / "data" / "nested.db").exists()
    (tmp_path / name).unlink()
    asyncio.run(reload_files(service, tmp_path, tmp_path / "tokens.json"))
    assert facts(service)[0] == ("OFUL(d=2)", "OFUL(d=4)") and not service.failed
    service.close()


@pytest.mark.parametrize("name", ["a.toml", "z.toml"])
def test_a_file_that_takes_the_name_of_another_one_changes_nothing(name: str, tmp_path: Path) -> None:
    """The learners of the portfolio left for those of the file, and its own portfolio was not served any more."""
    own = NESTED.replace('"nested"', '"own"')
    service = Service(Tokens(), Settings(), open_in(tmp_path / "data"))
    write(tmp_path, {"nested.toml": NESTED, name: own})
    asyncio.run(reload_files(service, tmp_path, tmp_path / "tokens.json"))
    before = facts(service)
    for text in (NESTED + WIDE, own + 'seed = "'):
        write(tmp_path, {name: text})
        asyncio.run(reload_files(service, tmp_path, tmp_path / "tokens.json"))
        assert sorted(service.portfolios) == ["nested", "own"] and not service.failed and facts(service) == before
        assert service.portfolios["own"].rejected
        assert (service.portfolios["nested"].rejected != "") == (text == NESTED + WIDE)
    write(tmp_path, {name: own})
    asyncio.run(reload_files(service, tmp_path, tmp_path / "tokens.json"))
    assert not any(served.rejected for served in service.portfolios.values()) and facts(service) == before
    service.close()


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
