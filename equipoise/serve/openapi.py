"""The OpenAPI 3.1 description of the service, made from the table of routes and the types.

For those who may see them, it names the portfolios, has a request for each as an example, and the range of the rewards.
Links say which request continues another one: the reward of a decision, say.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import UnionType
from typing import Any

import msgspec

from equipoise import __version__
from equipoise.config import PortfolioConfig
from equipoise.serve import failures, handlers, personalizer, schemas
from equipoise.serve.examples import decide_request, evaluate_request, rank_request
from equipoise.serve.guard import KEY_HEADER
from equipoise.serve.handlers import NDJSON
from equipoise.serve.routes import OPERATIONS, Operation

EXAMPLES = {"decide": decide_request, "evaluate": evaluate_request, "evaluate_all": evaluate_request}
DOCUMENT = {
    "version": 1,
    "name": "banners",
    "sticky": "7d",
    "reward": {"range": [0, 1], "deadline": "24h", "default": 0.0},
    "learner": [{"use": "OFUL", "dim": 3}, {"use": "LinearThompson", "dim": 3}],
}
PROBABILITIES = ("learner_probability", "action_probability", "propensity")
MAX_DOCUMENTS = 16  # that are kept
REF = "#/components/schemas/{name}"
PROBES = frozenset({"ready", "portfolio_ready"})
WITH_TOKEN = (401, 403)
WITH_PORTFOLIO = (404, 503)
WITH_BODY = (400, 413, 415, 422)
PATTERNS = {
    "name": schemas.NAME_PATTERN,
    "learner": schemas.LEARNER_PATTERN,
    "span": schemas.SPAN_PATTERN,
    "id": schemas.ID_PATTERN,
    "event": personalizer.EVENT_PATTERN,
}
FAILURES = {
    "evaluation": schemas.EvaluationFailure,
    "evaluations": schemas.BulkFailure,
    "personalizer": personalizer.ErrorResponse,
}
SECURITY = {
    "token": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": KEY_HEADER.decode()},
}

# Of operations whose bodies can be lines: examples of requests and answers.
DECIDED = {"action": 0, "action_id": "red", "learner": "UCB", "drawn": "UCB", **dict.fromkeys(PROBABILITIES, 1.0)}
UNKNOWN = {"type": "urn:equipoise:problem:unknown-decision", "title": "Not Found", "status": 404}
LINES: Mapping[str, tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]] = {
    "decide": (
        [{"id": "visit-1"}, {"unit": "user-7"}],
        [{"line": k, "status": 200, "decision": {"id": id_, **DECIDED}} for k, id_ in ((1, "visit-1"), (2, "a3-17"))],
    ),
    "rewards": (
        [{"id": "visit-1", "reward": 1.0}, {"id": "visit-2", "reward": 0.0}],
        [{"line": 1, "status": 200, "id": "visit-1"}, {"line": 2, "status": 404, "id": "visit-2", "problem": UNKNOWN}],
    ),
}

# Of the answer to an operation: the operation that continues it, and where its parameters or its body are found.
NAME, ID = {"name": "$request.path.name"}, "$response.body#/id"
LEARNER = {**NAME, "learner": "$response.body#/name"}
CREATED = {"name": "$response.body#/name"}
LINKS: Mapping[str, Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]] = {
    "decide": {
        "rewards": (NAME, {"id": ID}),
        "withdraw": (NAME, {"id": ID}),
        "decision": ({**NAME, "id": ID}, {}),
    },
    "create_portfolio": {"portfolio": (CREATED, {}), "archive_portfolio": (CREATED, {})},
    "evaluate_all": {
        "rewards": ({"name": "$response.body#/flags/0/key"}, {"id": "$response.body#/flags/0/metadata/decision"})
    },
    "evaluate": {"rewards": (NAME, {"id": "$response.body#/metadata/decision"})},
    "portfolios": {"portfolio": ({"name": "$response.body#/portfolios/0"}, {})},
    "add_learner": {"learner": (LEARNER, {}), "change_learner": (LEARNER, {}), "remove_learner": (LEARNER, {})},
    "decisions": {"decision": ({**NAME, "id": "$response.body#/decisions/0/id"}, {})},
}


class Documents:
    """Descriptions as bytes; one is made when it is asked for, in a thread, and kept while the files stay the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[list[PortfolioConfig], bytes]] = {}

    async def of(self, portfolios: Mapping[str, PortfolioConfig]) -> bytes:
        key, configs = tuple(portfolios), list(portfolios.values())
        known = self._known.get(key)
        if known is None or any(old is not new for old, new in zip(known[0], configs, strict=True)):
            document = await asyncio.to_thread(lambda: msgspec.json.encode(description(portfolios)))
            if len(self._known) >= MAX_DOCUMENTS:
                self._known.clear()
            known = self._known[key] = configs, document
        return known[1]


