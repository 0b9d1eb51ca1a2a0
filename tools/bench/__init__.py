"""Benchmarks: time per round beside plain loops and other libraries."""
