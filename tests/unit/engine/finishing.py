"""Random records out of order, while windows of earlier rules finish beside the next one, judged by a program that
shares no code with the engine."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sluicegate.streams.agent import Agent, Reducer, Window
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import Driver, ManualClock, distinct, header, memory
from tests.unit.engine.scene import Killed, a_log, dead
from tests.unit.engine.test_windows import put, results, windowed_agent

WHERE: dict[str, Callable[[int], bool]] = {
    "": lambda amount: True,
    "amount > 2": lambda amount: amount > 2,
    "amount < 6": lambda amount: amount < 6,
}
TOTALS: Sequence[tuple[str, Callable[[Sequence[int]], int]]] = (("sum", sum), ("max", max), ("min", min))


class Run:
    """Three rules, one after the other, with kills at any commit. They have these windows in turn. `bounds` are the
    starts of the last windows of the first two rules."""

    def __init__(self, seed: int, windows: Sequence[Window], graces: Sequence[int] = ()) -> None:
        self.random, self.log, self.clock = random.Random(seed), a_log(), ManualClock()
        self.late, grace = self.random.choice(("skip", "dead-letter")), self.random.choice((0, 10, 40))
        self.graces = [self.random.choice(graces or (grace,)) for _ in TOTALS]
        self.size, self.every = round(windows[0].size), round(windows[0].every or windows[0].size)
        self.where = self.random.choices([*WHERE], k=3)
        self.rules = [self._rule(at, window) for at, window in enumerate((*windows, *windows, *windows)[:3])]
        self.store, self.kill_at = memory(self.clock), 0
        self.switches = dict[int, int]()  # the offset at which each version began
        self.bounds: list[int | None] = []
        self.given: list[tuple[str, int, int]] = []
        commit = self.store.commit

        def watched(claim: Any, made: Any) -> Any:
            after = commit(claim, made)
            if made.source is not None:
                self.switches.setdefault(made.source.version, made.offset)
            self.kill_at -= 1
            if self.kill_at == 0:
                raise Killed
            return after

        self.store.commit = watched  # type: ignore[method-assign]

    def _rule(self, at: int, window: Window) -> Agent:
        made = replace(window, grace=float(self.graces[at]), idle=None, max_ahead=1e9, late=self.late)
        return windowed_agent(made, self.where[at], compute=(Reducer("total", TOTALS[at][0], "amount"),))

    def driver(self, many: int) -> Driver:
        """With the first `many` rules."""
        steps = [(rule, "finish" if at else "refuse") for at, rule in enumerate(self.rules[:many])]
        return Driver(self.rules[many - 1], self.store, self.log, self.clock, deployed=deployed(*steps)).give(0)

    def play(self) -> "Run":
        changes = sorted(self.random.sample(range(1, 10), 2))
        driver = self.driver(1)
        for step in range(12):
            many = 1 + sum(step >= at for at in changes)
            if step in changes or self.random.random() < 0.3:
                driver = self.driver(many)
            some = [
                (self.random.choice("ab"), max(0, 15 * step - self.random.choice((0, 5, 30, 90))), number)
                for number in self.random.choices(range(9), k=self.random.randrange(6))
            ]
            put(self.log, *some)
            self.given += some
            self.kill_at = self.random.choice((0, 0, 1, 2))
            try:
                driver.turns(3)
            except Killed:
                driver = self.driver(many)
            self.kill_at = 0
        put(self.log, ("z", 100_000, 0))
        self.given.append(("z", 100_000, 0))
        self.driver(3).turns(6)
        return self

    def wanted(self) -> list[tuple[Any, ...]]:
        """Each window has the records that its rule counts and that came before the rule closed it. Its rule is the
        first one whose last window, when the next rule began, is not before it."""
        refused = {int(offset or "") for offset, reason in dead(self.log) if reason == "crash"}  # three deaths at one
        windows, watermark, self.bounds, self.refused = dict[Any, list[int]](), -(10**6), [], list[int]()
        self.ended = set[int]()
        for offset, (key, at, amount) in enumerate(self.given):
            while len(self.bounds) < 2 and self.switches[len(self.bounds) + 2] == offset:
                self._end_rules(watermark)
                number = len(self.bounds)
                open_ = [at for _, at, rule in windows if rule == number and self._closes(at, rule) > watermark]
                self.bounds.append(max(open_, default=None))
            if offset in refused:
                continue
            self._end_rules(watermark)
            watermark, start = max(watermark, at), at // self.every * self.every
            for begin in range(start - self.size + self.every, start + 1, self.every):
                rule = self._rule_of(begin)
                if not WHERE[self.where[rule]](amount):
                    continue
                if self._closes(begin, rule) > watermark:
                    windows.setdefault((key, begin, rule), []).append(amount)
                elif begin == start:
                    self.refused.append(offset)
        return sorted(
            (key, begin, TOTALS[rule][1](amounts), "event")
            for (key, begin, rule), amounts in windows.items()
            if key != "z"
        )

    def _closes(self, begin: int, rule: int) -> int:
        return begin + self.size + self.graces[rule]

    def _end_rules(self, watermark: int) -> None:
        """A later rule decides on late records when no rule takes records of the last window any more."""
        for at, last in enumerate(self.bounds):
            closes = [self._closes(last, rule) for rule in range(at, len(self.bounds) + 1)] if last is not None else []
            if closes and max(closes) <= watermark:
                self.ended.add(at)

    def _rule_of(self, begin: int) -> int:
        lasts = [(rule, last) for rule, last in enumerate(self.bounds) if last is not None and rule not in self.ended]
        return next((rule for rule, last in lasts if begin <= last), len(self.bounds))

    def results(self) -> list[tuple[Any, ...]]:
        return sorted(result for result in results(self.log) if result[0] != "z")

    def twice(self) -> list[tuple[str, int]]:
        """The windows with several results. A rule with a longer grace opens windows again that were closed before
        it began, if none was open then."""
        again = any(last is None and self.graces[at + 1] > self.graces[at] for at, last in enumerate(self.bounds))
        named = [result[:2] for result in self.results()]
        return [] if again else [name for name in {*named} if named.count(name) > 1]

    def late_letters(self) -> list[int]:
        return [int(at or "") for at, reason in dead(self.log) if reason == "late"]

    def rules_named(self) -> int:
        """The number of rules that have results."""
        return len({header(message, "sluicegate-rule") for message in distinct(self.log, "out")})
