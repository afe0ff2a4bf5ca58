"""Random rules and random records, for the compiled loop against the careful way."""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from sluicegate.schemas import codec
from sluicegate.streams.agent import (
    Agent,
    Aggregation,
    Correlation,
    DataDeadline,
    Deduplication,
    Destination,
    Emit,
    Let,
    OnError,
    Reducer,
    Selected,
    Until,
    Window,
)
from sluicegate.streams.aggregation.accept import accept, carefully
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import exactly, fill
from sluicegate.streams.correlation.groups import CorrelatedGroups
from sluicegate.streams.errors import Halt
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.closing import SLICE
from sluicegate.streams.windows.groups import WindowGroups, taken_with_care
from sluicegate.streams.windows.intake import judged, take
from sluicegate.streams.windows.opening import groups_of
from sluicegate.streams.windows.sliding.groups import SlidingGroups
from tests.unit.aggregation.turning import an_agent

FIELDS = ("a", "b", "s", "o.x", "twice", "text")
LETS = (
    Let("twice", "a * 2 + 1"),
    Let("text", 's + "-" + s'),
    Let("odd", "items[0]"),
    Let("same", "default(b, null)"),
    Let("alias", "b"),
)
WHERES = (
    "",
    "a > 3",
    'a * 2 + 7 > 12 && s != "x"',
    "size(s) == 1 || o.x > 2",
    'string(twice) != "5"',
    "has(alias)",
    'has(b) && (b > 2 || s in ["x", "y"])',
    "items.exists(i, i > 1)",
    'message.key == "k1"',
    'message.headers["sla"] != "x" && (message.offset > 3 || int(twice) > 2) && size(message.topic) > 1',
    'message.timestamp > timestamp("1970-01-01T00:16:41Z") || a == 4',
    "message.value.a == 4",
    'message.key.split("k")[1] == "2" || has(message.headers["id"]) && message.key > "k"',
)
UNTILS = (
    Until("s", "x"),
    Until("a", 4),
    Until("o.y", True),
    "group.count >= 2 && a > 1",
    "a > 4",
    "group.total > 6",
    "group.total + group.least > 2.5 || group.n == 7",
    "has(group.least) && group.least > twice",
    "group.kinds >= 2 && b < 10",
    "group.spread > 1.5",
    'group.n >= 2 && (string(twice) > "5" || message.key == "k2")',
)
COMPLETES = (
    "has(group.a) && has(group.s)",
    'group.s == "x" || group.count > 3',
    "size(group.b) >= 3",
    "has(group.b) && group.a == 4",
    "group.b > 2",
    "has(group.a.x)",
)
DEADLINES = (
    DataDeadline(at="due", unit="s"),
    DataDeadline(at="due", unit="s", cancel="a == 4"),
    DataDeadline(at='b > 2 ? timestamp("1970-01-01T00:16:50Z") : null'),
    DataDeadline(after="twice", unit="s"),
    DataDeadline(after="sla", cancel="due == null"),
    DataDeadline(after="sla", since="last"),
    DataDeadline(after="o.x", since="last", unit="ms", cancel='s == "y"'),
    DataDeadline(after="b", since="last", unit="ms", cancel="a > 3"),
    DataDeadline(after='a > 2 ? duration("5s") : duration(message.headers["sla"])', cancel='s == "y" && b > 2'),
)
WITH_NUMBER = ("first_n", "last_n", "percentile", "top")
REDUCERS = (
    *WITH_NUMBER,
    "count_by",
    "approx_distinct",
    "sum",
    "min",
    "max",
    "mean",
    "variance",
    "stddev",
    "first",
    "last",
    "distinct",
    "collect",
)
NUMBERS = (0, 1, 2, 3, 4, 5, -1, 2.5, 0.0, -0.0, 2**62, 2**63 - 1, 2**70, 1e308, -1e308, 10**310)
DEEP = json.loads("[" * 66 + "]" * 66)
TEXTS = ("x", "y", "z", "", "é")
BROKEN = b'{"a": 4, "b": 2, "o": {"x": 5}, "s": "z", "items": [3], "unread": "\xff"}'
ODD = (BROKEN, None, b"{", b"7", b"[]", b'{"a": 4, "s": "\xff"}', b"{}", b'{"a": 4' + b" " * 300 + b"}")
ODD_KEYS = (None, None, "é".encode(), b"\xff", b"k" * 5000)


