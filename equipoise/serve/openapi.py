"""The OpenAPI 3.1 description of the service, made from the table of routes and the types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from equipoise import __version__
from equipoise.serve import failures, schemas
from equipoise.serve.handlers import NDJSON
from equipoise.serve.routes import OPERATIONS, Operation

REF = "#/components/schemas/{name}"
WITH_TOKEN = (401, 403)
WITH_PORTFOLIO = (404, 503)
WITH_BODY = (400, 413, 415, 422)
PATTERNS = {
    "name": schemas.NAME_PATTERN,
    "learner": schemas.LEARNER_PATTERN,
    "span": schemas.SPAN_PATTERN,
    "id": schemas.ID_PATTERN,
}


def description() -> dict[str, Any]:
    types = [each for operation in OPERATIONS for each in (operation.request, operation.response) if _is_struct(each)]
    types += [schemas.Problem, schemas.EvaluationFailure, schemas.Line]
    _, components = msgspec.json.schema_components(types, ref_template=REF)
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "equipoise", "version": __version__, "summary": "Decisions by a portfolio of learners"},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _schema(kind: Any) -> dict[str, Any]:
    return {"$ref": REF.format(name=kind.__name__)} if _is_struct(kind) else {"type": "string"}


def _describe(operation: Operation) -> dict[str, Any]:
    answers = {operation.media_type: {"schema": _schema(operation.response)}}
    if operation.batch:
        answers[NDJSON] = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {str(operation.success): {"description": "Success", "content": answers}}
    for status in _problems(operation):
        responses[str(status)] = _failure(operation, status)
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": [_parameter(name) for name in re.findall(r"{(\w+)}", operation.path)],
        "responses": responses,
    }
    if operation.scope is not None:
        described["security"] = [{"token": [operation.scope]}]
    if operation.request is not None:
        content = {"application/json": {"schema": _schema(operation.request)}}
        if operation.batch:
            content[NDJSON] = {"schema": {"type": "string"}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _problems(operation: Operation) -> Sequence[int]:
    statuses = set(operation.statuses)
    if operation.id == "ready":
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
    if operation.id == "evaluate":
        content = {"application/json": {"schema": _schema(schemas.EvaluationFailure)}}
    if operation.id == "ready":
        content = {"application/json": {"schema": _schema(schemas.Health)}}
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase, "content": content}
    if status == 503 and operation.id != "ready":
        answer["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    return answer


def _parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": PATTERNS[name]}}
