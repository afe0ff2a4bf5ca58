"""A compiled aggregation: how to read a record's key and values, when a group is complete, and what its result
contains."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from sluicegate.schemas import Codec, codec
from sluicegate.schemas.codecs import SCHEMA_FORMATS
from sluicegate.schemas.json import canonical, decode_any, key_text
from sluicegate.streams.agent import Agent, Aggregation, DataDeadline, Let, Reducer, Until, Window
from sluicegate.streams.aggregation.clauses import Where, computed
from sluicegate.streams.aggregation.completion import Completion, completion
from sluicegate.streams.aggregation.deadline import DeadlineClause
from sluicegate.streams.aggregation.ending import Ending
from sluicegate.streams.aggregation.layout import DEADLINE_SLOTS, Bags, GroupState, merges
from sluicegate.streams.aggregation.reader import RecordReader
from sluicegate.streams.aggregation.reducers import Plan, places, plan, together
from sluicegate.streams.aggregation.results import results
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.expressions.words import normal
from sluicegate.streams.reducers import kind_of, unwritable
from sluicegate.streams.reduction import Place
from sluicegate.streams.windowers import AMEND, CORRELATION, DATED


class Rule:
    """The compiled parts of an agent that the hot loop calls.

    `reader` reads records. `key_of(record)` returns the key as bytes (None: the message key). `until(record)` tells
    whether the group ends with the record; `ending` is an `until` expression. `deadline` reads the deadline that a
    record gives. `grouped`: the agent has an aggregation, with its own policies for null values and missing fields.
    `where` is None if the agent takes every record. `results` is None if every whole result goes to the one
    destination, and if the agent has lookups. `loops` has the compiled loops (compiled/loop.py). `time_of` reads the
    event time from the decoded record; None if no field holds it.
    """

    __slots__ = (
        "_totals",
        "agent",
        "aggregation",
        "completion",
        "deadline",
        "ending",
        "fingerprint",
        "grouped",
        "key_of",
        "loops",
        "max_record_bytes",
        "on_error",
        "plan",
        "reader",
        "results",
        "shared",
        "time_of",
        "until",
        "where",
    )

    def __init__(self, agent: Agent, codec: Codec) -> None:
        self.agent, self.loops, self.deadline = agent, dict[tuple[bool, bool], Any](), _deadline(agent, codec)
        self.aggregation = aggregation = agent.aggregation or Aggregation(key=agent.key or None)
        self.completion: Completion = completion(aggregation)
        self.max_record_bytes, self.on_error = agent.max_record_bytes, agent.on_error
        window, until, lenient = aggregation.window, aggregation.until, aggregation.on_missing == "ignore"
        self.grouped = agent.aggregation is not None
        self.reader = reader = RecordReader(agent, aggregation, codec)
        getters = reader.getters
        table = aggregation.table
        made: Plan = plan(aggregation.compute, getters, lenient, codec.shown, reader.stored_text, self.merged, table)
        self.plan = made._replace(blank=(*made.blank, *_blank_ends(agent, aggregation)))
        if self.plan.inline and not reader.inline:
            self.plan = self.plan._replace(inline=0, also=together(self.plan.adders))
        self.key_of = _key_of(getters[aggregation.key]) if aggregation.key else None
        self.time_of = getters[window.time] if window is not None and window.time is not None else None
        self.until = _until(until, getters) if isinstance(until, Until) else None
        legs = _legs(aggregation, lenient)
        self.ending = None
        if isinstance(until, str):
            self.ending = Ending(until, aggregation.compute, agent.let, codec, self.plan, legs)
        self.fingerprint, self.shared = fingerprint(agent), agent.scope == "shared"
        asks = bool(agent.where) and not agent.keeps_rows  # a row is checked later, with the row before it
        self.where = Where(agent.where, agent.let, codec, opaque=agent.passes_values) if asks else None
        self.results = None if agent.lookups else results(agent)
        self._totals = _totals(aggregation)

    @property
    def merged(self) -> bool:
        """Whether groups are merged."""
        return merges(self.aggregation)

    @property
    def places(self) -> list[Place]:
        """The slots and bags of each reducer in the state."""
        rule = self.aggregation
        return places(rule.compute, rule.on_missing == "ignore", self.merged, rule.table)

    @property
    def parts(self) -> bool:
        """Whether `max_items` and `max_bytes` end a group, so its later records make another result. A window with
        revised results is never split so."""
        window = self.aggregation.window
        return window is None or window.late != AMEND

    def values(self, state: GroupState, bags: Bags) -> dict[str, Any]:
        """The computed fields of a result."""
        values: dict[str, Any] = {}
        for name, read in self.plan.reads:
            values[name] = read(state, bags)
        return values

    def shown(self, state: GroupState, bags: Bags) -> dict[str, Any]:
        """As `values`, for display: None for a number that a result cannot represent, and for a field that raises an
        error."""
        values = dict.fromkeys(name for name, _ in self.plan.reads) | self.computable(state, bags)
        return {name: None if unwritable(value) else value for name, value in values.items()}

    def computable(self, state: GroupState, bags: Bags) -> dict[str, Any]:
        """As `values`, without the fields that raise an error."""
        with suppress(Exception):
            return self.values(state, bags)
        values = dict[str, Any]()
        for name, read in self.plan.reads:
            with suppress(Exception):
                values[name] = read(state, bags)
        return values

    def overflowed(self, values: Mapping[str, Any]) -> list[str]:
        """The names of the sums and means among these computed fields that a result cannot represent."""
        beyond: list[str] = []  # a comprehension costs more than this loop
        for name in self._totals:
            if unwritable(values.get(name)):
                beyond.append(name)
        return beyond


def _totals(aggregation: Aggregation) -> list[str]:
    """The names of the computed fields that can grow beyond the numbers that a result can represent."""
    return [reducer.name for reducer in aggregation.compute if kind_of(reducer).total]


def _blank_ends(agent: Agent, aggregation: Aggregation) -> list[Any]:
    """The slots of a new group after the slots of its reducers. They belong to its window, to a deadline from the data,
    or to a table: its number of rows, or the row with the key of its group."""
    if agent.keeps_rows:
        return [b"", b""]
    if aggregation.table:
        return [0]
    if aggregation.window is not None:
        return [0] * aggregation.window.windower.slots
    return [None] * DEADLINE_SLOTS if aggregation.deadline is not None else []


def _deadline(agent: Agent, codec: Codec) -> DeadlineClause | None:
    deadline = agent.aggregation.deadline if agent.aggregation is not None else None
    return None if deadline is None else DeadlineClause(deadline, agent.let, codec)


def _legs(aggregation: Aggregation, lenient: bool) -> Mapping[str, int] | None:
    if aggregation.correlation is None:
        return None
    return {
        place.reducer.name: place.bag for place in places(aggregation.compute, lenient) if kind_of(place.reducer).bag
    }


def fingerprint(agent: Agent) -> str:
    """The parts of the rule that must not change while groups are open, as canonical JSON: key, compute (in any order),
    format, whether fields may be missing, a scope other than partition, the computed fields that key and compute name,
    the topics of CloudEvents, and the shape of the windows."""
    rule = agent.aggregation or Aggregation()
    compute = sorted(
        [r.name, r.kind, r.field, r.function, *([] if r.option is None else [r.option])] for r in rule.compute
    )
    more: list[object] = [] if agent.scope == "partition" else [agent.scope]
    lets = computed(
        agent.let, {field.partition(".")[0] for field in (rule.key, *(r.field for r in rule.compute)) if field}
    )
    if lets:
        more.append([[name, normal(let.node)] for name, let in lets.items()])
    if agent.events:
        more.append({"events": sorted(agent.events)})
    if rule.table or agent.keeps_rows:
        more.append({"table": _rows(agent) if agent.keeps_rows else True})
    if (window := rule.window) is not None:  # `grace` and the like may change under open windows
        more.append(_shape(window))
    return canonical([rule.key, compute, agent.format, rule.on_missing == "ignore", *more]).decode()


def _rows(agent: Agent) -> list[object]:
    """The settings that assign the rows of a table to groups."""
    return [agent.key, agent.where, [[definition.name, definition.expression] for definition in agent.let]]


def _shape(window: Window) -> dict[str, object]:
    """The settings of a window that identify its groups. Groups of windows with other settings are other groups."""
    if not window.windower.keys:
        return {"kind": window.kind}
    shape: dict[str, object] = {"size": window.size, "offset": window.offset}
    shape |= {"time": window.time, "unit": window.unit}
    shape |= {} if window.kind == "tumbling" else {"kind": window.kind}
    shape |= {"last": window.last} if window.last else {}
    return shape | {name: getattr(window, name) for name in window.windower.fields}


def _window(known: Window | None, shape: Mapping[str, Any] | None) -> Window | None:
    """A window of this shape. The other settings are those of `known`."""
    if shape is None:
        return None
    if shape.get("kind") == CORRELATION:
        return known if known is not None and known.kind == CORRELATION else Window(0.0, kind=CORRELATION)
    plain = {"kind": "tumbling", "every": 0.0, "last": 0, **dict.fromkeys(DATED, "")}
    return replace(known or Window(**shape), **{**plain, **shape})


def restored(agent: Agent, earlier: str) -> Rule:
    """Rebuild from its fingerprint the rule under which open groups were filled. Raises ConfigurationError if this is
    no longer possible."""
    return layout_rule(earlier_agent(agent, earlier))


def layout_rule(agent: Agent) -> Rule:
    """The rule of an agent that `earlier_agent` made. Groups can end under it, but it takes no records. Raises
    ConfigurationError."""
    try:
        # records with a schema are stored as JSON
        return Rule(agent, codec("json" if agent.format in SCHEMA_FORMATS else agent.format))
    except ValueError as e:
        raise ConfigurationError(
            f"agent {agent.name}: the format of its open groups cannot be read any more: {e}"
        ) from e


def earlier_agent(agent: Agent, earlier: str) -> Agent:
    """The agent with the key, `compute`, format, scope, windows and computed fields of this fingerprint. The
    fingerprint holds nothing else."""
    key, compute, format_name, lenient, *others = decode_any(earlier.encode())
    scope: Literal["partition", "shared"] = "shared" if "shared" in others else "partition"
    let = tuple(Let(*pair) for lets in others if isinstance(lets, list) for pair in lets)
    reducers = tuple(Reducer(*reducer) for reducer in compute)
    shape = next((other for other in others if isinstance(other, dict) and {"size", "kind"} & other.keys()), None)
    window = _window(agent.aggregation.window if agent.aggregation else None, shape)
    on_missing: Literal["ignore", "dead-letter"] = "ignore" if lenient else "dead-letter"
    known = agent.aggregation or Aggregation()
    deadline = None if known.deadline is None else DataDeadline(at="null")  # their deadlines stay as they are
    aggregation = replace(
        known, key=key, compute=reducers, on_missing=on_missing, until=None, deadline=deadline, window=window
    )
    return replace(agent, format=format_name, aggregation=aggregation, scope=scope, where="", let=let, dedupe=None)


def _key_of(get: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    def key_of(record: Any) -> bytes:
        value = get(record)
        return value.encode() if isinstance(value, str) else key_text(value)

    return key_of


def _until(until: Until, getters: dict[str, Callable[[Any], Any]]) -> Callable[[Any], bool]:
    get, equals, boolean = getters[until.field], until.equals, isinstance(until.equals, bool)
    return lambda record: (value := get(record)) == equals and isinstance(value, bool) == boolean
