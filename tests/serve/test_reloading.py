"""Files that are read again while the service runs: a file that is rejected changes nothing."""

import asyncio
import logging
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from equipoise.errors import InvalidArgument
from equipoise.serve.reloading import apply_file
from equipoise.serve.server import reload_files
from equipoise.serve.service import Service, Settings, open_in_memory
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


def facts(service: Service) -> tuple[tuple[str, ...], object]:
    hosted = asyncio.run(service.portfolios["nested"].engine.run(lambda hosted: hosted))
    return hosted.portfolio.learner_names, hosted.portfolio.settings.deadline


def test_a_change_of_several_parts_is_taken_in_as_a_whole_or_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    """The deadline and the first learner were applied, and that learner once more with every later change."""
    caplog.set_level(logging.INFO, "equipoise")
    service = Service(Tokens(), Settings(), open_in_memory)
    longer = NESTED.replace("deadline = 3", "deadline = 5")
    refused, accepted = configs(longer + WIDE + GONE, longer + WIDE)
    for text in (NESTED + GONE, NESTED):
        asyncio.run(apply_file(service, *configs(text)))
    before = facts(service)
    caplog.clear()
    with pytest.raises(InvalidArgument, match=r"learner 'OFUL\(d=3\)' exists, or did and was removed"):
        asyncio.run(apply_file(service, refused))
    assert facts(service) == before
    assert not [message for message in caplog.messages if not message.startswith("The selector is")]
    caplog.clear()
    asyncio.run(apply_file(service, accepted))
    kinds = [message.partition(":")[0] for message in caplog.messages if not message.startswith("The selector is")]
    assert kinds == ["config", "learner_added"]
    assert facts(service) == (("OFUL(d=2)", "OFUL(d=4)", "OFUL(d=3)", "OFUL(d=8)"), 5)


def test_a_second_file_of_the_same_name_is_rejected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would change the portfolio of the first file, which would change it back."""
    service = Service(Tokens(), Settings(), open_in_memory)
    for name, text in (("a.toml", NESTED), ("b.toml", NESTED + WIDE)):
        (tmp_path / name).write_text(text)
    with caplog.at_level(logging.ERROR, "equipoise.serve"):
        asyncio.run(reload_files(service, tmp_path, tmp_path / "tokens.json"))
    assert facts(service)[0] == ("OFUL(d=2)", "OFUL(d=4)")
    assert [record.getMessage().partition(": reload rejected: ")[2] for record in caplog.records] == [
        "name is 'nested', but must differ from those of the other portfolios"
    ]


def test_a_name_that_was_used_is_refused_and_a_learner_that_is_gone_may_leave_the_file() -> None:
    service = Service(Tokens(), Settings(), open_in_memory)
    both, again = configs(NESTED + WIDE, NESTED + WIDE)
    (first,) = configs(NESTED)
    asyncio.run(apply_file(service, both))
    asyncio.run(apply_file(service, first))
    with pytest.raises(InvalidArgument, match=r"learner 'OFUL\(d=8\)' exists, or did and was removed"):
        asyncio.run(apply_file(service, again))
    assert facts(service)[0] == ("OFUL(d=2)", "OFUL(d=4)", "OFUL(d=8)")  # the last one is removed
    (fewer,) = configs(NESTED.replace('[[learner]]\nuse = "OFUL"\ndim = 4\n', ""))
    engine = service.portfolios["nested"].engine
    asyncio.run(engine.run(lambda hosted: hosted.portfolio.remove_learner("OFUL(d=4)")))
    asyncio.run(apply_file(service, fewer))  # it was removed at run time before
