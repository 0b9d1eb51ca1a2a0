"""The table of routes, from which routing, checks of tokens and OpenAPI derive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from starlette.responses import Response

from equipoise.serve import handlers, personalizer, schemas
from equipoise.serve.dashboard import handlers as dashboard
from equipoise.serve.handlers import Call

PORTFOLIO = "/v1/portfolios/{name}"
LEARNER = PORTFOLIO + "/learners/{learner}"
DECISIONS = PORTFOLIO + "/decisions"
FLAGS = "/ofrep/v1/evaluate/flags"
FLAG = FLAGS + "/{name}"
JSON, STREAM = "application/json", "text/event-stream"
GLANCE = "All portfolios at a glance"
Handler = Callable[[Call], Awaitable[Response]]


class Operation(NamedTuple):
    id: str
    method: str
    path: str
    handler: Handler
    scope: str | None  # None: no token is needed
    summary: str
    request: type[Any] | None = None
    response: Any = None
    statuses: tuple[int, ...] = ()  # of problems, in addition to those of every operation
    success: int = 200
    media_type: str = JSON
    batch: bool = False  # whether the body may be lines of JSON
    failed: bool = False  # whether the portfolio may be one that is not served
    form: str = "problem"  # of errors: a problem document, or one of `FORMS` in `app`


def _read(
    id: str, path: str, handler: Handler, summary: str, response: Any, *, scope: str | None = "read", **more: Any
) -> Operation:
    return Operation(id, "GET", path, handler, scope, summary, None, response, **more)


def _personalizer() -> Iterator[Operation]:
    """The routes of Azure Personalizer, of the only portfolio and of a named one, under the paths of both clients."""
    for prefix, of_which in (("", ""), ("/{name}", "_of")):
        for version, suffix in (("", ""), ("/v1.0", "_v1")):
            for each in personalizer.ROUTES:
                if version and each.id.endswith("_slots"):  # a preview that had no version 1.0
                    continue
                yield Operation(
                    *(
                        f"personalizer_{each.id}{of_which}{suffix}",
                        "POST",
                        f"{prefix}/personalizer{version}{each.path}",
                    ),
                    each.handler,
                    each.scope,
                    f"{each.summary} (Azure Personalizer)",
                    each.request,
                    each.response,
                    statuses=(400, 404, 409, 503),
                    success=201 if each.response else 204,
                    form="personalizer",
                )


OPERATIONS = (
    Operation(
        *("decide", "POST", PORTFOLIO + "/decide", handlers.decide, "decide", "Decide rounds: one, a slate or a batch"),
        *(schemas.DecideRequest, schemas.Decided | schemas.Slate, (409,)),
        batch=True,
    ),
    Operation(
        *("rewards", "POST", PORTFOLIO + "/rewards", handlers.reward, "reward", "Learn rewards, one or a batch"),
        *(schemas.Reward, schemas.Rewarded, (409,)),
        batch=True,
    ),
    Operation(
        *("withdraw", "POST", PORTFOLIO + "/withdraw", handlers.withdraw, "reward", "Withdraw a decision"),
        *(schemas.WithdrawRequest, schemas.Withdrawn, (409,)),
    ),
    Operation(
        *("forget", "POST", PORTFOLIO + "/forget", handlers.forget, "admin", "Remove contexts of closed decisions"),
        *(schemas.ForgetRequest, schemas.Forgotten),
    ),
    Operation(
        *("expire", "POST", PORTFOLIO + "/expire", handlers.expire, "admin"),
        *("Close decisions whose deadlines were extended at a start", None, schemas.Expired),
    ),
    _read("portfolios", "/v1/portfolios", handlers.list_portfolios, "List the portfolios", schemas.PortfolioList),
    Operation(
        *("create_portfolio", "POST", "/v1/portfolios", handlers.create_portfolio, "admin", "Create a portfolio"),
        *(schemas.PortfolioDocument, schemas.PortfolioChange, (409, 503), 201),
    ),
    Operation(
        *("archive_portfolio", "DELETE", PORTFOLIO, handlers.archive_portfolio, "admin"),
        *("Archive a portfolio that was created", None, schemas.PortfolioChange, (409,)),
        failed=True,
    ),
    _read("portfolio", PORTFOLIO, handlers.show_portfolio, "Standing, certificate and health", schemas.PortfolioStatus),
    _read(
        *("eliminations", PORTFOLIO + "/eliminations", handlers.list_eliminations, "Proofs of eliminations"),
        schemas.EliminationList,
    ),
    _read("events", PORTFOLIO + "/events", handlers.stream_events, "Events from now on", str, media_type=STREAM),
    Operation(
        *("add_learner", "POST", LEARNER, handlers.add_learner, "admin", "Add a learner"),
        *(schemas.LearnerTable, schemas.LearnerStatus, (409,), 201),
    ),
    Operation(
        *("change_learner", "PATCH", LEARNER, handlers.change_learner, "admin", "Suspend or resume a learner"),
        *(schemas.LearnerChange, schemas.LearnerStatus),
    ),
    Operation(
        *("remove_learner", "DELETE", LEARNER, handlers.remove_learner, "admin", "Remove a learner", None),
        schemas.LearnerStatus,
    ),
    Operation(
        *("reopen", "POST", PORTFOLIO + "/reopen", handlers.reopen_portfolio, "admin", "Open a failed portfolio again"),
        *(None, schemas.Health),
        failed=True,
    ),
    Operation(
        *("evaluate", "POST", FLAG, handlers.evaluate, "decide", "Evaluate a flag (OFREP)"),
        *(schemas.EvaluationRequest, schemas.Evaluation),
        form="evaluation",
    ),
    Operation(
        *("evaluate_all", "POST", FLAGS, handlers.evaluate_all, "decide", "Evaluate all flags of a unit (OFREP)"),
        *(schemas.EvaluationRequest, schemas.Evaluations),
        form="evaluations",
    ),
    _read("metrics", "/metrics", handlers.expose_metrics, "Measurements for Prometheus", str, media_type="text/plain"),
    _read("health", "/healthz", handlers.health, "Whether the process works", schemas.Health, scope=None),
    _read("ready", "/readyz", handlers.ready, "Whether it takes requests", schemas.Health, scope=None),
    _read(
        *("portfolio_ready", "/readyz/{name}", handlers.portfolio_ready, "Whether a portfolio takes requests"),
        *(schemas.Health,),
        scope=None,
    ),
    _read("page", "/", dashboard.page, "The dashboard", str, scope=None, media_type="text/html"),
    _read("docs", "/docs", dashboard.docs, "This description as a page", str, scope=None, media_type="text/html"),
    _read("overview", "/v1/overview", dashboard.overview, GLANCE, schemas.Overview, statuses=(503,)),
    _read(
        *("watch_overview", "/v1/overview/live", dashboard.watch_overview, f"{GLANCE}, from now on", str),
        statuses=(503,),
        media_type=STREAM,
    ),
    _read("view", PORTFOLIO + "/view", dashboard.view, "The dashboard of a portfolio", schemas.View),
    _read(
        *("watch_portfolio", PORTFOLIO + "/live", dashboard.watch_portfolio),
        *("The dashboard of a portfolio, from now on", str),
        media_type=STREAM,
    ),
    _read("timeline", PORTFOLIO + "/timeline/{span}", dashboard.timeline, "Samples over time", schemas.Columns),
    _read("learner", LEARNER, dashboard.show_learner, "Why a learner plays as it does", schemas.LearnerView),
    _read("decisions", DECISIONS, dashboard.list_decisions, "The newest decisions", schemas.DecisionList),
    _read("decision", DECISIONS + "/{id}", dashboard.show_decision, "One decision", schemas.DecisionView),
    *_personalizer(),
)
STATIC = Operation("static", "GET", "/static/{file:path}", dashboard.static_file, None, "Files of the dashboard")
