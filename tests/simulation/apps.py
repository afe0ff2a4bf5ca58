"""The agents that a seed may run, and the records that they get."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Handler, Reducer, Until
from tests.simulation import (
    correlated,
    deadlines,
    early,
    legs,
    merged,
    routed,
    shared_dues,
    shared_early,
    silence,
    windowed,
    windows_deployed,
)
from tests.simulation.handlers import DEADLY
from tests.unit.aggregation.timelines import POOL

HANDLERS = "tests.simulation.handlers"
SUM = (Reducer("total", "sum", "n"),)
ALIVE = Reducer("alive", "reduce", None, f"{HANDLERS}:alive")
KINDS = (
    "count",
    "timed",
    "idle",
    "until",
    "reducers",
    "limits",
    "message",
    "session",
    "slow",
    "batches",
    "dedupe",
    "chain",
    "poison",
)
MORE_KINDS = (
    "refused",
    "gaps",
    "shared",
    "killer",
    "changed",
    "routed",
    "forwarded",
    "expression",
    "deployed",
    "windows",
    "correlated",
    "origins",
    "legs",
    "silence",
    "early",
    "deadlines",
)
"""Not among those that the numbers of seeds choose, so that these go on to mean what they meant."""
UNTIL = "done || group.total >= 150"
KEYS = (b"a", b"b", b"c", b"d", b"e", b"f", b"\xff\x00")
BROKEN = (b"{", b"nope", b'{"s":"no number"}', None)


OF_THEIR_OWN: dict[str, Callable[[Random, float], tuple[Agent, ...]]] = {
    merged.KIND: lambda chance, first: merged.agents(chance),
    legs.KIND: lambda chance, first: legs.agents(chance),
    windows_deployed.KIND: lambda chance, first: (windows_deployed.agent(chance),),
    windows_deployed.CALENDAR: lambda chance, first: (windows_deployed.calendar(chance),),
    windows_deployed.SESSIONS: lambda chance, first: (windows_deployed.sessions(chance),),
    windowed.KIND: lambda chance, first: (windowed.agent(chance),),
    silence.KIND: lambda chance, first: (silence.agent(chance),),
    deadlines.KIND: lambda chance, first: (deadlines.agent(chance),),
    shared_dues.KIND: lambda chance, first: (shared_dues.agent(chance, first),),
    shared_early.KIND: lambda chance, first: (shared_early.agent(chance, first),),
    early.KIND: lambda chance, first: (early.agent(chance, first),),
    correlated.KIND: lambda chance, first: (correlated.agent(4 * first),),
}


def ends(document: Any, group: Mapping[str, Any]) -> bool:
    """What UNTIL means. Raises LookupError where it has no answer."""
    return bool(group["total"] >= 150 or document["done"])


class Entry(NamedTuple):
    """An input record: at which step it is written, and where."""

    step: int
    partition: int
    key: bytes | None
    value: bytes | None


HOT = 3  # groups that stay in memory, so that every seed evicts


def agents(kind: str, chance: Random) -> tuple[Agent, ...]:
    """Those of this kind, with numbers of the seed's own."""
    return tuple(_paged(agent) for agent in _agents(kind, chance))


def _paged(agent: Agent) -> Agent:
    rule = agent.aggregation
    return agent if rule is None or rule.max_groups < 100 else replace(agent, aggregation=replace(rule, hot_groups=HOT))


def _agents(kind: str, chance: Random) -> tuple[Agent, ...]:
    count, first, last = chance.randint(2, 7), chance.uniform(1.0, 8.0), chance.uniform(0.5, 4.0)
    if kind == "message":
        return (_handled(None, Handler((f"{HANDLERS}:work",), attempts=3, backoff_first=0.2, backoff_most=1.0)),)
    if kind == "session":
        return (
            _handled(
                None, Handler((f"{HANDLERS}:book",), session=True, attempts=3, backoff_first=0.2, backoff_most=1.0)
            ),
        )
    if kind == "slow":
        slow = Handler((f"{HANDLERS}:work",), concurrency=2, attempts=4, backoff_first=0.2, backoff_most=1.0)
        return (_handled(None, slow),)
    if kind == "batches":
        rule = Aggregation(count=count, since_first=first, compute=SUM)
        return (_handled(rule, Handler((f"{HANDLERS}:total",), attempts=3, backoff_first=0.2, backoff_most=1.0)),)
    if kind in ("chain", "gaps"):
        sums = Agent(
            "sums", ("in",), Aggregation(count=count, since_first=first, compute=SUM), Destination("mid"), "dead"
        )
        rule = Aggregation(count=3, since_first=first, compute=(Reducer("total", "sum", "total"),))
        return sums, Agent("totals", ("mid",), rule, Destination("out"), "dead", receive=("mid",))
    if kind in ("shared", "killer"):
        until = Until("s", "x") if kind == "shared" else None
        compute = *SUM, Reducer("all", "collect", "at")
        rule = Aggregation(count=count, since_first=first, until=until, compute=compute)
        deadly = Handler((f"{HANDLERS}:deadly",), attempts=3, backoff_first=0.2, backoff_most=1.0)
        handler = deadly if kind == "killer" else None
        return (Agent("sums", ("in",), rule, Destination("out"), "dead", scope="shared", handler=handler),)
    if kind in ("routed", "forwarded"):
        rule = Aggregation(count=count, since_first=first, compute=SUM)
        return (routed.forwarder() if kind == "forwarded" else routed.agent(rule),)
    if kind in OF_THEIR_OWN:
        return OF_THEIR_OWN[kind](chance, first)
    if kind == "dedupe":
        rule = Aggregation(count=count, since_first=first, compute=SUM)
        by = Deduplication("field", "id", on_missing=chance.choice(["accept", "dead-letter"]))
        return (Agent("sums", ("in",), rule, Destination("out"), "dead", dedupe=by),)
    return (Agent("sums", ("in",), _rule(kind, chance, count, first, last), Destination("out"), "dead"),)


