"""Bare loops, and adapters of other libraries, each run in a process of its own."""
