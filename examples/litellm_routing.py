"""Route requests of LiteLLM among models: a portfolio chooses, health checks and fallbacks of the router stay in force.

LiteLLM asks `async_filter_deployments` which of the healthy deployments may serve a request; the portfolio's action is
one of them. The reward arrives in the callbacks of success and failure, and belongs to the decision by the id of the
call, which the caller gives. Here all answers are mock responses, so nothing is sent: the larger model solves more
tasks and the smaller one costs less, and one learner ignores what kind of task it is.

    pip install equipoise litellm
    LITELLM_LOCAL_MODEL_COST_MAP=True python examples/litellm_routing.py [REQUESTS]
"""

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import litellm
import numpy as np
from litellm import Router
from litellm.integrations.custom_logger import CustomLogger

from equipoise import Decision, Portfolio
from equipoise.learners import OFUL, UCB
from equipoise.types import Array

MODELS = ("small", "large")
SOLVED = {"easy": (0.9, 0.95), "hard": (0.2, 0.8)}  # how often each model solves a task, by kind
COSTS = (0.0, 0.3)  # in units of a solved task
DIM = 2 * len(MODELS)


def features(kind: str, healthy: Sequence[int]) -> Array:
    """One row per healthy deployment: which model it is, for easy and for hard tasks."""
    rows = np.zeros((len(healthy), DIM))
    for row, model in enumerate(healthy):
        rows[row, model + len(MODELS) * (kind == "hard")] = 1.0
    return rows


class PortfolioRouting(CustomLogger):  # type: ignore[misc]  # untyped
    """Chooses among the healthy deployments, and learns from what became of the call."""

    def __init__(self, portfolio: Portfolio) -> None:
        super().__init__()
        self.portfolio = portfolio
        self.open: dict[str, tuple[Decision, int, str]] = {}  # by call: decision, model, kind of task
        self.rng = np.random.default_rng(0)

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[dict[str, Any]],
        messages: list[Any] | None,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[dict[str, Any]]:
        call, kind = (request_kwargs or {})["litellm_call_id"], (messages or [{"content": "easy"}])[0]["content"]
        healthy = [MODELS.index(each["model_info"]["id"]) for each in healthy_deployments]
        decision = self.portfolio.decide(features(kind, healthy))
        self.open[call] = decision, healthy[decision.action], kind
        return [healthy_deployments[decision.action]]

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        decision, model, kind = self.open.pop(kwargs["litellm_call_id"])
        solved = float(self.rng.random() < SOLVED[kind][model])  # a service would grade response_obj
        self.portfolio.learn(decision, (solved - COSTS[model] + max(COSTS)) / (1 + max(COSTS)))

    async def async_log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        if kwargs["litellm_call_id"] in self.open:  # the router may have failed before it chose
            self.portfolio.learn(self.open.pop(kwargs["litellm_call_id"])[0], 0.0)


async def serve(routing: PortfolioRouting, n_requests: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """How often each model served each kind of task."""
    deployment = {"model": "openai/mock", "api_key": "none", "mock_response": "done"}
    router = Router(
        [{"model_name": "any", "litellm_params": deployment, "model_info": {"id": name}} for name in MODELS]
    )
    litellm.callbacks = [routing]
    rng, served = np.random.default_rng(1), np.zeros((len(SOLVED), len(MODELS)), np.int64)
    for _ in range(n_requests):
        kind = int(rng.integers(len(SOLVED)))
        message = {"role": "user", "content": list(SOLVED)[kind]}
        response = await router.acompletion("any", [message], litellm_call_id=str(uuid4()))
        served[kind, MODELS.index(response._hidden_params["model_id"])] += 1
        while routing.open:  # the callbacks run in the background
            await asyncio.sleep(0.001)
    return served


def main() -> None:
    n_requests = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    portfolio = Portfolio([UCB(len(MODELS), scale=0.3), OFUL(DIM, norm_bound=2.0, scale=0.3)])
    served = asyncio.run(serve(PortfolioRouting(portfolio), n_requests))
    for kind, row in zip(SOLVED, served, strict=True):
        print(f"{kind}: " + ", ".join(f"{name} {count:,}" for name, count in zip(MODELS, row, strict=True)))
    for row in portfolio.standing():
        print(f"{portfolio.learner_names[row.learner]:<10} {row.plays:>6,} plays, mean reward {row.mean_reward:.3f}")


if __name__ == "__main__":
    main()
