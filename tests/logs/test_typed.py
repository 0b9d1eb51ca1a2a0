"""Logs of Azure Personalizer, replayed and learned by the portfolio of the file that is made for it."""

import json
import tomllib

import numpy as np
import pytest

from equipoise.config import PortfolioConfig, parse
from equipoise.logs import LoggedRounds, open_log
from equipoise.logs.replay import replay, summarize
from equipoise.serve.azure import portfolio_file
from tests.logs.generate import write_lines

CONFIGURATION = {
    "rewardWaitTime": "PT10M",
    "defaultReward": 0,
    "rewardAggregation": "earliest",
    "explorationPercentage": 0.2,
}
KINDS = {"reader": "News", "fan": "Sports", "listener": "Music"}


@pytest.fixture(scope="module")
def config() -> PortfolioConfig:
    return parse(tomllib.loads(portfolio_file(json.dumps(CONFIGURATION), "news")))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, config: PortfolioConfig) -> LoggedRounds:
    """Uniformly random actions, of which each kind of user wants one."""
    rng, lines = np.random.default_rng(0), []
    multi = [{"_tag": id_, "i": {"constant": 1, "id": id_}, "j": [{"kind": id_}]} for id_ in KINDS.values()]
    for t in range(400):
        kind, action = list(KINDS)[int(rng.integers(3))], int(rng.integers(3))
        order = [action + 1, *(k + 1 for k in range(3) if k != action)]
        lines.append(
            {
                "_label_cost": -float(KINDS[kind] == list(KINDS.values())[action]),
                "_label_probability": 1 / 3,
                "_label_Action": action + 1,
                "_labelIndex": action,
                "EventId": f"event {t}",
                "a": order,
                "p": [1 / 3] * 3,
                "c": {"FromUrl": [{"user": {"kind": kind}}, {"hour": t % 24}], "_multi": multi},
            }
        )
    path = write_lines(tmp_path_factory.mktemp("log") / "log.json", lines)
    return open_log(path, schema=config.settings.schema)


@pytest.mark.slow
@pytest.mark.compiled
def test_a_log_says_what_each_learner_would_have_earned(log: LoggedRounds, config: PortfolioConfig) -> None:
    policy, oful, _, popular = summarize(replay(log, config.learners()))
    assert policy.value == pytest.approx(1 / 3, abs=0.08)
    assert oful.value > 0.7 > 0.5 > popular.value


@pytest.mark.slow
def test_learners_start_with_what_a_log_teaches(log: LoggedRounds, config: PortfolioConfig) -> None:
    portfolio = config.portfolio()
    warmed = portfolio.warm_start(log)
    assert [each.reason for each in warmed.learners] == ["as logged"] * 3
    schema, right = portfolio.settings.schema, 0
    assert schema is not None
    oful = portfolio.learners[0]
    for kind, wanted in KINDS.items():
        rows = [{"id": id_, "kind": id_} for id_ in KINDS.values()]
        proposal = oful.decide(schema.offers({"user": {"kind": kind}, "hour": 3}, rows, ids=list(KINDS.values())))
        right += list(KINDS.values())[proposal.greedy] == wanted
    assert right == 3
