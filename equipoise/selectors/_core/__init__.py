"""What selectors have in common: ledger, evidence, sampling, settings."""
