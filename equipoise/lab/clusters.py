"""Clusters as executors: `open_executor` connects to Dask or Ray by an address and closes the connection at the end.

Both start a task again on another worker if its worker is lost, so a task whose worker is killed changes no result.
Workers need the same versions of equipoise and NumPy as this process; results are then the same bytes everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from equipoise.errors import EquipoiseError, InvalidArgument, require

CONNECT_SECONDS = 10
MAX_RETRIES = 3  # of a task whose worker was lost
FORMS = "local, dask://HOST:PORT, ray or ray://HOST:PORT"


@contextmanager
def open_executor(address: str | None) -> Iterator[Executor | None]:
    """The executor of an address; None for "local" and None, which stand for processes of this machine."""
    if address is None or address == "local":
        yield None
        return
    if address == "ray":
        connection = _ray(None)
    else:
        scheme, host_and_port = _split(address)
        connection = _dask(host_and_port) if scheme == "dask" else _ray(f"ray://{host_and_port}")
    with connection as executor:
        yield executor


def _split(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = None
    plain = not (parts.path or parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("dask", "ray") or not parts.hostname or port is None or not plain:
        raise InvalidArgument(f"executor is {address!r}, but must be {FORMS}")
    return parts.scheme, parts.netloc


@contextmanager
def _dask(host_and_port: str) -> Iterator[Executor]:
    require("an executor of Dask", "distributed")
    from distributed import Client

    try:
        client = Client(f"tcp://{host_and_port}", timeout=CONNECT_SECONDS, set_as_default=False)
    except OSError as error:
        raise EquipoiseError(
            f"no scheduler of Dask answers at {host_and_port}: {' '.join(str(error).split())}"
        ) from None
    with client:
        yield client.get_executor(pure=False)


@contextmanager
def _ray(address: str | None) -> Iterator[Executor]:
    require("an executor of Ray", "ray")
    import ray

    try:
        connection: Any = ray.init(address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError) as error:
        raise EquipoiseError(f"no cluster of Ray answers at {address}: {' '.join(str(error).split())}") from None
    with connection, RayExecutor() as executor:
        yield executor


class RayExecutor(Executor):
    """Tasks on the cluster of Ray that this process is connected to, one CPU each."""

    def __init__(self) -> None:
        import ray

        self._cancel: Callable[..., None] = ray.cancel
        self._remote = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_call)
        self._waiting: dict[Future[Any], Any] = {}

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        reference = self._remote.remote(function, arguments, options)
        future: Future[Any] = reference.future()
        self._waiting[future] = reference
        future.add_done_callback(lambda done: self._waiting.pop(done, None))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel what has no result yet: nobody asks for it any more."""
        for reference in list(self._waiting.values()):
            self._cancel(reference)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return function(*arguments, **options)
