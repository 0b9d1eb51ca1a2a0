"""The routes of Azure Personalizer: rank, reward and activate, for one slot and for several, as its clients call them.

An event is a decision whose id is the id of the event; in a request with several slots, each slot is a decision of its
own. As in that service, a reward or an activation that changes nothing is answered like any other: of an unknown event,
after the deadline, or a second one where the first counts. The log line of the request says why nothing changed.
Features are objects of any form. They are read as the file declares (`ContextReader.read_free`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import msgspec
import numpy as np
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from equipoise.errors import InvalidArgument, UnknownDecision
from equipoise.features import Offers
from equipoise.features.records import joined
from equipoise.portfolio import Decision
from equipoise.portfolio.tickets import MAX_ID_LENGTH
from equipoise.serve.failures import LateReward, Refused, headers_of, kind_of, problem_of
from equipoise.serve.handlers import Call, answer
from equipoise.serve.hosted import Hosted, Limits
from equipoise.serve.schemas import Label, Number
from equipoise.serve.service import Served

MAX_ACTIONS = 50
MAX_TEXT = 256  # characters of an id
EVENT_PATTERN = f"^[^\\n]{{1,{MAX_TEXT}}}$"  # in a path

Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
EventId = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, pattern=r"^(?![\s\S]*\n)")]
Features = list[dict[str, Any]]
Excluded = Annotated[list[Text], Meta(max_length=MAX_ACTIONS)]


class RankableAction(Struct, rename="camel"):
    """An action that may be chosen; the objects of its features are joined."""

    id: Label
    features: Features | None = None


Actions = Annotated[list[RankableAction], Meta(min_length=1, max_length=MAX_ACTIONS)]


class RankRequest(Struct, rename="camel"):
    """A round to decide. A request that is repeated with the same id of an event gets the same answer."""

    actions: Actions
    context_features: Features | None = None
    excluded_actions: Excluded | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = None


class RankedAction(Struct):
    """An action with its probability, 0 if it is excluded, null if it is unknown."""

    id: str
    probability: float | None


class RankResponse(Struct, rename="camel"):
    """The chosen action, and all actions: the chosen one, then by probability, excluded ones where they were."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class RewardRequest(Struct):
    """The reward of an event."""

    value: Number


class SlotRequest(Struct, rename="camel"):
    """A place that gets one of the actions; its features join those of the context."""

    id: Text
    baseline_action: Text | None = None
    features: Features | None = None
    excluded_actions: Excluded | None = None


class MultiSlotRankRequest(Struct, rename="camel"):
    """Several places to fill with different actions, in their order."""

    actions: Actions
    slots: Annotated[list[SlotRequest], Meta(min_length=1, max_length=MAX_ACTIONS)]
    context_features: Features | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = None


class SlotResponse(Struct, rename="camel"):
    """A place with its action."""

    id: str
    reward_action_id: str


class MultiSlotRankResponse(Struct, rename="camel"):
    """The action of every slot."""

    slots: list[SlotResponse]
    event_id: str


class SlotReward(Struct, rename="camel"):
    """The reward of a slot."""

    slot_id: Text
    value: Number


class MultiSlotRewardRequest(Struct):
    """The rewards of some slots of an event."""

    reward: Annotated[list[SlotReward], Meta(min_length=1, max_length=MAX_ACTIONS)]


class PersonalizerError(Struct):
    """What went wrong."""

    code: str
    message: str


class ErrorResponse(Struct):
    """An error in the form that the clients of Azure Personalizer read."""

    error: PersonalizerError


async def rank(call: Call) -> Response:
    """Decide a round over the actions of a request."""
    body, served = call.body, _find(call, "decide")
    offers = served.reader.read_free(joined(body.context_features or ()), _rows(body.actions))
    offers = _without(offers, body.excluded_actions or ())
    event = body.event_id or str(uuid4())
    decision = await served.engine.run(_decide, offers, event, "", *_common(call, served, body.defer_activation))
    given = [action.id for action in body.actions]
    return answer(RankResponse(_ranking(given, offers, decision), event, str(decision.action_id)), 201)


