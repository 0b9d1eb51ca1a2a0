"""Requests as the file of a portfolio declares them: for `equipoise check`, and in the description of the service."""

from __future__ import annotations

from typing import Any

from equipoise.config import PortfolioConfig
from equipoise.features import Concat, Default, FeatureMap, Interactions, OneHot, Shared
from equipoise.learner import capabilities

SIZE = 0.1  # of a vector, at most: within the bounds on norms that learners usually have


def decide_request(config: PortfolioConfig) -> dict[str, Any]:
    """Return the body of a decision; what the file does not declare follows from what its learners ask for."""
    settings, known = config.settings, [capabilities(learner) for learner in config.learners()]
    ids, n_shared = settings.action_names, 0
    maps: list[FeatureMap] = [each.features for each in known if each.features is not None]
    while maps:
        match maps.pop():
            case Interactions(left, right):
                maps += [left, right]
            case Concat(parts):
                maps += parts
            case Default(inner):
                maps.append(inner)
            case Shared() as shared:
                n_shared = max(n_shared, max(shared.numbers) + 1)
            case OneHot(names):
                ids = ids or tuple(names)
    body: dict[str, Any] = {}
    context, offered = ({}, {}) if settings.schema is None else settings.schema.example()
    if context:
        body["context"] = context
    elif n_shared:
        body["context"] = _vector(n_shared)
    n_columns = max(each.n_columns or 0 for each in known)
    if offered:
        body["offers"] = _offers(ids, offered)
    elif settings.action_names is None and (ids or n_columns or body):
        body["offers"] = _offers(ids, _vector(n_columns)) if n_columns else [{"id": id_} for id_ in ids or ("a", "b")]
    return body


def takes_flags(config: PortfolioConfig) -> bool:
    """Whether an evaluation, which has attributes but no offers, says all that the file declares."""
    request = decide_request(config)
    return "offers" not in request and ("context" in request) == bool(_context(config))


def evaluate_request(config: PortfolioConfig) -> dict[str, Any]:
    """Return the body of a flag evaluation with the attributes that the file declares."""
    return {"context": {"targetingKey": "visitor-1", **_context(config)}}


def rank_request(config: PortfolioConfig) -> dict[str, Any]:
    """Return the body of a rank in the form of Azure Personalizer, whose features have names."""
    decision = decide_request(config)
    context, offers = decision.get("context"), decision.get("offers", [])
    rows = [offer.get("features") for offer in offers]
    ids = config.settings.action_names or [offer.get("id", f"action-{k}") for k, offer in enumerate(offers)]
    actions: list[dict[str, Any]] = [{"id": id_, "features": []} for id_ in ids or ("action-0", "action-1")]
    for action, row in zip(actions, rows, strict=False):
        action["features"] = [row] if isinstance(row, dict) else []
    return {"actions": actions, **({"contextFeatures": [context]} if isinstance(context, dict) else {})}


def _context(config: PortfolioConfig) -> dict[str, Any]:
    schema = config.settings.schema
    return {} if schema is None else schema.example()[0]


def _offers(ids: tuple[str, ...] | None, features: Any) -> list[dict[str, Any]]:
    return [{"features": features}] * 2 if ids is None else [{"id": id_, "features": features} for id_ in ids]


def _vector(n: int) -> list[float]:
    return [float(f"{SIZE / max(n, 1):.2g}")] * n
