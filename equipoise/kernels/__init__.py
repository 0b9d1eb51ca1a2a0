"""Code that can be compiled: kernel decorators, random streams and rows of state. Needs no compiler itself."""

from equipoise.kernels.marks import dispatched, kernel, native

__all__ = ["dispatched", "kernel", "native"]