async def rank_slots(call: Call) -> Response:
    """Decide a round for every slot, in their order, each without the actions of the slots before it."""
    body, served = call.body, _find(call, "decide")
    slots, shared = body.slots, joined(body.context_features or ())
    _check_slots(slots, [action.id for action in body.actions])
    rows, offered = _rows(body.actions), list[Offers]()
    for slot in slots:
        offers = served.reader.read_free(joined([shared, *(slot.features or ())]), rows)
        offered.append(_without(offers, slot.excluded_actions or ()))
    options = [frozenset(offers.offered.tolist()) for offers in offered]
    if Assignment(options).holders is None:
        raise InvalidArgument(f"slots has {len(slots)} slots, but not all can get an action of their own")
    event = body.event_id or str(uuid4())
    names, common = [slot.id for slot in slots], _common(call, served, body.defer_activation)
    decisions = await served.engine.run(_decide_slots, offered, options, event, names, common)
    chosen = [SlotResponse(slot.id, str(each.action_id)) for slot, each in zip(slots, decisions, strict=True)]
    return answer(MultiSlotRankResponse(chosen, event), 201)


async def reward(call: Call) -> Response:
    """Learn the reward of an event."""
    return await _learn(call, {decision_id(_event_of(call)): call.body.value})


async def reward_slots(call: Call) -> Response:
    """Learn the rewards of slots."""
    event, values = _event_of(call), {each.slot_id: each.value for each in call.body.reward}
    if len(values) < len(call.body.reward):
        raise InvalidArgument("reward has a slotId twice, but must have one value for each")
    return await _learn(call, {decision_id(event, slot): value for slot, value in values.items()})


async def activate(call: Call) -> Response:
    """Let an event count from now on, with all its slots."""
    served = _find(call, "reward")
    if not await served.engine.run(_activate, decision_id(_event_of(call))):
        call.request.scope["problem"] = "nothing-deferred"
    return Response(status_code=204)


class Route(NamedTuple):
    """A route under the address that a client is given."""

    id: str
    path: str
    handler: Callable[[Call], Awaitable[Response]]
    scope: str
    summary: str
    request: type[Struct] | None = None
    response: type[Struct] | None = None


EVENT, SLOTS = "/events/{event}", "/multislot"
ROUTES = (
    Route("rank", "/rank", rank, "decide", "Rank actions", RankRequest, RankResponse),
    Route("reward", f"{EVENT}/reward", reward, "reward", "Learn the reward of an event", RewardRequest),
    Route("activate", f"{EVENT}/activate", activate, "reward", "Activate an event"),
    Route(
        *("rank_slots", f"{SLOTS}/rank", rank_slots, "decide", "Fill several slots"),
        *(MultiSlotRankRequest, MultiSlotRankResponse),
    ),
    Route(
        *("reward_slots", f"{SLOTS}{EVENT}/reward", reward_slots, "reward", "Learn the rewards of slots"),
        MultiSlotRewardRequest,
    ),
    Route("activate_slots", f"{SLOTS}{EVENT}/activate", activate, "reward", "Activate an event with its slots"),
)


def decision_id(event: str, slot: str | None = None) -> str:
    """Return the id of the decision of an event; a digest if the portfolio does not take the text.

    >>> decision_id("visit 1"), decision_id("visit 1", "top/left"), decision_id("two" + chr(10) + "lines")[:11]
    ('visit 1', 'visit 1/top%2Fleft', 'sha256-edc8')
    """
    text = event if slot is None else f"{event}/{quote(slot, safe=' ')}"
    if len(text) <= MAX_ID_LENGTH and text.isprintable():
        return text
    return f"sha256-{sha256(text.encode()).hexdigest()}"


