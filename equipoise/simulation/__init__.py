"""Whole runs at native speed: compiled drivers for learners, problems and selectors that are made of kernels."""

from __future__ import annotations
