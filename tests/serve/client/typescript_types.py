"""The types of an OpenAPI document as TypeScript, for the test that compares them with the types of the client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

NAMES = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def module_of(document: Mapping[str, Any]) -> str:
    """Return a module with a type for each schema of the document."""
    schemas = document["components"]["schemas"]
    return "".join(f"export type {name} = {type_of(schema)};\n" for name, schema in schemas.items())


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema; rules that types cannot say, such as ranges and patterns, are left out."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(sorted({f"({type_of(each)})" for each in schema["anyOf"]}))
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    kind = schema.get("type")
    if kind is None:
        return "unknown"
    if kind == "array":
        return f"({type_of(schema.get('items', {}))})[]"
    if kind == "object":
        return object_of(schema)
    return NAMES[kind]


def object_of(schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        others = schema.get("additionalProperties", {})
        return f"Record<string, {type_of(others if isinstance(others, Mapping) else {})}>"
    required = schema.get("required", ())
    rows = [
        f"{json.dumps(name)}{'' if name in required else '?'}: {type_of(each)}"
        for name, each in schema["properties"].items()
    ]
    return "{ " + "; ".join(rows) + " }"
