"""Applying the files of portfolios: at a start, and again while the service runs.

Both are `apply_files`. What is safe to change is changed, as `declaring` says. A file that is refused concerns its own
portfolio only: one that is running stays as it is, with the settings that it has; one that is not answers 503. Files
with the same name are all refused, as each would change what the others say.
"""

from __future__ import annotations

import asyncio
import logging
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equipoise.config import SERVED_NAME, PortfolioConfig, check_served, config_files, read
from equipoise.errors import InvalidArgument, StoreConflict, UnreadableFile
from equipoise.journal.declaring import Plan
from equipoise.serve.contexts import ContextReader
from equipoise.serve.failures import Refused
from equipoise.serve.hosted import Hosted
from equipoise.serve.service import Failed, Run, Served, Service, describe
from equipoise.settings.sizes import arrays_of_at_most

logger = logging.getLogger("equipoise.serve")
NAME = re.compile(r"""^\s*name\s*=\s*["']([a-z0-9_-]{1,64})["']""", re.MULTILINE)


async def here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function at once, where nothing else has to go on meanwhile: a signal can end it."""
    return function(*arguments)


class Declared(NamedTuple):
    """What a file says: the name of a portfolio, as far as it is known, and the rest, or why that is refused."""

    file: Path
    name: str | None
    content: PortfolioConfig | Exception


def _declared(file: Path) -> Declared:
    try:
        config = read(file)
        check_served(config, ())
    except Exception as error:
        return Declared(file, name_in(file), error)
    return Declared(file, config.name, config)


async def apply_files(service: Service, path: Path, run: Run = asyncio.to_thread) -> None:
    """Serve what the files say: open new portfolios and failed ones, change others, and close those without a file."""
    async with service.changes:
        declared = [await run(_declared, file) for file in files_of(service, path)]
        claims: dict[str, list[Path]] = {}
        for file, name, _ in declared:
            if name is not None:
                claims.setdefault(name, []).append(file)
        names = set[str]()
        for file, name, content in sorted(declared, key=_is_refused):
            if name is not None and len(claims[name]) > 1:
                names |= _refuse_shared(service, name, file, claims[name])
            elif isinstance(content, PortfolioConfig):
                names.add(await _apply(service, file, content, run))
            else:
                names.add(_refuse(service, _name_of(service, file, name, names), content, file))
        for name in [*service.portfolios, *service.failed]:
            if name not in names and name not in service.created:
                await service.remove(name, run)
                logger.info("%s has no file any more and is not served; its journal is kept", name)


def files_of(service: Service, path: Path) -> list[Path]:
    """Return the files of all portfolios: those at `path`, and the documents of the created ones."""
    created = service.created.files()
    if created and path.is_dir() and not any(path.glob("*.toml")):
        return created
    return [*config_files(path), *created]


async def create(
    service: Service, document: Mapping[str, Any], config: PortfolioConfig, run: Run = asyncio.to_thread
) -> None:
    """Serve a new portfolio, whose document is kept."""
    name, created = config.name, service.created
    async with service.changes:
        if service.stopping:
            raise Refused(503, "stopped", "the service is stopping", {"Retry-After": "5"})
        if name in service.portfolios or name in service.failed or name in created:
            raise Refused(409, "duplicate-portfolio", f"portfolio {name!r} exists")
        if created.leftovers(name):
            detail = f"a journal of an earlier portfolio {name!r} is kept: give another name, or move the journal away"
            raise Refused(409, "kept-journal", detail)
        if len(service.names) >= service.settings.max_portfolios:
            detail = f"{len(service.names)} portfolios are served, which is the maximum: archive one"
            raise Refused(409, "too-many-portfolios", detail)
        file = await run(created.add, name, document)
        try:
            await service.reopen(config, file, run)
        except BaseException as error:
            await run(created.discard, name)
            if isinstance(error, StoreConflict):
                raise InvalidArgument(str(error)) from error
            raise
    logger.info("%s was created", name)


async def archive(service: Service, name: str, run: Run = asyncio.to_thread) -> None:
    """Serve a created portfolio no more, and move its document and its journal to the archive."""
    async with service.changes:
        known: Served | Failed | None = service.portfolios.get(name) or service.failed.get(name)
        if known is None:
            raise Refused(404, "unknown-portfolio", "there is no portfolio of this name")
        if name not in service.created or known.file != service.created.file(name):
            where = "" if known.file is None else f" {known.file.name}"
            detail = f"portfolio {name!r} comes from a file{where}: remove the file, then send SIGHUP"
            raise Refused(409, "portfolio-of-a-file", detail)
        await service.remove(name, run)
        await run(service.created.archive, name)
    logger.info("%s was archived", name)


def _is_refused(declared: Declared) -> bool:
    return isinstance(declared.content, Exception)


async def _apply(service: Service, file: Path, config: PortfolioConfig, run: Run) -> str:
    """Apply a file; return the name of its portfolio."""
    is_new = config.name not in service.portfolios
    try:
        if await apply_file(service, config, file=file, run=run):
            logger.info("%s: applied", file)
    except Exception as error:
        return _refuse(service, config.name, error, file, config)
    if is_new and not config.has_deadline:
        logger.warning("%s has no deadline: a reward that never comes keeps its decision open", config.name)
    return config.name


def _refuse(
    service: Service, name: str, error: Exception, file: Path | None, config: PortfolioConfig | None = None
) -> str:
    """Refuse what a file says: its portfolio stays as it is, or is not served; return the name of it."""
    served = service.portfolios.get(name)
    if served is None:
        service.refuse(name, error, file, config)
    else:
        served.rejected = describe(error)
        logger.error("%s: reload rejected: %s", file, error)
    return name


def _refuse_shared(service: Service, name: str, file: Path, files: Sequence[Path]) -> set[str]:
    """Refuse a file whose name others have too, as each would change what they say; return the names it concerns."""
    error = InvalidArgument(
        f"name is {name!r} in {' and '.join(each.name for each in files)}, but must differ from those of the other "
        "portfolios"
    )
    before = _names_of(service, file)
    for each in before:
        _refuse(service, each, error, file)
    if name not in service.names:
        service.refuse(name, error)
    return {name, *before}


def _names_of(service: Service, file: Path) -> list[str]:
    """Return the names that a file had when it was applied."""
    known: dict[str, Served | Failed] = {**service.failed, **service.portfolios}
    return [name for name, each in known.items() if each.file == file]


def _name_of(service: Service, file: Path, name: str | None, names: Collection[str]) -> str:
    """Return the name of a portfolio whose file is refused; the name of the file if it is not known."""
    before = [each for each in _names_of(service, file) if each not in names]
    if before:
        return before[0]
    is_taken = name in names or (name in service.portfolios and service.portfolios[name].file != file)
    return file.name if name is None or is_taken else name


def name_in(file: Path) -> str | None:
    """Return the name of the portfolio in a file with a fault, as far as it can be read."""
    if file.suffix == ".json":  # a document has the name of its portfolio
        return file.stem if SERVED_NAME.fullmatch(file.stem) else None
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return None
    try:
        name = tomllib.loads(text).get("name")
        return name if isinstance(name, str) and SERVED_NAME.fullmatch(name) else None
    except (tomllib.TOMLDecodeError, RecursionError):
        found = NAME.search(re.split(r"^\s*\[", text, maxsplit=1, flags=re.MULTILINE)[0])
        return None if found is None else found[1]


async def apply_file(
    service: Service, config: PortfolioConfig, *, file: Path | None = None, run: Run = asyncio.to_thread
) -> bool:
    """Apply a file that may be new or changed; return whether anything changed."""
    served = service.portfolios.get(config.name)
    if served is None or served.engine.failure is not None:
        await service.reopen(config, file, run)
        return True
    is_changed = served.config != config
    if is_changed:
        await _change(service, served, config, run)
    served.file, served.rejected = file, ""
    return is_changed


async def _change(service: Service, served: Served, config: PortfolioConfig, run: Run) -> None:
    began = await run(served.engine.began)
    with arrays_of_at_most(service.settings.max_state_bytes):
        template = await run(config.portfolio)

    def change(hosted: Hosted) -> None:
        Plan.of(hosted.portfolio, template, began).apply(hosted.portfolio)

    await served.engine.run(change)
    await run(served.engine.retain, config.retention)
    served.config, served.reader = config, ContextReader(config, served.engine.schema)


async def reopen(service: Service, name: str, run: Run = asyncio.to_thread) -> bool:
    """Open a portfolio again that is not served, or whose journal failed; return False if it needs that not.

    The file of one that is not served is read again; one that was running keeps the settings that it had.
    """
    async with service.changes:
        served, failed = service.portfolios.get(name), service.failed.get(name)
        if served is not None and served.engine.failure is None:
            return False
        known: Served | Failed | None = served or failed
        if known is None:
            raise InvalidArgument(f"name is {name!r}, but must be the name of a portfolio")
        config = known.config
        try:
            if failed is not None and failed.file is not None:
                config = read(failed.file)
            if failed is not None and config is None:
                raise InvalidArgument(failed.cause)  # several files have the name
            if config is None or config.name != name:
                raise UnreadableFile(f"{known.file} has no portfolio {name!r} any more")
            await service.reopen(config, known.file, run)
        except Exception as error:
            service.refuse(name, error, known.file, config)
            raise
        logger.info("%s was opened again", name)
        return True
