"""Whole runs at native speed: compiled drivers for learners, problems and selectors that are made of kernels."""

from __future__ import annotations

from equipoise.simulation import normals  # noqa: F401 - brings the compiled twin of the interpreted generator