def description(portfolios: Mapping[str, PortfolioConfig]) -> dict[str, Any]:
    """Return the description for somebody who may see these portfolios."""
    types = [each for operation in OPERATIONS for each in (operation.request, operation.response) if _is_struct(each)]
    types += [schemas.Decided, schemas.Slate, schemas.DecisionLine, schemas.Line, schemas.Problem]
    types += [schemas.Evaluation, schemas.EvaluationFailure, schemas.BulkFailure]
    types.append(personalizer.ErrorResponse)
    _, components = msgspec.json.schema_components(types, ref_template=REF)
    components["Evaluations"]["properties"]["flags"]["items"] = _schema(schemas.Evaluation | schemas.EvaluationFailure)
    ranges = [config.reward_range for config in portfolios.values()]
    limits = [limit for limit in ranges if limit is not None]
    if limits and len(limits) == len(ranges):
        lows, highs = zip(*limits, strict=True)
        components["Reward"]["properties"]["reward"] |= {"minimum": min(lows), "maximum": max(highs)}
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, portfolios)
    return {
        "openapi": "3.1.0",
        "info": {"title": "equipoise", "version": __version__, "summary": "Decisions by a portfolio of learners"},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": SECURITY},
    }


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, UnionType):
        return {"anyOf": [_schema(each) for each in kind.__args__]}
    return {"$ref": REF.format(name=kind.__name__)} if _is_struct(kind) else {"type": "string"}


def _describe(operation: Operation, portfolios: Mapping[str, PortfolioConfig]) -> dict[str, Any]:
    answers = {operation.media_type: {"schema": _schema(operation.response)}}
    if operation.id in LINES:
        answers[NDJSON] = _lines(LINES[operation.id][1])
    success: dict[str, Any] = {"description": "Success", **({} if operation.success == 204 else {"content": answers})}
    if operation.id in LINKS:
        success["links"] = {id_: _link(id_, *where) for id_, where in LINKS[operation.id].items()}
    responses: dict[str, Any] = {str(operation.success): success}
    for status in _problems(operation):
        responses[str(status)] = _failure(operation, status)
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [_tag(operation)],
        "parameters": [_parameter(name, portfolios) for name in re.findall(r"{(\w+)}", operation.path)],
        "responses": responses,
    }
    if operation.scope is not None:
        described["security"] = [{"token": [operation.scope]}]
        if operation.form == "personalizer":
            described["security"].append({"key": [operation.scope]})
    if operation.request is not None:
        content: dict[str, Any] = {"application/json": {"schema": _schema(operation.request)}}
        if examples := _examples(operation, portfolios):
            content["application/json"]["examples"] = examples
        if operation.id in LINES:
            content[NDJSON] = _lines(LINES[operation.id][0])
        described["requestBody"] = {"required": True, "content": content}
    return described


def _tag(operation: Operation) -> str:
    """Return the group of routes that an operation belongs to."""
    if operation.form != "problem":
        return "Azure Personalizer" if operation.form == "personalizer" else "Flags"
    if operation.handler.__module__ != handlers.__name__:
        return "Dashboard"
    groups = {"decide": "Decisions", "reward": "Decisions", "read": "State", "admin": "Administration"}
    return "Process" if operation.scope is None else groups[operation.scope]


def _lines(examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content of lines of JSON, with an example that tools which make requests leave alone."""
    text = "".join(msgspec.json.encode(each).decode() + "\n" for each in examples)
    return {"schema": {"type": "string"}, "x-example": text}


def _problems(operation: Operation) -> Sequence[int]:
    statuses = set(operation.statuses)
    if operation.id in PROBES:
        return (503,)
    if operation.scope is not None:
        statuses.update(WITH_TOKEN)
    if "{name}" in operation.path or operation.id == "metrics":
        statuses.update(WITH_PORTFOLIO)
    if operation.request is not None:
        statuses.update(WITH_BODY)
    if operation.id == "remove_learner":
        statuses.add(422)
    return sorted(statuses)


def _failure(operation: Operation, status: int) -> dict[str, Any]:
    content: dict[str, Any] = {failures.MEDIA_TYPE: {"schema": _schema(schemas.Problem)}}
    if operation.form in FAILURES:
        content = {"application/json": {"schema": _schema(FAILURES[operation.form])}}
    if operation.id in PROBES:
        content = {"application/json": {"schema": _schema(schemas.Health)}}
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase, "content": content}
    if status == 503 and operation.id not in PROBES:
        answer["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    return answer


def _link(operation_id: str, parameters: Mapping[str, str], body: Mapping[str, str]) -> dict[str, Any]:
    link = {"operationId": operation_id, "parameters": dict(parameters)}
    return {**link, "requestBody": dict(body)} if body else link


def _examples(operation: Operation, portfolios: Mapping[str, PortfolioConfig]) -> dict[str, Any]:
    """Return a body for each portfolio, with the context that its file declares."""
    if operation.id == "create_portfolio":
        return {"banners": {"summary": "Two learners over offers with three features", "value": DOCUMENT}}
    make = rank_request if operation.request is personalizer.RankRequest else EXAMPLES.get(operation.id)
    if make is None:
        return {}
    return {name: {"summary": f"For {name}", "value": make(config)} for name, config in portfolios.items()}


def _parameter(name: str, portfolios: Mapping[str, PortfolioConfig]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "pattern": PATTERNS[name]}
    if name == "name" and portfolios:
        schema["enum"] = list(portfolios)
    return {"name": name, "in": "path", "required": True, "schema": schema}
