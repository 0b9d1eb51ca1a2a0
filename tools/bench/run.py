"""Runs the whole benchmark and gives its figures as plain data."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from tools.bench import contest, feature_maps, linucb, machine, peers, runs, starts
from tools.bench.linucb import contender_row
from tools.bench.peers import ROOT
from tools.bench.samples import Benchmark, Figure, Line
from tools.bench.scale import Scale

VERSION = 1  # of the file of figures
Progress = Callable[[str], None]


def run(scale: Scale, *, yardstick: Path | None, python: Path, progress: Progress) -> Benchmark:
    """`yardstick` is a bare loop from outside, `python` the interpreter of the environment of the other libraries."""
    facts, start = machine.facts(), perf_counter()
    loops = ROOT / "tools" / "benchmarks" if (ROOT / "tools" / "benchmarks" / "bare_loop.py").is_file() else None
    contest_rows = contend(scale, loops, yardstick, python, progress)
    selection_rows = contend_in_selection(scale, loops, python, progress)
    figures: list[Figure] = []
    for measure in (
        runs.nested_figures,
        runs.selector_figures,
        runs.horizon_figures,
        runs.episode_figures,
        runs.step_figures,
        starts.start_figures,
    ):
        for row in measure(scale):
            figures.append(row)
            progress(f"{row['group']}: {row['name']}")
    return {
        "version": VERSION,
        "scale": scale.name,
        "machine": facts,
        "seconds": round(perf_counter() - start),
        "contest": contest_rows,
        "selection": selection_rows,
        "figures": figures,
    }


def contend(scale: Scale, loops: Path | None, yardstick: Path | None, python: Path, progress: Progress) -> list[Line]:
    """A line per contender of the LinUCB contest."""
    entries = linucb.entries(loops, yardstick)
    rows = [contender_row(entry.name, entry.runs) for entry in entries]
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for shape in scale.shapes:
            progress(f"LinUCB with d = {shape.dim}, K = {shape.n_actions}")
            problems = [linucb.make_problem(shape.dim, shape.n_actions, seed) for seed in range(scale.repeats)]
            instances = [
                (problem, linucb.make_rounds(problem, shape.rounds, seed)) for seed, problem in enumerate(problems)
            ]
            for row, result in zip(rows, linucb.measure_shape(entries, shape, instances, scale), strict=True):
                row["results"].append(result)
            files[shape] = [Path(folder) / f"{shape.dim}-{shape.n_actions}-{seed}.npz" for seed in range(scale.repeats)]
            for (_, rounds), path in zip(instances, files[shape], strict=True):
                contest.save(rounds, path)
        for adapter in [] if loops is None else peers.adapters(loops / "peers"):
            progress(f"LinUCB by {adapter.stem}")
            rows.append(peers.measure_peer(python, adapter, files, scale.timeout))
    return rows


def contend_in_selection(scale: Scale, loops: Path | None, python: Path, progress: Progress) -> list[Line]:
    """A line per contender of the contest of feature maps."""
    progress("Selection among feature maps")
    instances = [feature_maps.make_rounds(scale.map_rounds, seed) for seed in range(scale.repeats)]
    rows = feature_maps.measure(instances, scale)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"maps-{seed}.npz" for seed in range(scale.repeats)]
        for rounds, path in zip(instances, paths, strict=True):
            contest.save(rounds, path)
        for adapter in [] if loops is None else peers.adapters(loops / "selection"):
            progress(f"Selection among feature maps by {adapter.stem}")
            rows.append(peers.measure_peer(python, adapter, {feature_maps.shape_of(scale): paths}, scale.timeout))
    return rows
