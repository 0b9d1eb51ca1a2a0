"""Names on the command line: those of classes in lower case with hyphens."""

from __future__ import annotations

import re


def command_name(class_name: str) -> str:
    """
    >>> [command_name(name) for name in ("BalancedElimination", "OFUL", "KArmedBandit", "D3RB", "UCB1", "LSVI_UCB")]
    ['balanced-elimination', 'oful', 'k-armed-bandit', 'd3rb', 'ucb1', 'lsvi-ucb']
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", class_name).lower().replace("_", "-")
