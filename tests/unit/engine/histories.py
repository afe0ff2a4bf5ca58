"""Agents with a history, and a judge that knows their input and their messages only: each record is in one group, and
each group that ended has one message."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer, Selected
from tests.unit.engine.driver import Driver, Log, LogRecord, ManualClock, header, memory
from tests.unit.engine.rebuilding import emitted_twice, feed_at, state
from tests.unit.engine.scene import COMPUTE, Killed, a_log, an_agent

HERE = "tests.unit.engine.handlers"


def told(agent: Agent) -> Agent:
    return replace(agent, history="history")


def handled(function: str, **how: Any) -> Agent:
    agent = an_agent(count=4, since_first=2.0)
    return told(replace(agent, handler=Handler((f"{HERE}:{function}",), **how)))


def late(agent: Agent) -> Agent:
    """A group whose time has passed is a dead letter."""
    return replace(agent, aggregation=replace(agent.aggregation or Aggregation(), on_timeout="dead-letter"))


STATISTICS = (
    Reducer("slow", "percentile", "amount", option=95),
    Reducer("about", "approx_distinct", "amount"),
    Reducer("often", "top", "amount", option=2),
    Reducer("spread", "stddev", "amount"),
    Reducer("by", "count_by", "amount"),
    Reducer("newest", "last_n", "amount", option=2),
)

KINDS = {
    "discarded": told(an_agent(count=4, since_first=2.0, on_timeout="discard")),
    "having": told(replace(an_agent(count=4, since_first=2.0), having="total > 9")),
    "routes": told(
        replace(
            an_agent(count=4, since_first=2.0),
            to=None,
            routes=(
                Destination("out", where="total >= 12"),
                Destination("out2", select=(Selected("total"),), where="0 > 1"),
            ),
            unrouted="drop",
        )
    ),
    "statistics": told(
        replace(an_agent(count=4, since_first=2.0, compute=(*COMPUTE, *STATISTICS)), having="total > 9")
    ),
    "handler": handled("result"),
    "handler or letter": late(handled("result")),
    "session": handled("book_batch", session=True),
    "slow": handled("result", concurrency=2),
}
"""By the reason why a group has no result."""


class Told(NamedTuple):
    """A message about a group that ended."""

    key: str
    first: int
    last: int
    count: int
    reason: str
    topic: str


class Run:
    """One partition, whose worker dies before or after commits. `seed` decides."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent, self.random, self.clock = agent, random.Random(seed), ManualClock()
        self.log: Log = a_log("in", "out", "out2", "dead", "history")
        self.store: MemoryStore = memory(self.clock)
        self.kill_in = 0
        self.deaths = 0
        for name in ("commit", "commit_with"):
            setattr(self.store, name, self._deadly(getattr(self.store, name)))

    def _deadly(self, commit: Any) -> Any:
        def commits(claim: Any, changes: Any) -> Any:
            self.kill_in -= 1
            if self.kill_in == 0 and self.random.random() < 0.5:
                raise Killed
            done = commit(claim, changes)
            if self.kill_in == 0:
                raise Killed
            return done

        return commits

    def driver(self, **more: Any) -> Driver:
        return Driver(self.agent, self.store, self.log, self.clock, **more).give(0)

    def feed(self, keys: str = "abcde") -> None:
        for _ in range(self.random.randint(1, 9)):
            amount = self.random.choice((1, 2, 3, 5))
            feed_at(self.log, self.clock, self.random.choice(keys), json.dumps({"amount": amount}).encode())

    def play(self, steps: int = 40) -> "Run":
        driver = self.driver()
        for _ in range(steps):
            self.feed()
            self.kill_in = self.random.choice((0, 0, 1, 2, 3))
            try:
                driver.turns(3).later(self.random.uniform(0.1, 1.5)).turns(3)
            except Killed:
                self.deaths += 1
                driver = self.driver()
        return self.settle()

    def settle(self) -> "Run":
        self.kill_in = 0
        driver = self.driver()
        for _ in range(4):
            driver.turns(4).later(0.4)
        driver.turns(4)
        return self


def messages(log: Log, topics: tuple[str, ...] = ("out", "out2", "history", "dead")) -> list[LogRecord]:
    """Those that tell of a group, repeats by the number of their row left out."""
    seen: dict[tuple[str | None, str | None], LogRecord] = {}
    for topic in topics:
        for message in log.topics[topic][0] if topic in log.topics else ():
            if header(message, "sluicegate-first") is not None:
                seen.setdefault((header(message, "sluicegate-shard"), header(message, "sluicegate-seq")), message)
    return list(seen.values())


def groups(log: Log) -> Iterator[Told]:
    for message in messages(log):
        fields = {name: header(message, f"sluicegate-{name}") or "" for name in ("first", "last", "count", "reason")}
        first, last = (int(fields[name].rpartition("/")[2]) for name in ("first", "last"))
        key = (message.k or b"").decode()
        yield Told(key, first, last, int(fields["count"]), fields["reason"], message.t)


def refused(log: Log) -> set[int]:
    """The records that are dead letters themselves: three processes died at them."""
    letters = [letter for letter in log.topics["dead"][0] if header(letter, "sluicegate-first") is None]
    return {int(header(letter, "sluicegate-dead-offset") or "") for letter in letters}


def problems(run: Run) -> list[str]:
    """What is wrong with the messages about groups. A handler that gave up has sent a dead letter as well."""
    complaints = [f"two rows of {name}" for name in emitted_twice(messages(run.log))]
    ended = [event for event in groups(run.log) if run.agent.handler is None or event.topic != "dead"]
    times = Counter(result.first for result in ended)
    complaints += [f"{count} messages about the group of record {first}" for first, count in times.items() if count > 1]
    offsets: dict[str, list[int]] = defaultdict(list)
    counted = [record for record in run.log.topics["in"][0] if record.o not in refused(run.log)]
    for record in counted:
        offsets[(record.k or b"").decode()].append(record.o)
    spans = [(result.key, result.first, result.last, result.count) for result in ended]
    offset, open_groups = state(run.agent, run.store)
    spans += [(key.decode(), first, last, count) for key, (count, first, last, _) in open_groups.items()]
    taken: Counter[int] = Counter()
    for key, first, last, count in spans:
        within = [offset for offset in offsets[key] if first <= offset <= last]
        if len(within) != count or within[:1] != [first] or within[-1:] != [last]:
            complaints.append(f"{key}: {count} records from {first} to {last}, the input has {len(within)}")
        taken.update(within)
    every = {record.o for record in counted if record.o < offset}
    complaints += [f"record {number} is in {taken[number]} groups" for number in sorted(every) if taken[number] != 1]
    return complaints