def _handled(rule: Aggregation | None, handler: Handler) -> Agent:
    return Agent("sums", ("in",), rule, Destination("out"), "dead", handler=handler)


def _rule(kind: str, chance: Random, count: int, first: float, last: float) -> Aggregation:
    some = tuple(sorted(chance.sample(POOL, 5), key=lambda reducer: reducer.name))
    return {
        "count": Aggregation(count=count, compute=SUM),
        "timed": Aggregation(count=chance.choice([count, None]), since_first=first, compute=SUM),
        "changed": Aggregation(count=count, since_first=first, compute=SUM),
        "deployed": Aggregation(count=count, since_first=first, compute=SUM),
        "refused": Aggregation(count=count, since_first=first, compute=SUM),
        "idle": Aggregation(count=chance.choice([count, None]), since_last=last, compute=SUM),
        "until": Aggregation(
            until=Until("done", True), since_first=first, compute=(*SUM, Reducer("all", "collect", "n"))
        ),
        "expression": Aggregation(until=UNTIL, since_first=first, compute=(*SUM, Reducer("all", "collect", "n"))),
        "reducers": Aggregation(count=count, since_first=first, since_last=last, compute=some),
        "limits": Aggregation(count=9, max_groups=4, max_items=6, compute=SUM),
        "poison": Aggregation(count=count, since_first=first, compute=(*SUM, ALIVE)),
    }[kind]


def records(kind: str, chance: Random, most: int, steps: int, partitions: int) -> tuple[Entry, ...]:
    """So many, in the order in which they are written, some of them bad."""
    entries = [
        Entry(chance.randrange(steps), chance.randrange(partitions), chance.choice(KEYS), _value(kind, chance, number))
        for number in range(most)
    ]
    if kind in (windowed.KIND, merged.KIND, *windows_deployed.KINDS):
        entries = [entry._replace(value=windowed.timed(entry.value, entry.step, chance)) for entry in entries]
    if kind == windows_deployed.CALENDAR:
        entries = [entry._replace(value=windows_deployed.dated(entry.value)) for entry in entries]
    if kind == legs.KIND:
        entries = [entry._replace(value=legs.leg(chance, number, entry.step)) for number, entry in enumerate(entries)]
    if kind == correlated.KIND:
        made = [correlated.leg(chance, number) for number in range(most)]
        entries = [entry._replace(key=key, value=value) for entry, (key, value) in zip(entries, made, strict=True)]
    for at in range(0, most, 31):
        entries[at] = entries[at]._replace(value=chance.choice(BROKEN)) if at % 62 else entries[at]._replace(key=None)
    if kind == "dedupe":
        again = chance.sample(entries, most // 6)
        entries += [letter._replace(step=min(steps - 1, letter.step + chance.randrange(60))) for letter in again]
    if kind == "poison":
        entries[most // 2] = Entry(steps // 3, 0, b"a", b'{"n":1,"poison":true}')
    if kind == "killer":
        entries[most // 2] = Entry(steps // 3, 0, b"a", b'{"n":1,"at":%d}' % DEADLY)
    if kind == windows_deployed.SESSIONS:
        far = b'{"n":0,"m":0,"at":%d,"t":%d}'
        entries += [
            Entry(steps, place, b"a", far % (most + place, windows_deployed.FAR)) for place in range(partitions)
        ]
    return tuple(sorted(entries, key=lambda entry: entry.step))


def _value(kind: str, chance: Random, number: int) -> bytes:
    fields: dict[str, object] = {
        "n": chance.randrange(100),
        "s": chance.choice("xyz") * chance.randrange(1, 4),
        "at": number,
    }
    if kind in ("changed", "deployed", *windows_deployed.KINDS):
        fields["m"] = 10_000 + number
    if kind == "until" or (kind == "expression" and number % 11):
        fields["done"] = chance.random() < 0.2
    if kind in (deadlines.KIND, shared_dues.KIND):
        fields |= deadlines.fields(chance)
    if kind == "reducers":
        fields["d"] = {"x": chance.randrange(4)}
    if kind == "dedupe" and chance.random() < 0.95:
        fields["id"] = f"id-{number}"
    if kind in ("message", "session", "slow", "batches") and number % 23 == 5:
        fields["fail"] = chance.choice([1, 2, 99] if kind != "batches" else [1, 2])
    return json.dumps(fields).encode()
