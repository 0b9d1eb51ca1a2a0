"""Statements about learners and regret, their records, and how records are verified."""

from equipoise.certificates.comparisons import Comparison, Side
from equipoise.certificates.statements import (
    AnyElimination,
    Certificate,
    Elimination,
    EpochEnd,
    EpochEvidence,
    Evidence,
    LowerEvidence,
    Outlook,
    SameRoundElimination,
    Standing,
)

__all__ = [
    "AnyElimination",
    "Certificate",
    "Comparison",
    "Elimination",
    "EpochEnd",
    "EpochEvidence",
    "Evidence",
    "LowerEvidence",
    "Outlook",
    "SameRoundElimination",
    "Side",
    "Standing",
]
