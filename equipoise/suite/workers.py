"""Processes that work through tasks, each preferring tasks that run on what it has compiled already.

Compiling a driver takes as long as dozens of runs, so it matters who does what. A process that is free takes a task
whose drivers it knows, else one of the drivers that are waiting longest and that nobody else is at work on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from equipoise.suite.cells import Task, drivers_of, perform
from equipoise.suite.results import Row

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def work_through(tasks: Sequence[Task], tape_folder: Path, n_jobs: int) -> Iterator[tuple[Task, list[Row]]]:
    """Tasks with their rows as they are finished, in any order."""
    if n_jobs == 1 or len(tasks) <= 1:
        waiting, known = list(tasks), set[str]()
        while waiting:
            task = _next(waiting, known, Counter())
            yield task, perform(task, tape_folder)
        return
    for name in ONE_THREAD:  # inherited by the processes, which between them use all cores
        os.environ.setdefault(name, "1")
    yield from _in_processes(list(tasks), tape_folder, min(n_jobs, len(tasks)))


def _in_processes(waiting: list[Task], tape_folder: Path, n_jobs: int) -> Iterator[tuple[Task, list[Row]]]:
    context = multiprocessing.get_context("spawn")
    pools = [ProcessPoolExecutor(1, context, initializer=_start) for _ in range(n_jobs)]
    known: list[set[str]] = [set() for _ in pools]
    busy: dict[Future[list[Row]], tuple[int, Task]] = {}

    def start(worker: int) -> None:
        at_work = Counter(drivers_of(task) for _, task in busy.values())
        if waiting:
            task = _next(waiting, known[worker], at_work)
            busy[pools[worker].submit(perform, task, tape_folder)] = worker, task

    try:
        for worker in range(n_jobs):
            start(worker)
        while busy:
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                worker, task = busy.pop(future)
                rows = future.result()
                start(worker)
                yield task, rows
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        if busy:
            for process in multiprocessing.active_children():
                process.terminate()


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends its workers


def _next(waiting: list[Task], known: set[str], at_work: Counter[str]) -> Task:
    """Take a task off the list for a process that has compiled the drivers `known`."""
    left = Counter[str]()
    for task in waiting:
        left[drivers_of(task)] += task.n_runs
    drivers = next((drivers_of(task) for task in waiting if drivers_of(task) in known), None)
    if drivers is None:
        free = [drivers_of(task) for task in waiting if not at_work[drivers_of(task)]]
        drivers = free[0] if free else max(left, key=lambda each: left[each])
    known.add(drivers)
    position = next(i for i, task in enumerate(waiting) if drivers_of(task) == drivers)
    return waiting.pop(position)