def a_rule(chance: random.Random) -> Agent:
    fields = [*FIELDS, *(("odd", "same", "alias", "alias") if chance.random() < 0.2 else ())]
    until = chance.choice(UNTILS) if chance.random() < 0.7 else None
    compute = [Reducer("n", "count")]
    if isinstance(until, str):
        kinds, unique = ("sum", "mean", "max"), chance.choice(("s", "a", "twice"))
        compute += [Reducer("total", chance.choice(kinds), chance.choice("ab")), Reducer("least", "min", "a")]
        compute.append(Reducer("kinds", "distinct", unique))
        compute += [Reducer("spread", "stddev", "a")] if "spread" in until else []
    for number in range(chance.randint(0, 4)):
        kind = chance.choice(REDUCERS)
        whole = kind == "collect" and chance.random() < 0.6
        option = chance.randint(1, 3) if kind in WITH_NUMBER else None
        compute.append(Reducer(f"r{number}", kind, None if whole else chance.choice(fields), option=option))
    if chance.random() < 0.1:
        return a_correlation(chance)
    window = a_window(chance) if chance.random() < 0.5 else None
    ends = window is None or (window.kind != "hopping" and window.late != "amend")
    limits: dict[str, Any] = {}
    if chance.random() < 0.5:
        limits = {"max_items": chance.choice([2, 5]), "max_groups": chance.choice([2, 3])}
        limits |= {"max_bytes": chance.choice([40, 100, 1000]), "max_buffered_bytes": chance.choice([60, 200, 2000])}
    aggregation = Aggregation(
        key=chance.choice(["", "", "s", "o.x", "twice"]),
        count=(chance.choice([0, 2, 3, 10]) if ends else 0) or None,
        until=until if ends else None,
        since_first=chance.choice([None, 30.0]) if window is None else None,
        since_last=chance.choice([None, 5.0]) if window is None else None,
        deadline=chance.choice(DEADLINES) if window is None and chance.random() < 0.4 else None,
        window=window,
        compute=tuple(compute),
        on_missing=chance.choice(["dead-letter", "dead-letter", "ignore", "skip"]),
        on_full=chance.choice(["fire-oldest", "fire-oldest", "dead-letter", "stop"]),
        **limits,
    )
    on_error = OnError(expression=chance.choice(["dead-letter", "skip", "stop"]))
    return an_agent(aggregation, where=chance.choice(WHERES), let=LETS, max_record_bytes=300, on_error=on_error)


def a_dedupe(chance: random.Random) -> Deduplication | None:
    if chance.random() < 0.6:
        return None
    fields = [("field", field) for field in ("t", "t", "due", "o.x", "twice")]
    by, name = chance.choice([("key", None), ("header", "id"), *fields])
    on_missing: Any = chance.choice(["dead-letter", "accept"])
    horizon, most = chance.choice([5.0, 1000.0]), chance.choice([3, 20, 1000])
    return Deduplication(by, name, horizon=horizon, on_missing=on_missing, max_ids=most)


def a_correlation(chance: random.Random) -> Agent:
    """The fields of a record are its legs."""
    kinds = [chance.choice(("first", "last", "collect")) for _ in range(3)]
    compute = tuple(Reducer(leg, kind, leg) for leg, kind in zip("asb", kinds, strict=True))
    until = chance.choice(COMPLETES)
    late = chance.choice(["dead-letter", "skip"])
    aggregation = Aggregation(
        until=until,
        compute=compute,
        since_first=chance.choice([None, 30.0]),
        deadline=DataDeadline(at="b", unit="s") if chance.random() < 0.4 else None,
        on_missing="ignore",
        correlation=Correlation(20.0, late),
    )
    return an_agent(aggregation, max_record_bytes=200)


def a_window(chance: random.Random) -> Window:
    kind = chance.choice(["tumbling", "hopping", "session"])
    late = chance.choice(["dead-letter", "skip", "new", "amend"]) if kind == "tumbling" else "dead-letter"
    more: dict[str, Any] = {"keep": 4.0, "gather": 0.5} if late in ("new", "amend") else {}
    more |= {"every": 0.5} if kind == "hopping" else {}
    time, unit = chance.choice([(None, "rfc3339"), (None, "rfc3339"), ("t", "ms"), ("o.t", "s")])
    at_most, size = chance.choice([None, 20.0]), 0.5 if kind == "session" else chance.choice([1.0, 2.0])
    grace = chance.choice([0.0, 0.5])
    return Window(
        size, time=time, unit=unit, grace=grace, at_most=at_most, max_ahead=20.0, late=late, kind=kind, **more
    )


