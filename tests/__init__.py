"""Tests of the package; the tree mirrors that of the package."""

import os

# OpenBLAS picks its kernels by the processor, and their last digits differ. Records are compared bit for bit, so tests
# and records use the kernels that every x86-64 processor with AVX2 has. This must be set before NumPy is imported.
os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
