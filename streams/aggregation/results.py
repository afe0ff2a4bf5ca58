"""Builds the result document of a completed group, and evaluates the agent's expressions on it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from sluicegate.schemas.codecs import base64_text
from sluicegate.schemas.json import decode_any, encode
from sluicegate.streams.agent import Agent, Destination, Selected
from sluicegate.streams.aggregation.clauses import Clause, ClauseFailed, answered, answering, clause, computed_fields
from sluicegate.streams.aggregation.events import Fire, Unhandled
from sluicegate.streams.errors import ExpressionStopped
from sluicegate.streams.expressions.scope import NamePath, path_of
from sluicegate.streams.reducers import unwritable

FIXED = ("key", "key_base64", "count", "reason", "opened_at", "closed_at")
"""The fields of every result."""
REVISED = ("revision", "final")
"""The fields of every result of an agent with `emit`."""
WINDOWED = (*FIXED, "window")
"""The fields of every result of a window."""
FIRST_MOMENT, LAST_MOMENT = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999, in seconds since 1970

_FIRST_MILLISECOND, _LAST_MILLISECOND = 1_000 * FIRST_MOMENT, 1_000 * LAST_MOMENT
_THOUSANDTHS = [f".{rest:03d}Z" for rest in range(1_000)]

ResultFields = dict[str, Any]


def fixed_fields(windowed: bool, emits: bool) -> tuple[str, ...]:
    """The fields of every result of an agent with windows, and with early results."""
    return (*(WINDOWED if windowed else FIXED), *(REVISED if emits else ()))


def document(fire: Fire) -> ResultFields:
    """Build the result document: fixed fields first, then computed ones (README.md shows one)."""
    try:
        key = {"key": fire.key.decode()}
    except UnicodeDecodeError:
        key = {"key_base64": base64_text(fire.key)}
    fixed: ResultFields = {
        **key,
        "count": fire.count,
        "reason": fire.reason,
        "opened_at": rfc3339(fire.opened),
        "closed_at": rfc3339(fire.closed),
    }
    if fire.final is not None:
        fixed |= {"revision": fire.revision if fire.window is None else fire.window.revision, "final": fire.final}
    if fire.window is not None:
        start, end = window_times(fire.window.start, fire.window.end)
        by = {"closed_by": fire.window.by} if fire.window.by else {}
        fixed["window"] = {"start": start, "end": end, **by, "revision": fire.window.revision}
    fixed.update(fire.values)
    return fixed


@lru_cache(1024)
def rfc3339(at: float) -> str:
    """Format seconds since 1970 as `2026-11-21T07:42:08.123Z`. The cache helps because groups of one batch share their
    times."""
    at = min(max(at, FIRST_MOMENT), LAST_MOMENT)
    seconds = int(at)
    return of_milliseconds(1_000 * seconds + round(1e6 * (at - seconds)) // 1_000)


def of_milliseconds(at: int) -> str:
    """As `rfc3339`, for milliseconds since 1970."""
    if not _FIRST_MILLISECOND <= at <= _LAST_MILLISECOND:
        at = min(max(at, _FIRST_MILLISECOND), _LAST_MILLISECOND)
    seconds, rest = divmod(at, 1_000)
    return _of_second(seconds) + _THOUSANDTHS[rest]


@lru_cache(1024)
def _of_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


@lru_cache(1024)
def window_times(start: int, end: int) -> tuple[str, str]:
    """Format the start and the end of a window, in milliseconds since 1970. The cache helps because the results of a
    window share them."""
    return of_milliseconds(start), of_milliseconds(end)


class Route(NamedTuple):
    """A route to an output. `where` None takes every result. Without `select` the whole result is sent. `copies` are
    the selected names that are copied, with their source paths."""

    name: str
    where: Callable[[ResultFields], Any] | None
    select: tuple[tuple[str, Callable[[ResultFields], Any] | None], ...]
    copies: Mapping[str, NamePath]
    goes_on: bool


class Results:
    """`having` and the routes of an agent, compiled. `routes` is None if every whole result goes to one destination."""

    def __init__(self, agent: Agent) -> None:
        """Raises ConfigurationError."""
        self.having = of_result(clause("having", agent.having)) if agent.having else None
        chosen = agent.chooses and agent.handler is None
        self.routes = [route(output, of_result) for output in agent.outputs] if chosen else None
        self._drops, self._stops = agent.unrouted == "drop", agent.on_error.expression == "stop"

    def events(
        self, fire: Fire, outcomes: Counter[tuple[str, str]], enriched: ResultFields | None = None
    ) -> Iterator[Fire | Unhandled]:
        """The group as an event to send or handle, or as a dead letter. Empty if the file omits it. `enriched` is its
        result with the rows of lookups. Counts the outcomes of clauses. Raises ExpressionStopped."""
        result = document(fire) if enriched is None else enriched
        try:
            if not self.takes(result, outcomes):
                return
            if (outputs := self.outputs(result, outcomes)) is None:
                yield fire if enriched is None else replace(fire, outputs=((0, result),))
            elif outputs:
                yield replace(fire, outputs=outputs)
            elif not self._drops and not fire.goes_on:
                yield Unhandled(fire, "no route of `to` takes it", 1, "unrouted", stage="expression")
        except ClauseFailed as failed:
            outcomes[failed.clause, "failed"] += 1
            if fire.goes_on:  # omitted: the last result will report the error
                return
            if self._stops:
                raise ExpressionStopped(
                    f"the group of records {fire.first} to {fire.last}: {failed.clause} has no answer ({failed}), and "
                    "on_error.expression is stop; let it be dead-letter, or correct the expression, and restart"
                ) from failed
            yield Unhandled(fire, str(failed), 1, "expression-failed", stage="expression", clause=failed.clause)

    def whole(self, fire: Fire) -> Fire:
        """The group as an event that sends the result to each output, without evaluating the clauses."""
        routes = range(len(self.routes or ()))
        return replace(fire, outputs=tuple((number, document(fire)) for number in routes) or None)

    def takes(self, result: ResultFields, outcomes: Counter[tuple[str, str]]) -> bool:
        """Whether `having` accepts the result. Counts the outcome. Raises ClauseFailed."""
        return self.having is None or _holds("having", self.having, result, outcomes)

    def outputs(
        self, result: ResultFields, outcomes: Counter[tuple[str, str]]
    ) -> tuple[tuple[int, ResultFields], ...] | None:
        """The documents to send, each with its index in `Agent.outputs`. None if every whole result goes to the one
        destination. Counts the outcomes. Raises ClauseFailed."""
        return None if self.routes is None else tuple(self._outputs(self.routes, result, outcomes))

    def _outputs(
        self, routes: Sequence[Route], result: ResultFields, outcomes: Counter[tuple[str, str]]
    ) -> Iterator[tuple[int, ResultFields]]:
        for number, route in taking(routes, result, outcomes):
            yield number, selected(route, result) if route.select else result


def results(agent: Agent) -> Results | None:
    """Compile `having` and the routes. None: each whole result goes to the only destination, or to the handler. Raises
    ConfigurationError."""
    if not agent.grouped or not (agent.having or (agent.chooses and agent.handler is None)):
        return None
    return Results(agent)


def clauses(to: Destination) -> list[Clause]:
    """The expressions of a destination: `where`, then the expressions under `select`. A copy of a missing field is
    null. Raises ConfigurationError."""
    where = [clause(f"to.{to.topic}", to.where)] if to.where else []
    select = [(field, f"select.{field.name}") for field in to.select if field.expression]
    return where + [
        clause(name, f"default({entry.expression}, null)" if copied_from(entry) else entry.expression)
        for entry, name in select
    ]


def copied_from(entry: Selected) -> NamePath | None:
    """The source path of a selected name. A name alone is its own path. None: an expression computes it. Raises
    ConfigurationError."""
    if not entry.expression:
        return (entry.name,)
    return path_of(clause(f"select.{entry.name}", entry.expression).node)


def route(to: Destination, function: Callable[[Clause], Callable[[Any], Any]]) -> Route:
    """Compile a route. `function` compiles a clause for the object that the route reads. Raises ConfigurationError."""
    compiled = {route.name: function(route) for route in clauses(to)}
    select = tuple((field.name, compiled.get(f"select.{field.name}")) for field in to.select)
    name = f"to.{to.topic}"
    copies = {field.name: path for field in to.select if (path := copied_from(field))}
    return Route(name, compiled.get(name), select, copies, to.goes_on)


def taking(routes: Sequence[Route], seen: Any, outcomes: Counter[tuple[str, str]]) -> Iterator[tuple[int, Route]]:
    """Yield the matching routes with their numbers: the first match, and the next ones after a route with `continue`.
    Counts the outcomes. Raises ClauseFailed."""
    for number, route in enumerate(routes):
        if route.where is None or _holds(route.name, route.where, seen, outcomes):
            yield number, route
            if not route.goes_on:
                return


def _holds(name: str, answer: Callable[[Any], Any], seen: Any, outcomes: Counter[tuple[str, str]]) -> bool:
    holds = answered(name, answer(seen))
    outcomes[name, "true" if holds else "false"] += 1
    return holds


def selected(route: Route, result: ResultFields) -> ResultFields:
    """The document of the selected names. A copy of a missing field is omitted."""
    asked = ((name, answer) for name, answer in route.select if name not in route.copies)
    computed, document = computed_fields("select", asked, result), dict[str, Any]()
    for name, _ in route.select:
        path = route.copies.get(name)
        holder, last = (computed, name) if path is None else _holder(result, path)
        if last in holder:
            document[name] = holder[last]
    return document


def _holder(result: ResultFields, path: NamePath) -> tuple[Mapping[str, Any], str]:
    """The object that contains the last name of the path, and that name."""
    holder: Any = result
    for name in path[:-1]:
        holder = plain(holder.get(name))
        if not isinstance(holder, Mapping):
            return {}, name
    return holder, path[-1]


def of_result(clause: Clause) -> Callable[[ResultFields], Any]:
    """Compile the clause to a function of a result document. The function raises ClauseFailed."""
    return answering(clause, _field)


def _field(name: str) -> Callable[[ResultFields], Any]:
    return lambda result: plain(result.get(name))


def plain(value: Any) -> Any:
    """The value as a reader of the result sees it: a value that only the encoder knows is encoded and decoded. A number
    that a result cannot represent is None."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, float | int):
        return None if unwritable(value) else value
    return decode_any(encode(value))
