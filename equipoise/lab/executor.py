"""Runs independent tasks in this process, in local processes or on any executor of `concurrent.futures`.

A task is one call of a function. Function and argument are sent to the worker, so both must be picklable for local
processes: functions of a module, not lambdas. The result of a task depends on its argument alone, so results are the
same for any number of processes; only their order differs.

If a local process is lost (killed, or out of memory), its pool is gone: a new one performs whatever has no result yet.
Clusters do that themselves.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import partial
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
Message: TypeAlias = tuple[int, str, float]  # (number of the task, current work, amount)

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MAX_LOSSES = 2  # pools that may break one after the other without a result in between
POLL = 0.1  # seconds between reads of the reports of running tasks
_reports: SimpleQueue[Message] | None = None  # to the parent, in a process started here


def silent(what: str, amount: float) -> None:
    """Ignore reports."""


def checked_jobs(jobs: Jobs | None, executor: Executor | None = None) -> Jobs:
    """The executor, if one is given, else the number of processes, one per core by default."""
    if executor is not None:
        if not isinstance(executor, Executor):
            raise InvalidArgument(f"executor is {executor!r:.80}, but must be an Executor of concurrent.futures")
        if jobs is not None:
            raise InvalidArgument(f"jobs is {jobs!r:.80}, but must not be given together with executor")
        return executor
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
        results = _on_executor(jobs, work, arguments, report)
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
    waiting = dict(enumerate(arguments))
    n_losses = 0  # in a row, without a result in between
    while waiting:
        reports: SimpleQueue[Message] = context.SimpleQueue()
        told = dict.fromkeys(waiting, 0.0)
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(n_processes, context, initializer=_start_process, initargs=(reports,))
        try:
            for index, result in _as_finished(pool, work, waiting, partial(_count, report, told), reports):
                argument = waiting.pop(index)
                n_losses = 0
                yield argument, result
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            if not isinstance(error, BrokenProcessPool):
                raise
            n_losses += 1
            if n_losses > MAX_LOSSES:
                raise EquipoiseError(
                    "a process ended before its task: it ran out of memory or was killed, or it could not import the "
                    'script that started it (which must start work only under `if __name__ == "__main__":`)'
                ) from error
            report("a process was lost; its tasks start again", -sum(told[index] for index in waiting))
        else:
            pool.shutdown()


def _count(report: Report, told: dict[int, float], index: int, what: str, amount: float) -> None:
    """Pass a report on and count it by task, so that the reports of a lost task can be taken back."""
    told[index] = told.get(index, 0.0) + amount
    report(what, amount)


def _on_executor(
    executor: Executor, work: Work[A, R], arguments: Sequence[A], report: Report
) -> Generator[tuple[A, R], None, None]:
    numbered = dict(enumerate(arguments))
    for index, result in _as_finished(executor, work, numbered, lambda _, what, amount: report(what, amount)):
        yield numbered[index], result


def _as_finished(
    executor: Executor,
    work: Work[A, R],
    arguments: Mapping[int, A],
    report: Callable[[int, str, float], None],
    reports: SimpleQueue[Message] | None = None,
) -> Generator[tuple[int, R], None, None]:
    with _one_thread_per_process():
        futures = {executor.submit(_perform, work, index, argument): index for index, argument in arguments.items()}
    waiting = set(futures)
    try:
        while waiting:
            finished, waiting = wait(waiting, timeout=POLL, return_when=FIRST_COMPLETED)
            while reports is not None and not reports.empty():
                report(*reports.get())
            # Results before errors: a lost process fails all tasks that are not finished.
            for future in sorted(finished, key=lambda each: each.exception() is not None):
                result, kept = future.result()
                for each in kept:
                    report(*each)
                yield futures[future], result
    finally:
        for future in waiting:
            future.cancel()


def _perform(work: Work[A, R], index: int, argument: A) -> tuple[R, list[Message]]:
    """Runs in the worker; returns the result and the reports that could not be sent immediately."""
    kept: list[Message] = []
    send = kept.append if _reports is None else _reports.put
    return work(argument, lambda what, amount: send((index, what, amount))), kept


def _start_process(reports: SimpleQueue[Message]) -> None:
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
