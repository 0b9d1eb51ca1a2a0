"""Statements about learners and regret, their records, and how records are verified."""

from equipoise.certificates.statements import (
    Certificate,
    Dropped,
    Elimination,
    EpochEnd,
    EpochEvidence,
    Evidence,
    LowerEvidence,
    Outlook,
    Standing,
)

__all__ = [
    "Certificate",
    "Dropped",
    "Elimination",
    "EpochEnd",
    "EpochEvidence",
    "Evidence",
    "LowerEvidence",
    "Outlook",
    "Standing",
]
