"""Benchmarks and writers of generated pages: for a checkout, not part of the package."""
