"""Simulation of complete runs; learners, problems and selectors made of kernels run compiled."""

from __future__ import annotations
