"""Deprecated: see `equipoise.certificates.records`."""

from __future__ import annotations

from typing import Any

from equipoise._deprecated import renamed_attribute


def __getattr__(name: str) -> Any:
    return renamed_attribute(__name__, name)
