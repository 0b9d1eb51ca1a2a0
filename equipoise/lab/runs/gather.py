"""What a figure draws, gathered from the data frames of a run over all its seeds."""

from __future__ import annotations

import numpy as np

from equipoise.lab.report.panels import Curves, Mark
from equipoise.lab.runs.results import Results
from equipoise.lab.runs.summary import rows_of


def curves_over_seeds(results: Results, kind: str, instance: str = "") -> list[Curves]:
    """The curves of one kind, each gathered over seeds, in the order of the run."""
    found, n_learners = [], len(rows_of(results.summary, "learners", instance))
    curves = results.curves_of(instance).filter(kind=kind)
    for row in rows_of(results.summary, f"{kind}s", instance):
        rows = curves.filter(curve=row["name"]).sort("seed", "round")
        rounds = rows["round"].unique().sort().to_numpy()
        shape = (-1, len(rounds))
        found.append(
            Curves(
                row["name"],
                rounds,
                rows["regret"].to_numpy().reshape(shape),
                None if rows["certified_regret"].null_count() else rows["certified_regret"].to_numpy().reshape(shape),
                None if rows["plays"].null_count() else np.array(rows["plays"].to_list()).reshape(*shape, n_learners),
                row.get("well_specified_share", 1.0) < 0.5,
            )
        )
    return found


def elimination_marks(results: Results, selector: str, instance: str = "") -> list[Mark]:
    """The learners that a selector eliminated in some seed, by median round."""
    rounds: dict[tuple[int, str], list[int]] = {}
    for record in results.eliminations_of(instance).filter(selector=selector).to_dicts():
        rounds.setdefault((record["learner"]["index"], record["learner"]["name"]), []).append(record["round"])
    marks = [Mark(index, name, float(np.median(found)), len(found)) for (index, name), found in rounds.items()]
    return sorted(marks, key=lambda mark: (mark.median_round, mark.learner))
