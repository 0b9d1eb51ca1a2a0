"""Runs of experiments: seeds in parallel, what is kept of them, and their folder."""
