"""The handlers of the routes. A handler gets a `Call`, whose token and body were checked, and returns an answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from equipoise.config import PortfolioConfig, check_served, parse
from equipoise.errors import EquipoiseError, InvalidArgument, JournalBusy, JournalFailed, UnknownName
from equipoise.learner import MinimalLearner
from equipoise.portfolio.units import unit_key
from equipoise.serve import metrics, schemas
from equipoise.serve.bodies import decoder
from equipoise.serve.excluding import excluding
from equipoise.serve.failures import Refused, kind_of, log_fault, problem_of
from equipoise.serve.guard import KEY_HEADER, WHOLE
from equipoise.serve.hosted import MAX_EXPIRED, Hosted, Limits
from equipoise.serve.reloading import archive, create, reopen
from equipoise.serve.schemas import plain
from equipoise.serve.service import ANYONE, Served, Service
from equipoise.serve.streams import EventStream
from equipoise.serve.tokens import ALL, Token
from equipoise.settings.sizes import arrays_of_at_most
from equipoise.types import Config, Context

STATUS_SECONDS = 1.0  # for the status of a portfolio that is measured
NDJSON = "application/x-ndjson"
LINES_AT_ONCE = 64  # of a batch, in one operation: a tenth of a second for 1,000 would hold up other portfolios
LEARNER = re.compile(schemas.LEARNER_PATTERN)
encode, encode_lines = msgspec.json.Encoder().encode, msgspec.json.Encoder().encode_lines
decode_reward, decode_decide = decoder(schemas.Reward), decoder(schemas.DecideRequest)
BEARER = {"WWW-Authenticate": 'Bearer realm="equipoise"'}


@dataclass(slots=True)
class Call:
    service: Service
    request: Request
    token: Token
    portfolio: Served | None = None
    body: Any = None
    raw: bytes = b""  # the body as it was sent
    lines: list[bytes] | None = None  # of a batch
    accepts_key: bool = False  # whether the token may be in the header of Azure Personalizer

    @property
    def served(self) -> Served:
        assert self.portfolio is not None
        return self.portfolio

    def authenticate(self) -> None:
        """Find the token of the request; raise an error if there is none."""
        service = self.service
        if not len(service.tokens):
            self.token = ANYONE
        else:
            headers = self.request.scope["checked_headers"]
            kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
            if not kind and self.accepts_key:
                kind, secret = "bearer", headers.get(KEY_HEADER, b"").decode("latin-1")
            token = service.tokens.find(secret.strip()) if kind.lower() == "bearer" else None
            if token is None:
                detail = "the request needs a valid token: Authorization: Bearer ..."
                raise Refused(401, "unauthenticated", detail, BEARER)
            self.token = token
        self.request.scope["token"] = self.token.name

    def authorize(self, scope: str, name: str | None, *, failed: bool = False) -> None:
        """Find the token of the request and the portfolio; raise an error if the token does not allow this.

        With `failed`, the portfolio may be one that is not served.
        """
        self.authenticate()
        if not self.token.allows(scope, name):
            raise Refused(403, "forbidden", f"the token does not have the scope {scope!r} for this portfolio")
        if name is not None:
            self.portfolio = self.service.portfolios.get(name)
            if self.portfolio is None and name in self.service.failed:
                if not failed:
                    raise Refused(503, "failed-portfolio", self.service.failed[name].reason, {"Retry-After": "5"})
            elif self.portfolio is None:
                raise Refused(404, "unknown-portfolio", "there is no portfolio of this name")
            self.request.scope["portfolio"] = name

    def check_reader(self) -> None:
        """Raise an error if the token was removed since, or may not read any more; a stream outlives its check."""
        self.authorize("read", None if self.portfolio is None else self.portfolio.name)


class Answer(Response):
    """A body that needs no rendering; sent as a whole, in one message to the guard, since most requests get one."""

    def __init__(self, body: bytes, status: int = 200, media_type: bytes = b"application/json") -> None:
        self.body, self.status_code, self.media, self.background = body, status, media_type, None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": WHOLE, "status": self.status_code, "media_type": self.media, "body": self.body})


Decode = Callable[[bytes], Any]
Respond = Callable[[Hosted, int, Any, Call], Any]  # answers a line of a batch


def answer(value: Any, status: int = 200) -> Response:
    return Answer(encode(value), status)


class Question(NamedTuple):
    """What a request to decide asks of a portfolio."""

    context: Context
    request: schemas.DecideRequest
    limits: Limits
    token: str

    @classmethod
    def of(cls, call: Call, request: schemas.DecideRequest) -> Question:
        """Read the context of a request; raise an error that names what is wrong with it."""
        served = call.served
        context = served.reader.read(request.context, request.offers)
        if request.exclude:
            context = excluding(context, request.exclude)
        return cls(context, request, call.service.limits(served.name), call.token.name)

    def answered(self, hosted: Hosted) -> schemas.Decided | schemas.Slate:
        asked, names = self.request, hosted.portfolio.learner_names
        options = asked.id, self.limits, asked.available, self.token, asked.unit
        if asked.k is None:
            return schemas.Decided.of(hosted.decide(self.context, *options), names)
        slots = hosted.slate(self.context, asked.k, *options)
        return schemas.Slate([schemas.Decided.of(slot, names) for slot in slots])


def _answered(hosted: Hosted, question: Question) -> schemas.Decided | schemas.Slate:
    return question.answered(hosted)


async def decide(call: Call) -> Response:
    if call.lines is not None:
        return await _answer_lines(call, call.lines, decode_decide, _decide_line)
    return answer(await call.served.engine.run(_answered, Question.of(call, call.body)))


async def reward(call: Call) -> Response:
    if call.lines is not None:
        return await _answer_lines(call, call.lines, decode_reward, _learn_line)
    body = call.body
    await call.served.engine.run(Hosted.reward, body.id, body.reward, body.key)
    return answer(schemas.Rewarded(body.id))


async def _answer_lines(call: Call, lines: list[bytes], decode: Decode, respond: Respond) -> Response:
    """Every line is a request of its own; one that is wrong does not disturb the others.

    Other requests are answered between some lines and the next.
    """
    max_bytes = call.service.settings.max_body_bytes
    parsed = list(enumerate((_parse(line, decode, max_bytes) for line in lines), start=1))
    results = list[Any]()
    for some in _portions(parsed):
        results += await call.served.engine.run(_respond, some, respond, call)
    return Answer(encode_lines(results), media_type=NDJSON.encode())


def _portions(parsed: list[tuple[int, Any]]) -> Iterator[list[tuple[int, Any]]]:
    """Yield some lines at a time, for one operation; a slate counts as the rounds that it has."""
    some, size = list[tuple[int, Any]](), 0
    for number, entry in parsed:
        rounds = getattr(entry, "k", None) or 1
        if some and size + rounds > LINES_AT_ONCE:
            yield some
            some, size = [], 0
        some.append((number, entry))
        size += rounds
    yield some


def _parse(line: bytes, decode: Decode, max_bytes: int) -> Any:
    """Return the request of a line, or the error that says what is wrong with it."""
    if len(line) > max_bytes:
        return Refused(413, "too-large", f"a line has {len(line)} bytes, but must have at most {max_bytes}")
    try:
        return decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidArgument) as error:
        return error


def _respond(hosted: Hosted, entries: list[tuple[int, Any]], respond: Respond, call: Call) -> list[Any]:
    return [_respond_to(hosted, number, entry, respond, call) for number, entry in entries]


def _respond_to(hosted: Hosted, number: int, entry: Any, respond: Respond, call: Call) -> Any:
    try:
        if isinstance(entry, Exception):
            raise entry
        return respond(hosted, number, entry, call)
    except Exception as error:
        if kind_of(error) is None:
            raise
        log_fault(error, call.request.scope["request_id"])
        document, id_ = problem_of(error), getattr(entry, "id", None) or msgspec.UNSET
        return schemas.Line(number, document.status, id=id_, problem=document)


def _learn_line(hosted: Hosted, number: int, entry: schemas.Reward, call: Call) -> schemas.Line:
    hosted.reward(entry.id, entry.reward, entry.key)
    return schemas.Line(number, 200, id=entry.id)


def _decide_line(hosted: Hosted, number: int, entry: schemas.DecideRequest, call: Call) -> schemas.DecisionLine:
    made = Question.of(call, entry).answered(hosted)
    if isinstance(made, schemas.Slate):
        return schemas.DecisionLine(number, 200, slots=made.slots)
    return schemas.DecisionLine(number, 200, decision=made)


async def withdraw(call: Call) -> Response:
    id_ = call.body.id
    await call.served.engine.run(Hosted.withdraw, id_)
    return answer(schemas.Withdrawn(id_))


async def forget(call: Call) -> Response:
    ids, unit = call.body.ids, call.body.unit
    if (ids is None) == (unit is None):
        raise InvalidArgument("ids and unit are both given or both missing, but exactly one must be given")
    return answer(schemas.Forgotten(await call.served.engine.forget(ids, unit)))


async def expire(call: Call) -> Response:
    n_expired = 0
    while n := await call.served.engine.run(Hosted.expire_extended, MAX_EXPIRED):
        n_expired += n
    return answer(schemas.Expired(n_expired))


async def reopen_portfolio(call: Call) -> Response:
    name = call.request.path_params["name"]
    try:
        await reopen(call.service, name)
    except Exception as error:
        if call.service.failure_of(name) is None:
            raise
        raise Refused(503, "failed-portfolio", call.service.failed[name].reason, {"Retry-After": "5"}) from error
    return answer(schemas.Health("ok"))


async def list_portfolios(call: Call) -> Response:
    service, names = call.service, list(filter(call.token.covers, call.service.names))
    return answer(schemas.PortfolioList(names, [name for name in names if service.failure_of(name) is not None]))


async def show_portfolio(call: Call) -> Response:
    engine = call.served.engine
    status = await engine.run(Hosted.status)
    if (journal := engine.journal_health()) is not None:
        status["health"]["journal"] = journal
    status = plain(status)
    return answer(schemas.PortfolioStatus(call.served.name, **status))


async def list_eliminations(call: Call) -> Response:
    records = await call.served.engine.run(lambda hosted: hosted.portfolio.records())
    return answer(schemas.EliminationList(plain(records)))


def stream(call: Call, messages: AsyncGenerator[bytes]) -> Response:
    """Messages as they come; they end with the reason if there is an error, because the status was sent before."""
    if call.service.stopping:
        raise Refused(503, "stopped", "the service is stopping", {"Retry-After": "5"})

    async def with_reason() -> AsyncGenerator[bytes]:
        async with aclosing(messages):
            try:
                async for message in messages:
                    yield message
            except Exception as error:
                log_fault(error, call.request.scope["request_id"])
                reason = problem_of(error)
                body = encode({"status": reason.status, "detail": reason.detail})
                yield b"event: refused\ndata: " + body + b"\n\n"

    return EventStream(with_reason(), call.service.readers, "" if call.portfolio is None else call.portfolio.name)


async def stream_events(call: Call) -> Response:
    async def permitted() -> AsyncGenerator[bytes]:
        async with aclosing(call.served.subscribers.stream()) as messages:
            async for message in messages:
                call.check_reader()
                yield message

    return stream(call, permitted())


async def add_learner(call: Call) -> Response:
    body, name, served = call.body, call.request.path_params["learner"], call.served
    _check_learner_name(name)
    reserved = {"use", "bound", "name"} & body.settings.keys()
    if reserved:
        raise InvalidArgument(f"settings has {min(reserved)!r}, which must stand outside of settings")
    table = {"use": body.use, **body.settings, "name": name, **({} if body.bound is None else {"bound": body.bound})}
    with arrays_of_at_most(call.service.settings.max_state_bytes):
        learner, bound = served.config.learner(table)
    return answer(schemas.LearnerStatus(await served.engine.run(_add, name, learner, bound), "active"), 201)


def _check_learner_name(name: str) -> None:
    """Raise an error if a learner could not be addressed by its name."""
    if not LEARNER.fullmatch(name) or not name.isprintable():
        raise InvalidArgument(f"learner is {name!r:.80}, but must have 1 to 200 printable characters, and no '/'")


def _add(hosted: Hosted, name: str, learner: MinimalLearner, bound: Any) -> str:
    if name in hosted.portfolio.learner_names:
        raise Refused(409, "duplicate-learner", f"learner {name!r} exists, or did and was removed")
    return hosted.portfolio.add_learner(learner, bound=bound)


async def change_learner(call: Call) -> Response:
    name, state = call.request.path_params["learner"], call.body.state
    await call.served.engine.run(_change, "suspend" if state == "suspended" else "resume", name)
    return answer(schemas.LearnerStatus(name, state))


async def remove_learner(call: Call) -> Response:
    name = call.request.path_params["learner"]
    await call.served.engine.run(_change, "remove_learner", name)
    return answer(schemas.LearnerStatus(name, "removed"))


def _change(hosted: Hosted, method: str, name: str) -> None:
    try:
        getattr(hosted.portfolio, method)(name)
    except UnknownName as error:
        raise Refused(404, "unknown-learner", str(error)) from error


OFREP_CODES = {400: "PARSE_ERROR", 404: "FLAG_NOT_FOUND", 413: "INVALID_CONTEXT", 422: "INVALID_CONTEXT"}


def not_evaluated(error: BaseException, name: str) -> schemas.EvaluationFailure:
    """Return a failure in the form of OFREP."""
    document = problem_of(error)
    code = OFREP_CODES.get(document.status, "GENERAL")
    if isinstance(error, Refused) and error.slug.isupper():
        code = error.slug
    return schemas.EvaluationFailure(name, code, document.detail)


def unit_of(attributes: Mapping[str, Any]) -> str | None:
    """Return who is asked according to the attributes of an evaluation; None if they do not say."""
    unit: str | None = attributes.get("targetingKey")
    if unit in (None, ""):
        return None
    unit_key(unit)
    return unit


async def evaluate(call: Call) -> Response:
    """OFREP: a flag is a portfolio, its value the chosen action; `targetingKey` is the unit."""
    return answer(await _evaluate(call, call.served))


async def _evaluate(call: Call, served: Served) -> schemas.Evaluation:
    attributes = call.body.context or {}
    try:
        unit, context = unit_of(attributes), served.reader.read_attributes(attributes)
    except EquipoiseError as error:
        raise Refused(400, "INVALID_CONTEXT", str(error)) from error
    limits = call.service.limits(served.name)
    decision = await served.engine.run(Hosted.decide, context, None, limits, None, call.token.name, unit)
    value = plain(decision.action) if decision.action_id is None else decision.action_id
    metadata = {"decision": decision.id, "learner": decision.learner_name or ""}
    return schemas.Evaluation(served.name, value, str(value), "SPLIT", metadata)


async def evaluate_all(call: Call) -> Response:
    """OFREP: evaluate the portfolios in which units keep their decisions, so that polling draws no rounds."""
    if unit_of(call.body.context or {}) is None:
        raise Refused(400, "TARGETING_KEY_MISSING", "context has no targetingKey, but all flags are evaluated for one")
    served = [each for name, each in sorted(call.service.portfolios.items()) if call.token.allows("decide", name)]
    flags = [_flag(call, each) for each in served if each.config.settings.sticky is not None]
    body = encode(schemas.Evaluations(list(await asyncio.gather(*flags))))
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    if tag in call.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type="application/json", headers={"ETag": tag})


async def _flag(call: Call, served: Served) -> schemas.Evaluation | schemas.EvaluationFailure:
    try:
        return await _evaluate(call, served)
    except Exception as error:  # which concerns this flag only
        log_fault(error, call.request.scope["request_id"])
        return not_evaluated(error, served.name)


async def create_portfolio(call: Call) -> Response:
    if not call.token.covers(ALL):
        raise Refused(403, "forbidden", "the token does not have the scope 'admin' for all portfolios")
    document = msgspec.json.decode(call.raw)  # with the keys that the type does not have

    def checked() -> PortfolioConfig:
        with arrays_of_at_most(call.service.settings.max_state_bytes):
            config = parse(document)
            check_served(config, ())
            if config.retention.archive is not None:  # a client must not say where files are written
                raise InvalidArgument("archive of [retention] is given, but is for files only: leave it out")
            for name in config.portfolio().learner_names:
                _check_learner_name(name)
        return config

    config = await asyncio.to_thread(checked)
    await create(call.service, document, config)
    return answer(schemas.PortfolioChange(config.name, "created"), 201)


async def archive_portfolio(call: Call) -> Response:
    name = call.request.path_params["name"]
    await archive(call.service, name)
    return answer(schemas.PortfolioChange(name, "archived"))


async def expose_metrics(call: Call) -> Response:
    service, facts = call.service, dict[str, Config]()
    names = [name for name in service.names if call.token.covers(name)]
    await asyncio.gather(*(_refresh(service, service.portfolios[name]) for name in names if name in service.portfolios))
    about: Config
    for name in names:
        facts[name] = about = dict(service.metrics.statuses.get(name, {}))
        served = service.portfolios.get(name)
        if served is not None:
            engine, about["rejected"] = served.engine, served.rejected != ""
            about["queue"], about["journal"] = engine.depth, engine.journal_health()
        about["failed"] = service.failure_of(name) is not None
    return Response(service.metrics.expose(facts), media_type=metrics.MEDIA_TYPE)


async def _refresh(service: Service, served: Served) -> None:
    """Read the status of a portfolio for its series; they stay as they were while its journal is slow or has failed."""
    if served.engine.failure is None:
        with suppress(TimeoutError, JournalBusy, JournalFailed):
            status = await asyncio.wait_for(served.engine.run(Hosted.status), STATUS_SECONDS)
            service.metrics.statuses[served.name] = plain(status)


async def health(call: Call) -> Response:
    return answer(schemas.Health("ok"))


async def ready(call: Call) -> Response:
    return _readiness(call.service, is_ready=call.service.ready)


async def portfolio_ready(call: Call) -> Response:
    """Whether a portfolio takes requests; of one that does not, not even whether it exists."""
    return _readiness(call.service, is_ready=call.service.is_ready(call.request.path_params["name"]))


def _readiness(service: Service, *, is_ready: bool) -> Response:
    if is_ready:
        return answer(schemas.Health("ok"))
    return answer(schemas.Health("stopping" if service.stopping else "failed"), 503)
