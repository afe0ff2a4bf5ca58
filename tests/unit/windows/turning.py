"""A partition with windows turned by hand: batches, commits into a log in memory, crashes and restores from it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer, Window
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.events import Fire, Refused
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.opening import groups_of, known_ids
from tests.unit.windows.hopping_oracle import HoppingOracle
from tests.unit.windows.oracle import Oracle, Result, Step
from tests.unit.windows.session_oracle import SessionOracle

Judge = TypeVar("Judge", Oracle, HoppingOracle, SessionOracle)

TOTAL = (Reducer("total", "sum", "amount"),)


def an_agent(window: Window, having: str = "", **more: Any) -> Agent:
    rule = Aggregation(**{"compute": TOTAL, **more}, window=window)
    return Agent("sums", ("in",), rule, Destination("out"), "dead", having=having)


def rule_of(window: Window, **more: Any) -> Rule:
    return Rule(an_agent(window, **more), codec("json"))


def open_windows(window: Window, **more: Any) -> WindowGroups:
    return opened(rule_of(window, **more))


def opened(rule: Rule) -> WindowGroups:
    groups = groups_of(rule)
    assert isinstance(groups, WindowGroups)
    return groups


def record(offset: int, key: bytes | None, at: int, amount: int = 0) -> LogRecord:
    return LogRecord("in", 0, offset, key, b'{"amount":%d}' % amount, at=at)


def judged(oracle: Judge, steps: Sequence[Step]) -> Judge:
    """The oracle, after it has taken all steps."""
    for offset, step in enumerate(steps):
        if step.key is None:
            oracle.look(step.now)
        else:
            oracle.take(offset, step)
    return oracle


class Turned:
    """`results` and `refused` hold only what was committed. A record's offset is the index of its step. `view` makes of
    a result what is compared."""

    def __init__(self, window: Window, view: Callable[[Fire], Any] | None = None, **more: Any) -> None:
        self.window, self.more, self.view = window, more, view or _told
        self._rules: dict[Window, Rule] = {}  # one for all claims, as in a worker: its loop is compiled once
        self.log: dict[int, bytes] = {}
        self.first, self.last = 1, 0
        self.committed = 0  # steps
        self.results: list[Any] = []
        self.refused: list[tuple[int, str]] = []
        self.restore()

    def restore(self) -> None:
        """As after a crash: what was not committed is gone."""
        if self.window not in self._rules:
            self._rules[self.window] = rule_of(self.window, **self.more)
        self.groups, self.senders = opened(self._rules[self.window]), ReceivedShards("in")
        self.groups.caught_up = True
        self.changelog = Changelog(self.groups, self.first, known_ids(self.groups))
        kept = [self.log[number] for number in sorted(self.log) if self.first <= number <= self.last]
        self.changelog.replay(kept, self.first, self.last, self.senders)

    def take(self, first: int, steps: Sequence[Step]) -> None:
        left_out = {first + i for i, step in enumerate(steps) if step.left_out}
        self.groups.accept(self.records(first, steps), steps[0].now, left_out)

    def records(self, first: int, steps: Sequence[Step]) -> list[LogRecord]:
        return [record(first + i, step.key, step.time, step.amount) for i, step in enumerate(steps)]

    def look(self, now: float) -> None:
        self.groups.at_end, self.groups.end_asked = True, now
        self.expire(now)
        self.groups.at_end = False

    def expire(self, now: float) -> None:
        while self.groups.expire(now, 2) and self.groups.behind:
            pass

    def commit(self, now: float, done: int) -> None:
        for event in self.groups.drain():
            if isinstance(event, Fire):
                self.results.append(self.view(event))
            elif isinstance(event, Refused):
                self.refused.append((event.record.offset(), event.reason))
        entries, keep_from = self.changelog.entries(self.senders.changes(), lambda: self.senders.whole(now), now)
        for entry in entries:
            self.last += 1
            self.log[self.last] = entry
        if keep_from is not None:
            self.log = {number: entry for number, entry in self.log.items() if number >= keep_from}
            self.first = keep_from
        self.committed = done


def _told(fire: Fire) -> Result:
    assert fire.window is not None
    window = fire.window
    return Result(
        fire.key,
        window.start,
        window.end,
        fire.reason,
        window.by,
        fire.first,
        fire.last,
        fire.count,
        fire.values["total"],
        window.revision,
    )