def a_value(chance: random.Random, at: int) -> bytes | None:
    if chance.random() < 0.05:
        return chance.choice(ODD)
    fields: dict[str, Any] = {"a": chance.choice(NUMBERS[:8]), "b": chance.choice(NUMBERS), "s": chance.choice(TEXTS)}
    fields |= {"o": {"x": chance.choice(NUMBERS), "y": chance.choice([True, 1]), "t": at / 1000}}
    fields |= {"items": [chance.choice(NUMBERS)], "t": at}
    fields |= {
        "due": chance.choice([None, 900, 1005, 1010, 1040, 1e12]),
        "sla": chance.choice(["5s", "30s", "-1s", None]),
    }
    for name in [*fields]:
        odds = chance.random()
        if odds < 0.03:
            del fields[name]
        elif odds < 0.09:
            fields[name] = chance.choice([None, "7", True, False, [], {}, {"x": "y"}, 7.5, DEEP])
    return with_names_twice(json.dumps(fields).encode(), fields)


def with_names_twice(text: bytes, fields: dict[str, Any]) -> bytes:
    """The document, of which one in ten has some of its names twice. The last value counts."""
    chance = random.Random(text)
    if not fields or chance.random() < 0.9:
        return text
    names = chance.choices([*fields, "twice"], k=2)
    earlier = {name: chance.choice(["7", None, 4, [], {"x": 3}, {"x": "y"}]) for name in names}
    return json.dumps(earlier).encode()[:-1] + b", " + text[1:]


def records(chance: random.Random, size: int) -> list[Any]:
    keys, made = (b"k1", b"k2", b"k3", b"k4"), []
    for offset in range(size):
        key = ODD_KEYS[offset % len(ODD_KEYS)] if chance.random() < 0.02 else chance.choice(keys)
        odds, at = chance.random(), 1_000_000 + offset * 30
        if odds < 0.2:
            at = chance.choice([at - 1_000, at - 3_000, at - 9_000, at + 900, at + 90_000, -1, 10**18])
        made.append(LogRecord("in", 0, offset, key, a_value(chance, at), headers(offset), at=at))
    return made


def headers(offset: int) -> list[tuple[str, bytes | None]] | None:
    """Most records have an id, some of them the id of an earlier record, and some two of them."""
    chance = random.Random(offset)
    if chance.random() < 0.1:
        return None
    ids = [b"%d" % (offset - chance.choice([0, 0, 1, 7])), chance.choice([None, b"", b"\xff", b"x" * 70])]
    return [*(("id", item) for item in ids[: chance.choice([1, 1, 1, 2])]), ("sla", b"30s")]


class Both:
    """Groups that the loop fills, and groups that are filled with care. Each drops its own duplicates."""

    def __init__(self, agent: Agent, asks: bool) -> None:
        self.rule, self.asks = Rule(agent, codec("json")), asks
        self.quick, self.careful = groups_of(self.rule), groups_of(self.rule)
        ids = IdRule(agent, codec("json")) if agent.dedupe is not None else None
        self.drops = None if ids is None else DuplicateFilter(ids)
        self.drops_with_care = None if ids is None else DuplicateFilter(ids)
        for groups in (self.quick, self.careful):
            if isinstance(groups, WindowGroups | CorrelatedGroups):
                groups.caught_up = True

    def add(self, batch: Sequence[Any], now: float) -> bool:
        """Returns whether the partition goes on: what a batch that halts did is never committed."""
        by_loop = self._with(lambda: self._quickly(batch, now))
        with_care = self._with(lambda: self._carefully(batch, now))
        alone = self.rule.where is None and self.drops is None
        in_order = not self.asks or alone or self.rule.loops.get((True, self.drops is not None), self) is not None
        assert by_loop == with_care or (by_loop and with_care and not in_order)
        if by_loop:
            return False
        pairs = zip_longest(seen(self.quick, in_order), seen(self.careful, in_order))
        assert [pair for pair in pairs if pair[0] != pair[1]] == []
        assert known(self.drops) == known(self.drops_with_care)
        return True

    def _quickly(self, batch: Sequence[Any], now: float) -> None:
        if isinstance(self.quick, WindowGroups):
            take(self.quick, batch, now, self.drops) if self.asks else self.quick.accept(batch, now)
        elif self.asks:
            fill(self.quick, batch, now, self.drops)
        else:
            accept(self.quick, batch, now)

    def _carefully(self, batch: Sequence[Any], now: float) -> None:
        one: Any = partial(exactly, duplicates=self.drops_with_care) if self.asks else carefully
        if isinstance(self.careful, WindowGroups):
            one = partial(judged, duplicates=self.drops_with_care) if self.asks else taken_with_care
            self.careful.event.saw(now)
            self.careful.may_close = SLICE
        for row in batch:
            one(self.careful, row, now)

    @staticmethod
    def _with(add: Callable[[], object]) -> str:
        try:
            add()
        except Halt as halt:
            return repr(halt)
        return ""

    def expire(self, now: float) -> None:
        for groups in (self.quick, self.careful):
            groups.expire(now, 3)

    def commit(self) -> None:
        for groups in (self.quick, self.careful):
            groups.changes()
            groups.events.clear()


