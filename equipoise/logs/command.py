"""A whole replay: health of the log, each learner, and the portfolio."""

from __future__ import annotations

from equipoise.config import PortfolioConfig
from equipoise.logs.health import health
from equipoise.logs.replay import Progress, no_progress, replay, replay_portfolio, summarize
from equipoise.logs.report import Result
from equipoise.logs.rounds import LoggedRounds


def run(
    log: LoggedRounds,
    config: PortfolioConfig,
    *,
    method: str = "progressive",
    seed: int = 0,
    progress: Progress = no_progress,
) -> Result:
    """Replay a log for the learners of a configuration, each alone, and for the portfolio.

    Parameters
    ----------
    log
        The log.
    config
        The portfolio.
    method
        "progressive" or "rejection", for the learners; the portfolio is always replayed by rejection.
    seed
        Seed of learners and of thinning.
    progress
        Called with the name of the step and the share of the work done since the last call.
    """
    progress("checking", 0.0)
    found = health(log)
    halved = _scaled(progress, 0.5)
    learners = replay(log, config.learners(), method=method, seed=seed, progress=halved)
    portfolio = replay_portfolio(log, config.portfolio, config.n_learners, seed=seed, progress=halved)
    settings = {"portfolio": config.name, "method": method, "seed": seed}
    return Result(log, found, learners, tuple(summarize(learners)), portfolio, settings)


def _scaled(progress: Progress, share: float) -> Progress:
    return lambda what, done: progress(what, share * done)
