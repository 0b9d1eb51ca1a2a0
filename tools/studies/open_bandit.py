"""The value of the random policy, estimated from the log of Thompson sampling, on the Open Bandit sample.

    pip download obp==0.4.1 --no-deps --python-version 3.9 --only-binary=:all:
    python -m tools.studies.open_bandit obp-0.4.1-py3-none-any.whl

Only the data files of the wheel are used (CC BY 4.0). Both policies ran at the same time, so the click rate of the
random one is known.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from equipoise.logs import open_log
from equipoise.logs.estimators import ESTIMATORS
from equipoise.logs.health import health
from equipoise.logs.models import evaluate, uniform
from tools.main import run_command

DATA = "obp/dataset/obd"  # in the wheel
CAMPAIGNS = ("all", "men", "women")


def run(wheel: Annotated[Path, typer.Argument(help="obp-0.4.1-py3-none-any.whl")]) -> None:
    """Print one table per campaign."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(f"{DATA}/")])
        report(Path(folder, DATA))


def report(folder: Path) -> None:
    for campaign in CAMPAIGNS:
        thompson = open_log(folder / "bts" / campaign / f"{campaign}.csv")
        clicks = np.concatenate([batch.rewards for batch in open_log(folder / "random" / campaign / f"{campaign}.csv")])
        evaluation = evaluate(thompson, uniform, reward_range=(0.0, 1.0))
        state = "passes" if health(thompson).passed else "fails"
        print(f"\n{campaign}: {thompson.n_rounds:,} rounds, {thompson.n_actions} actions; log {state} the health check")
        print(
            f"effective rounds {evaluation.effective_sample_size:,.0f}, largest weight {evaluation.weights.max():,.0f}"
        )
        print(f"observed click rate {clicks.mean():.4f} ± {clicks.std() / np.sqrt(len(clicks)):.4f}")
        for name, estimator in ESTIMATORS.items():
            estimate = estimator(evaluation)
            low, high = estimate.bootstrap()
            inside = "contains it" if low <= clicks.mean() <= high else "misses it"
            line = f"{name:12} {estimate.value:.4f}  bootstrap {low:.4f} to {high:.4f} {inside}"
            if "betting" not in estimate.refusals:
                line += f"; betting {estimate.betting().low:.4f} to {estimate.betting().high:.4f}"
            print(line)


if __name__ == "__main__":
    run_command(run)