def known(drops: DuplicateFilter | None) -> list[Any]:
    """The ids that were accepted, and how many records were dropped."""
    if drops is None:
        return []
    ids = drops.seen
    return [drops.dropped, ids.remembered(), ids.size, ids.log_bytes, ids.early]


def seen(groups: Groups, in_order: bool) -> list[str]:
    """All that the groups hold and say. Without a loop `where` is asked about a whole batch first, so its dead letters
    come before others: then not `in_order`."""
    added = sorted((key, bags) for key, bags in groups.added.items() if any(bags))
    outcomes = {clause: count for clause, count in groups.outcomes.items() if count}
    items_of_bags = {key: groups.rule.plan.items(bags) for key, bags in groups.bags.items()}
    parts = (groups.states, items_of_bags, groups.touched, added, sorted(outcomes.items()), groups.counts)
    events = [re.sub(" object at 0x[0-9a-f]+", "", repr(event)) for event in groups.events]
    state = [*map(repr, parts), repr(groups.bytes), repr(sorted(groups.heap)), repr(groups.closed)]
    state += [repr(groups.fresh)] if isinstance(groups, SlidingGroups) else []
    state += [repr(groups.event.state())] if isinstance(groups, WindowGroups) else []
    return [*state, *(events if in_order else sorted(events))]


def own(known: Any, message: Any) -> Any:
    """A user reducer that fails for some messages, and grows."""
    return [*(known or ()), message["a"] + 1]


def with_user_reducers(agent: Agent) -> Agent:
    """The agent with two user reducers, if its groups are never merged."""
    rule = agent.aggregation
    if rule is None or rule.correlation is not None or (rule.window is not None and rule.window.kind != "tumbling"):
        return agent
    reducers = [Reducer(name, "reduce", None, f"{__name__}:own") for name in ("own", "also")]
    return replace(agent, aggregation=replace(rule, compute=(reducers[0], *rule.compute, reducers[1])))


def with_changes(agent: Agent) -> Agent:
    """The agent with an early result whenever a field changes."""
    rule = agent.aggregation
    if rule is None or rule.correlation is not None or rule.window is not None:
        return agent
    return replace(agent, aggregation=replace(rule, emit=Emit(on="change")))


def with_sliding_windows(agent: Agent) -> Agent:
    """The agent with sliding windows. Half of the agents have only reducers whose totals need no merge."""
    rule = agent.aggregation
    if rule is None or rule.correlation is not None:
        return agent
    chance = random.Random(repr(agent))
    last = chance.choice([0, 0, 1, 3])
    size = 0.0 if last and chance.random() < 0.5 else chance.choice([0.09, 1.2])
    time, unit = chance.choice([(None, "rfc3339"), (None, "rfc3339"), ("t", "ms")])
    window = Window(size, time=time, unit=unit, grace=chance.choice([0.0, 1.0]), at_most=None, max_ahead=20.0)
    kept = ("count", "sum", "min", "max", "mean", "first", "last")
    inlined = chance.random() < 0.7
    compute = tuple(reducer for reducer in rule.compute if not inlined or reducer.kind in kept)
    rule = replace(rule, window=replace(window, kind="sliding", last=last), compute=compute)
    rule = replace(rule, count=None, until=None, since_first=None, since_last=None, deadline=None)
    on_full: Any = "stop" if rule.on_full == "stop" else "dead-letter"
    rule = replace(rule, on_full=on_full, max_groups=5 * rule.max_groups)
    having = chance.choice(["", "", "n > 1", "n % 3 == 0", "n % 3 == 0"])
    to = Destination("out", select=(Selected("n"), Selected("twice", "n * 2")) if chance.random() < 0.2 else ())
    return replace(agent, aggregation=rule, having=having, to=to)


def compare(seed: int, batches: int = 12, more: Callable[[Agent], Agent] = lambda agent: agent) -> bool:
    """One random rule on random batches. Returns whether the rule has a loop. Raises AssertionError."""
    chance = random.Random(seed)
    agent, asks = more(a_rule(chance)), chance.random() < 0.7
    if asks and agent.aggregation is not None and agent.aggregation.correlation is None:
        agent = replace(agent, dedupe=a_dedupe(random.Random(seed)))
    both, waiting, now = Both(agent, asks), records(chance, 25 * batches), 1_000.0
    while waiting:
        cut = chance.randint(1, 40)
        batch, waiting, now = waiting[:cut], waiting[cut:], now + chance.choice([0.0, 1.0, 10.0])
        if not both.add(batch, now):
            break
        if chance.random() < 0.5:
            both.expire(now)
        if chance.random() < 0.3:
            both.commit()
    judges = asks and bool(agent.where)
    return both.rule.loops.get((judges, judges and both.drops is not None)) is not None
