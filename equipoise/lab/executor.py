"""Runs independent tasks in this process, in local processes or on any executor of `concurrent.futures`.

A task is one call of a function. Function and argument are sent to the worker, so both must be picklable for local
processes: functions of a module, not lambdas. The result of a task depends on its argument alone, so results are the
same for any number of processes; only their order differs.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing.queues import SimpleQueue
from multiprocessing.reduction import ForkingPickler
from typing import TypeAlias, TypeVar

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.settings.checks import count

A = TypeVar("A")
R = TypeVar("R")
Jobs: TypeAlias = int | Executor  # number of local processes, or where else to run
Report: TypeAlias = Callable[[str, float], None]  # (current work, amount finished since the last report)
Work: TypeAlias = Callable[[A, Report], R]

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
POLL = 0.1  # seconds between reads of the reports of running tasks
_reports: SimpleQueue[tuple[str, float]] | None = None  # to the parent, in a process started here


def silent(what: str, amount: float) -> None:
    """Ignore reports."""


def checked_jobs(jobs: Jobs | None) -> Jobs:
    """The number of processes, one per core by default, or the executor that was given."""
    if isinstance(jobs, Executor):
        return jobs
    return os.cpu_count() or 1 if jobs is None else count("jobs", jobs)


@contextmanager
def run_tasks(
    work: Work[A, R], arguments: Sequence[A], *, jobs: Jobs, what: str = "task", report: Report = silent
) -> Iterator[Iterator[tuple[A, R]]]:
    """An iterator over arguments and their results as they finish.

    One job runs in this process. Leaving the context early, by an error or an interruption, cancels pending tasks
    and ends the local processes. Reports of local processes arrive while tasks run, those of other executors with the
    results. `what` names the work in messages.
    """
    if isinstance(jobs, Executor):
        results = _as_finished(jobs, work, arguments, report)
    elif jobs == 1 or len(arguments) <= 1:
        results = ((argument, work(argument, report)) for argument in arguments)
    else:
        _check_sendable(what, (work, arguments))
        results = _in_processes(min(jobs, len(arguments)), work, arguments, report)
    with closing(results):
        yield results


def _in_processes(
    n_processes: int, work: Work[A, R], arguments: Sequence[A], report: Report
) -> Generator[tuple[A, R], None, None]:
    context = multiprocessing.get_context("spawn")  # forking is unsafe once a library has started threads
    reports: SimpleQueue[tuple[str, float]] = context.SimpleQueue()
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(n_processes, context, initializer=_start_process, initargs=(reports,))
    try:
        yield from _as_finished(pool, work, arguments, report, reports)
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise EquipoiseError(
                "a process ended before its task: it ran out of memory or was killed, or it could not import the "
                'script that started it (which must start work only under `if __name__ == "__main__":`)'
            ) from error
        raise
    pool.shutdown()


def _as_finished(
    executor: Executor,
    work: Work[A, R],
    arguments: Sequence[A],
    report: Report,
    reports: SimpleQueue[tuple[str, float]] | None = None,
) -> Generator[tuple[A, R], None, None]:
    with _one_thread_per_process():
        futures = {executor.submit(_perform, work, argument): argument for argument in arguments}
    waiting = set(futures)
    try:
        while waiting:
            finished, waiting = wait(waiting, timeout=POLL, return_when=FIRST_COMPLETED)
            while reports is not None and not reports.empty():
                report(*reports.get())
            for future in finished:
                result, kept = future.result()
                for each in kept:
                    report(*each)
                yield futures[future], result
    finally:
        for future in waiting:
            future.cancel()


def _perform(work: Work[A, R], argument: A) -> tuple[R, list[tuple[str, float]]]:
    """Runs in the worker; returns the result and the reports that could not be sent immediately."""
    kept: list[tuple[str, float]] = []
    send = kept.append if _reports is None else _reports.put
    return work(argument, lambda what, amount: send((what, amount))), kept


def _start_process(reports: SimpleQueue[tuple[str, float]]) -> None:
    global _reports
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    _reports = reports


@contextmanager
def _one_thread_per_process() -> Iterator[None]:
    """Processes started meanwhile use one thread each for linear algebra, as between them they use all cores."""
    added = [name for name in ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _check_sendable(what: str, task: object) -> None:
    """Raise an error if another process could not load the task."""
    try:
        data = bytes(ForkingPickler.dumps(task))
    except Exception as error:  # pickling may raise anything
        raise InvalidArgument(
            f"{what} cannot be sent to another process ({' '.join(str(error).split())}): define its functions and "
            "classes at the top of a module, not inside functions or as lambdas, or use one job"
        ) from error
    if b"__main__" in data and not hasattr(sys.modules["__main__"], "__file__"):
        raise InvalidArgument(
            f"{what} cannot be sent to another process, as it was defined interactively: define it in a module, or "
            "use one job"
        )
