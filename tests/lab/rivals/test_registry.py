"""Rivals run in simulations only: registered apart, unknown to files, refused by portfolios."""

import pkgutil
from pathlib import Path

import pytest

from equipoise import config
from equipoise.bounds import Power
from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.journal import open as open_journal
from equipoise.lab import rivals
from equipoise.lab.rivals import OSOM, RIVAL_LEARNERS, RIVAL_SELECTORS, UCBC
from equipoise.lab.runs.results import log_rounds
from equipoise.learners import OFUL, UCB
from equipoise.portfolio import Portfolio
from equipoise.problems import KArmedBandit
from equipoise.simulation.joint import run_jointly
from equipoise.storage.registry import builtin_classes
from tests.simulation.plain import Plain

SHARED = {"selecting", "smoothing"}


def test_every_file_holds_one_registered_rival_or_what_they_share() -> None:
    classes = [*RIVAL_LEARNERS.values(), *RIVAL_SELECTORS.values()]
    homes = {cls.__module__.rpartition(".")[2] for cls in classes}
    assert homes | SHARED == {module.name for module in pkgutil.iter_modules(rivals.__path__)}
    assert not homes & SHARED and len(homes) == len(classes)
    assert all(cls.simulation_only for cls in classes)
    assert {cls.__name__ for cls in classes} | {"RIVAL_LEARNERS", "RIVAL_SELECTORS"} == set(rivals.__all__)


@pytest.mark.parametrize("kind", ["learners", "selectors"])
def test_nothing_else_is_for_simulations_only(kind: str) -> None:
    found = builtin_classes(kind)
    assert not found.keys() & {*RIVAL_LEARNERS, *RIVAL_SELECTORS}
    assert not [name for name, cls in found.items() if vars(cls).get("simulation_only", False)]


def test_a_file_cannot_name_them(tmp_path: Path) -> None:
    path = tmp_path / "portfolio.toml"
    for text in (
        'version = 1\nname = "shop"\n[selector]\nuse = "RateAdaptive"\n[[learner]]\nuse = "UCB"\narms = 3\n',
        'version = 1\nname = "shop"\n[[learner]]\nuse = "OSOM"\narms = 3\ndim = 2\n',
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(EquipoiseError, match=r"is (RateAdaptive|OSOM), which runs in simulate\(\) only"):
            config.read(path).portfolio()


def test_a_learner_cannot_join_a_running_portfolio() -> None:
    portfolio = Portfolio([OFUL(2), OFUL(3)])
    with pytest.raises(InvalidArgument, match="learner is a OSOM, which runs in simulate"):
        portfolio.add_learner(OSOM(3, dim=2))
    assert portfolio.learner_names == ("OFUL(d=2)", "OFUL(d=3)")


def test_own_learners_run_with_a_rival_in_plain_python() -> None:
    learners = [Plain(UCB(2, scale=scale)) for scale in (0.1, 1.0)]
    selector = UCBC([Power(1.0)] * 2, rounds=50)
    curves, _ = run_jointly(KArmedBandit([0.2, 0.7]), learners, selector, log_rounds(50), 0)
    assert curves.plays[-1].sum() == 50 and sum(row.plays for row in selector.standing()) == 50


def test_a_journal_refuses_them_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with pytest.raises(InvalidArgument, match="selector is a UCBC, which runs in simulate"):
        open_journal(path, lambda: Portfolio([UCB(2), UCB(2)], UCBC([Power(1.0)] * 2, rounds=9)))