def _find(call: Call, scope: str) -> Served:
    """Return the portfolio of a request: the named one, or the only one that its token covers."""
    if call.portfolio is None:
        names = [name for name in call.service.names if call.token.covers(name)]
        if len(names) != 1:
            rule = "name one in the path, as in /NAME/personalizer" if names else "there must be one"
            raise Refused(404, "unknown-portfolio", f"the key is for {len(names)} portfolios: {rule}")
        call.authorize(scope, names[0])
    return call.served


def _event_of(call: Call) -> str:
    event: str = call.request.path_params["event"]
    if not 0 < len(event) <= MAX_TEXT:
        raise InvalidArgument(f"the id of the event has {len(event)} characters, but must have 1 to {MAX_TEXT}")
    return event


def _rows(actions: Sequence[RankableAction]) -> dict[str, dict[str, Any]]:
    rows = {action.id: joined(action.features or ()) for action in actions}
    if len(rows) < len(actions):
        raise InvalidArgument("actions has an id twice, but ids must differ")
    return rows


def _without(offers: Offers, excluded: Collection[str]) -> Offers:
    """Return the offers whose mask excludes these ids; those that are not offered do not matter."""
    assert offers.ids is not None
    kept = np.array([id_ not in excluded for id_ in offers.ids])
    mask = kept if offers.mask is None else kept & offers.mask
    if not mask.any():
        raise InvalidArgument("excludedActions has all actions, but must leave at least one")
    return offers.masked(mask)


def _ranking(given: Sequence[str], offers: Offers, decision: Decision) -> list[RankedAction]:
    """Return all actions: excluded ones where they were given; elsewhere the chosen one, then the most probable."""
    assert offers.ids is not None
    offered, chances = set(offers.offered_ids), dict[str, float | None]()
    for k, id_ in enumerate(offers.ids):
        chances[id_] = None if decision.pmf is None else decision.pmf[k]
    if decision.pmf is None:
        chances[str(decision.action_id)] = None if np.isnan(decision.propensity) else decision.propensity
    order = sorted(
        (id_ for id_ in given if id_ in offered), key=lambda id_: (id_ != decision.action_id, -(chances[id_] or 0.0))
    )
    ranked = iter(order)
    return [RankedAction(id_, 0.0) if id_ not in offered else _ranked(next(ranked), chances) for id_ in given]


def _ranked(id_: str, chances: Mapping[str, float | None]) -> RankedAction:
    return RankedAction(id_, chances[id_])


def _common(call: Call, served: Served, defer: bool | None) -> tuple[Limits, str, bool]:
    return call.service.limits(served.name), call.token.name, bool(defer)


def _decide(hosted: Hosted, offers: Offers, event: str, slot: str, limits: Limits, token: str, defer: bool) -> Decision:
    id_ = decision_id(event, slot or None)
    deferred = decision_id(event) if defer else ""
    return hosted.decide(offers, id_, limits, None, token, pmf=not slot, deferred=deferred)


def _decide_slots(
    hosted: Hosted,
    offered: Sequence[Offers],
    options: Sequence[frozenset[int]],
    event: str,
    names: Sequence[str],
    common: tuple[Limits, str, bool],
) -> list[Decision]:
    """Decide every slot or, after an error, none."""
    decisions, made, left = list[Decision](), list[str](), list(options)
    try:
        for k, (offers, name) in enumerate(zip(offered, names, strict=True)):
            mask = np.zeros(len(offers), np.bool_)
            mask[list(Assignment(left[k:]).choices())] = True
            is_repeated = decision_id(event, name) in hosted.arrivals
            decisions.append(_decide(hosted, offers.masked(mask), event, name, *common))
            if not is_repeated:
                made.append(decisions[-1].id)
            left = [each - {decisions[-1].action} for each in left]
    except BaseException:
        for id_ in made:
            if id_ in hosted.arrivals:  # else it was closed
                hosted.withdraw(id_)
        raise
    return decisions


