"""Requests and answers as types: they validate requests, encode answers and describe both in OpenAPI.

Limits stand here, once: of numbers (squares of larger ones overflow), of texts and of lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from equipoise.config import SERVED_NAME
from equipoise.portfolio import Decision
from equipoise.portfolio.tickets import MAX_ID_LENGTH
from equipoise.portfolio.units import MAX_UNIT_LENGTH
from equipoise.settings.checks import LARGEST

MAX_OFFERS = 1_000
MAX_FEATURES = 4_000  # of a list: more would not fit into a body anyway
MAX_SLOTS = 100  # of a slate, each a round of its own
MAX_NAMES = 1_000  # of an object: as many as fit into a body with names of some length
NAME_PATTERN = f"^{SERVED_NAME.pattern}$"
SPAN_PATTERN = "^(15m|2h|1d|1w|90d|all)$"
ID_PATTERN = "^[ -~]{1,200}$"
LEARNER_PATTERN = "^[^/\\x00-\\x1f\\x7f]{1,200}$"
# No control characters, and none that are not shown or change the direction of what follows.
HIDDEN = r"\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
SHOWN = rf"^(?![\s\S]*[{HIDDEN}])"

Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH, pattern="^[ -~]+$")]
Unit = Annotated[str, Meta(min_length=1, max_length=MAX_UNIT_LENGTH, pattern="^[ -~]+$")]
Label = Annotated[str, Meta(min_length=1, max_length=200, pattern=SHOWN)]
Vector = Annotated[list[Number], Meta(max_length=MAX_FEATURES)]
Features = Annotated[dict[str, Any], Meta(max_length=MAX_NAMES)]  # by name, nested; the schema says what they can be
Entries = Annotated[list[Number | Vector], Meta(max_length=MAX_FEATURES)]  # of a vector, or rows of a matrix


class Offer(Struct, forbid_unknown_fields=True):
    """An action that may be chosen: its id, and its features in order or by name."""

    id: Label | None = None
    features: Vector | Features | None = None


class DecideRequest(Struct, forbid_unknown_fields=True):
    """A round to decide, or with `k` a slate of rounds. A request that is repeated with its id gets the same answer."""

    context: Features | Entries | None = None
    offers: Annotated[list[Offer], Meta(min_length=1, max_length=MAX_OFFERS)] | None = None
    available: Annotated[list[Label], Meta(min_length=1, max_length=MAX_NAMES)] | None = None  # learners that may act
    id: Id | None = None
    exclude: Annotated[list[Label], Meta(max_length=MAX_OFFERS)] | None = None  # ids of offers that must not be chosen
    unit: Unit | None = None  # who is asked; gets the same decision again until `sticky` of the portfolio has passed
    k: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] | None = None  # slots to fill, each with another offer


class Decided(Struct):
    """A decision. A probability that is unknown is null.

    `learner` acts and `drawn` gets the credit; they differ if a substitute acts, and are null where there is none.
    """

    id: str
    action: Any
    action_id: str | None
    learner: str | None
    drawn: str | None
    learner_probability: float | None
    action_probability: float | None
    propensity: float | None

    @classmethod
    def of(cls, decision: Decision, names: Sequence[str]) -> Decided:
        """Return the answer to a request that made this decision; `names` are those of all learners."""
        action = decision.action if type(decision.action) is int else plain(decision.action)
        probabilities = decision.learner_probability, decision.action_probability, decision.propensity  # nan: null
        drawn = None if decision.drawn is None else names[decision.drawn]
        return cls(decision.id, action, decision.action_id, decision.learner_name, drawn, *probabilities)


class Slate(Struct):
    """The decisions of the slots of a slate, in their order; each gets its own reward."""

    slots: list[Decided]


class Reward(Struct, forbid_unknown_fields=True):
    """The reward of a decision; `key` tells several rewards of one decision apart."""

    id: Id
    reward: Number
    key: Id | None = None


class Rewarded(Struct):
    """A reward that was learned, by this request or by the same one before."""

    id: str
    status: Literal["learned"] = "learned"


class WithdrawRequest(Struct, forbid_unknown_fields=True):
    """A decision whose round did not happen."""

    id: Id


class Withdrawn(Struct):
    """A decision that was withdrawn, by this request or by the same one before."""

    id: str
    status: Literal["withdrawn"] = "withdrawn"


class ForgetRequest(Struct, forbid_unknown_fields=True):
    """Closed decisions whose contexts and outcomes are removed: these, or all of a unit."""

    ids: Annotated[list[Id], Meta(min_length=1, max_length=MAX_NAMES)] | None = None
    unit: Unit | None = None


class Forgotten(Struct):
    """The number of events that lost data; events that had lost theirs before do not count."""

    events: int


class Expired(Struct):
    """The number of decisions that got their default reward."""

    expired: int


class Problem(Struct, omit_defaults=True):
    """What went wrong, in the form of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str = ""
    request_id: str = ""


