"""Numerics that compile: the mark of a kernel, random streams, and rows of state. Needs no compiler itself."""

from equipoise.kernels.marks import dispatched, kernel, native

__all__ = ["dispatched", "kernel", "native"]