class Assignment:
    """Different actions for all slots, each from its own options; `holders` is the slot of each action, if possible."""

    def __init__(self, options: Sequence[frozenset[int]]) -> None:
        self._options = options
        self.holders: dict[int, int] | None = {}
        for slot in range(len(options)):
            if not self._place(slot, self.holders, set()):
                self.holders = None
                break

    def _place(self, slot: int, holders: dict[int, int], seen: set[int]) -> bool:
        """Give a slot an action, which may move other slots to other actions."""
        for action in sorted(self._options[slot] - seen):
            seen.add(action)
            if action not in holders or self._place(holders[action], holders, seen):
                holders[action] = slot
                return True
        return False

    def choices(self) -> frozenset[int]:
        """Return the actions that the first slot can take so that all others still get one.

        >>> sorted(Assignment([frozenset({1, 2, 3}), frozenset({1, 2}), frozenset({1, 2})]).choices())
        [3]
        """
        later = self._options[1:]
        if all(len(each) > len(later) for each in later):
            return self._options[0]
        return frozenset(a for a in self._options[0] if Assignment([each - {a} for each in later]).holders is not None)


async def _learn(call: Call, rewards: Mapping[str, float]) -> Response:
    """Learn rewards by the ids of their decisions: all, or none if one is invalid."""
    served, scope = _find(call, "reward"), call.request.scope
    given = scope["checked_headers"].get(b"x-ms-client-request-id", b"").decode("latin-1")
    key = given if 0 < len(given) <= MAX_ID_LENGTH and given.isprintable() else scope["request_id"]
    why = await served.engine.run(_reward_all, rewards, key)
    if why:
        scope["problem"] = why
    return Response(status_code=204)


def _reward_all(hosted: Hosted, rewards: Mapping[str, float], key: str) -> str:
    """Learn rewards, each once; return why one of them changed nothing, or nothing."""
    portfolio, why = hosted.portfolio, ""
    limits = portfolio.reward_range
    for value in rewards.values():
        if limits is not None and not portfolio.settings.clip and not limits[0] <= value <= limits[1]:
            raise InvalidArgument(f"value is {value!r}, but must lie in [{limits[0]:g}, {limits[1]:g}]")
    for id_, value in rewards.items():
        try:
            hosted.reward(id_, value, None if portfolio.settings.aggregate == "first" else key)
        except (UnknownDecision, LateReward) as error:
            kind = kind_of(error)
            why = "ignored-reward" if kind is None else kind.slug
    return why


def _activate(hosted: Hosted, name: str) -> int:
    return hosted.portfolio.activate(name, at=hosted.time)


def _check_slots(slots: Sequence[SlotRequest], ids: Collection[str]) -> None:
    if len({slot.id for slot in slots}) < len(slots):
        raise InvalidArgument("slots has an id twice, but ids must differ")
    for slot in slots:
        baseline, excluded = slot.baseline_action, slot.excluded_actions or ()
        if baseline is not None and (baseline not in ids or baseline in excluded):
            raise InvalidArgument(f"baselineAction is {baseline!r:.80}, but must be an action that is not excluded")


# Code of an error by its status; where there are three, it is the one for rank, reward and activate.
CODES = {
    400: "BadRequest",
    404: "ResourceNotFound",
    409: "InvalidRankRequest",
    413: "PayloadSizeExceeded",
    500: "InternalServerError",
    503: "OperationNotAllowed",
}
INVALID = {"rank": "InvalidRankRequest", "reward": "InvalidRewardRequest", "activate": "InvalidEventIdToActivate"}


def failure(error: BaseException, request: Request) -> Response:
    """Return a failure in the form of Azure Personalizer, which knows the status 400 and not 422."""
    problem = problem_of(error, request.scope.get("request_id", ""))
    request.scope["problem"] = problem.type.rpartition(":")[2]
    status = 400 if problem.status == 422 else problem.status
    code = CODES.get(status, str(status))
    if status == 400:
        code = INVALID.get(request.url.path.rpartition("/")[2], code)
    body = ErrorResponse(PersonalizerError(code, problem.detail))
    return Response(msgspec.json.encode(body), status, headers_of(error), "application/json")
