"""A trial of what a file declares: the application of the service, without a server, gets its requests.

Every learner acts in a round over HTTP, with the context that the file declares, and gets a reward. Then a flag is
evaluated, if the file declares all that an evaluation has to know. The trial differs from the service in two settings:
almost no action is drawn from the exploration floor, for no learner, and one reward is the whole one, not the last or a
part of it.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from equipoise.config import PortfolioConfig
from equipoise.errors import EquipoiseError, InvalidArgument, OfferRefused
from equipoise.features import Offers, Prefix
from equipoise.learner import AdaptedLearner, BoundsRows, capabilities, find, part_name
from equipoise.learners._core.rows import NORM_TOLERANCE
from equipoise.portfolio.pool import describe_error
from equipoise.serve.app import create_app
from equipoise.serve.contexts import ContextReader
from equipoise.serve.examples import decide_request, evaluate_request, takes_flags
from equipoise.serve.guard import Guard
from equipoise.serve.schemas import DecideRequest

RARELY = 1e-9  # not 0, as a floor needs to know the actions


class Trial(NamedTuple):
    """What was asked, whether flags can be evaluated, and the bytes that a decision takes until its reward."""

    request: dict[str, Any]
    flags: bool
    open_bytes: int


def try_out(config: PortfolioConfig) -> Trial:
    """Serve a portfolio in memory; raise an error that names the first learner that cannot play, and why."""
    return asyncio.run(_try_out(config))


async def _try_out(config: PortfolioConfig) -> Trial:
    settings = replace(config.settings, aggregate="first", explore=min(config.settings.explore, RARELY))
    app, path = create_app([replace(config, settings=settings)]), f"/v1/portfolios/{config.name}"
    request = decide_request(config)
    check_every_action(config, request)
    check_bounds(config)
    low, high = config.reward_range or (0.0, 1.0)
    open_bytes = 0
    try:
        for name in await _learners(app, path):
            status, answer = await ask(app, "POST", f"{path}/decide", {**request, "available": [name]})
            if status != 200 or answer["learner"] != name:
                raise InvalidArgument(await _refusal(app, path, name, f"on {json.dumps(request)}", answer))
            open_bytes = (await _health(app, path))["open_bytes"]
            reward = {"id": answer["id"], "reward": (low + high) / 2.0}
            status, answer = await ask(app, "POST", f"{path}/rewards", reward)
            if status != 200:
                raise InvalidArgument(await _refusal(app, path, name, f"with the reward {json.dumps(reward)}", answer))
        for name, row in (await _learners(app, path)).items():
            if row["last_error"]:
                raise InvalidArgument(await _refusal(app, path, name, "and its reward", {}))
        if flags := takes_flags(config):
            evaluation = evaluate_request(config)
            status, answer = await ask(app, "POST", f"/ofrep/v1/evaluate/flags/{config.name}", evaluation)
            if status != 200:
                raise InvalidArgument(f"the flag cannot be evaluated on {evaluation}: {answer['errorDetails']}")
        return Trial(request, flags, open_bytes)
    finally:
        app.service.close()


def check_every_action(config: PortfolioConfig, request: dict[str, Any]) -> None:
    """Raise an error if a learner would never play one of the actions: it would choose among the others only."""
    given = msgspec.convert(request, type=DecideRequest)
    schema = config.settings.schema
    context = ContextReader(config, lambda: schema).read(given.context, given.offers)
    if not isinstance(context, Offers):
        return
    for learner in config.learners():
        for k in range(len(context)):
            only = Offers(context.actions, context.shared, context.ids, mask=np.arange(len(context)) == k)
            try:
                AdaptedLearner(learner).decide(only, np.random.default_rng(0))
            except OfferRefused as error:
                raise InvalidArgument(
                    f"a round that learner {part_name(learner)!r} plays on {json.dumps(request):.300} fails: it would "
                    f"never play action {k} ({describe_error(error)}); {HINT}"
                ) from error
            except EquipoiseError:
                break  # it takes no masks, or no offers at all, as the round over HTTP will tell


def check_bounds(config: PortfolioConfig) -> None:
    """Raise an error if features that the file declares can be longer than a learner takes them."""
    schema = config.settings.schema
    for learner in config.learners() if schema is not None else ():
        can, bounds = capabilities(learner), find(learner, BoundsRows)
        if schema is None or bounds is None or bounds.clip_norm:
            continue
        features = can.features or (Prefix(can.n_columns) if can.n_columns else None)
        longest = None if features is None else schema.norm_bound(features)
        if longest is not None and longest > bounds.action_bound * NORM_TOLERANCE:
            raise InvalidArgument(
                f"action_bound of learner {part_name(learner)!r} is {bounds.action_bound:g}, but features that the "
                f"file declares can have norm {longest:.6g}, and the learner would not play such actions: leave "
                "action_bound out, or give clip_norm = true"
            )


async def _learners(app: Guard, path: str) -> dict[str, Any]:
    return {row["name"]: row for row in (await _health(app, path))["learners"]}


async def _health(app: Guard, path: str) -> dict[str, Any]:
    _, status = await ask(app, "GET", path)
    health: dict[str, Any] = status["health"]
    return health


async def _refusal(app: Guard, path: str, name: str, what: str, answer: dict[str, Any]) -> str:
    row = (await _learners(app, path))[name]
    reasons = row["last_error"], row["last_refusal"], answer.get("detail"), HINT
    return f"a round that learner {name!r} plays {what:.300} fails: {'; '.join(filter(None, reasons))}"


HINT = "the file declares what requests have by [context.NAME], [actions] names and [actions.features.NAME]"


async def ask(app: Guard, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request to an application; return the status and the JSON of the answer."""
    content, sent = b"" if body is None else json.dumps(body).encode(), list[Any]()

    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "root_path": "", "scheme": "http"}
    await app({**scope, "headers": headers, "client": ("127.0.0.1", 0)}, receive, send)
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))