class Line(Struct, omit_defaults=True):
    """The result of one line of a batch: its number from 1, the status as of a single request, and a problem if any."""

    line: int
    status: int
    id: str | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class DecisionLine(Struct, omit_defaults=True):
    """The result of one line of a batch of decisions: a decision, the slots of a slate, or a problem."""

    line: int
    status: int
    decision: Decided | UnsetType = UNSET
    slots: list[Decided] | UnsetType = UNSET
    id: str | UnsetType = UNSET  # of a request with a problem
    problem: Problem | UnsetType = UNSET


class PortfolioDocument(Struct):
    """A portfolio as in `portfolio.toml`, with the same keys; tables are objects, and `learner` is a list of them."""

    version: Literal[1]
    name: Annotated[str, Meta(pattern=NAME_PATTERN)]
    learner: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=MAX_NAMES)]


class PortfolioChange(Struct):
    """A portfolio that was created, or was archived and is not served any more."""

    name: str
    status: Literal["created", "archived"]


class PortfolioStatus(Struct):
    """Standing, certificate and health of a portfolio."""

    name: str
    standing: list[dict[str, Any]]
    certificate: dict[str, Any]
    health: dict[str, Any]
    description: str


class PortfolioList(Struct, omit_defaults=True):
    """The portfolios that the token may use; `failed` are the ones among them that answer 503, if any."""

    portfolios: list[str]
    failed: list[str] = []


class EliminationList(Struct):
    """The proof of every elimination, as `equipoise verify` reads it."""

    eliminations: list[dict[str, Any]]


class LearnerTable(Struct, forbid_unknown_fields=True):
    """A learner as in `portfolio.toml`: a registered class and its settings."""

    use: Label
    settings: dict[str, Any] = {}
    bound: dict[str, Any] | None = None


class LearnerChange(Struct, forbid_unknown_fields=True):
    """Whether a learner may play."""

    state: Literal["active", "suspended"]


class LearnerStatus(Struct):
    """A learner and its state."""

    name: str
    state: Literal["active", "suspended", "removed"]


class Health(Struct):
    """Whether the process works."""

    status: Literal["ok", "stopping", "failed"]


class EvaluationRequest(Struct):
    """A flag evaluation of OFREP; `targetingKey` is one of the attributes."""

    context: Annotated[dict[str, Any], Meta(max_length=MAX_NAMES)] | None = None


class Evaluation(Struct):
    """An evaluated flag; the id under which its reward is learned is `metadata.decision`."""

    key: str
    value: Any
    variant: str
    reason: Literal["SPLIT"]
    metadata: dict[str, Any]


class EvaluationFailure(Struct):
    """A flag that could not be evaluated."""

    key: str
    errorCode: str  # noqa: N815 - as OFREP spells it
    errorDetails: str  # noqa: N815


class Evaluations(Struct):
    """All flags that could be evaluated for a unit, and the ones that could not."""

    flags: list[Any]  # each an `Evaluation` or an `EvaluationFailure`


class BulkFailure(Struct):
    """Why no flag was evaluated."""

    errorCode: str  # noqa: N815
    errorDetails: str  # noqa: N815


class Overview(Struct):
    """The portfolios that the token may read, at a glance, and what the token allows."""

    version: str
    time: float
    token: str
    scopes: list[str]
    admin: list[str]  # names of the portfolios that it may change
    portfolios: list[dict[str, Any]]


class View(Struct):
    """Everything about a portfolio that its page shows next to the charts."""

    view: dict[str, Any]


class Columns(Struct):
    """Samples over a span of time, or over all rounds, as columns."""

    span: str
    names: list[str]
    columns: dict[str, Any]


class LearnerView(Struct):
    """Why a learner plays as often as it does, what is proved about it, and its newest decisions."""

    learner: dict[str, Any]
    decisions: list[dict[str, Any]]


class DecisionView(Struct):
    """Who proposed what, why this learner played, the reward and the trail of events; without the context."""

    decision: dict[str, Any]


class DecisionList(Struct):
    """The newest decisions."""

    decisions: list[dict[str, Any]]


def plain(value: Any) -> Any:
    """Return a value as JSON has it: arrays and tuples as lists, nan and infinities as None."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):  # half of a surrogate pair, which messages of errors may have, is not text
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return plain(str(value))
