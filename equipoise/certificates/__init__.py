"""Statements about learners and regret, their records, and how records are verified."""

from equipoise.certificates.statements import (
    AnyElimination,
    Certificate,
    Elimination,
    EpochEnd,
    EpochEvidence,
    Evidence,
    LowerEvidence,
    Outlook,
    Standing,
)

__all__ = [
    "AnyElimination",
    "Certificate",
    "Elimination",
    "EpochEnd",
    "EpochEvidence",
    "Evidence",
    "LowerEvidence",
    "Outlook",
    "Standing",
]
