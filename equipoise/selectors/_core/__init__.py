"""Shared parts of selectors: ledger, evidence, sampling, settings."""
