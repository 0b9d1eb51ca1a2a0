"""Statements about learners and regret, their records, and how records are verified."""

from equipoise.certificates.comparisons import Comparison, Side
from equipoise.certificates.eliminations import (
    AnyElimination,
    Elimination,
    EpochEnd,
    EpochEvidence,
    Evidence,
    LowerEvidence,
    SameRoundElimination,
)
from equipoise.certificates.proofs import Premises
from equipoise.certificates.statements import Certificate, Outlook, Standing

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
    "Premises",
    "SameRoundElimination",
    "Side",
    "Standing",
]
