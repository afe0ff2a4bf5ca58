"""The judge of runs in which files differ between processes and change at any step.

A result names the claim that wrote it, and so the file of its process. Every record that can be used is in one result,
or in a group that is open at the end. What a result says follows from its records and from that file alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from sys import maxsize
from typing import Any

from sluicegate.streams.agent import Agent, Aggregation, Reducer
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from tests.chaos.record import Seen
from tests.simulation.fold import loads, open_counts
from tests.simulation.timers import ROUNDED, seconds
from tests.unit.aggregation.oracle import Oracle

FIELDS = ("n", "m")
"""A file sums one of them; no sum of the one is a sum of the other (apps._value)."""


def files(base: Agent, chance: Random) -> tuple[Agent, ...]:
    """This file and others: another count, another timeout, another compute."""
    rule = base.aggregation or Aggregation()
    idle = replace(rule, count=chance.choice([rule.count, None]), since_first=None, since_last=chance.uniform(0.5, 4.0))
    rules = (
        rule,
        replace(rule, count=chance.randint(2, 9)),
        idle,
        replace(rule, count=chance.randint(2, 9), since_first=None),
        replace(chance.choice([rule, idle]), compute=(Reducer("total", "sum", "m"),)),
    )
    return tuple(replace(base, aggregation=rule) for rule in rules)


class Tiled:
    """The results of one partition, laid over its records."""

    failed: Sequence[int] = ()

    def __init__(
        self, world: Any, partition: Partition, records: Sequence[LogRecord], crashed: set[int], sent: Sequence[Seen]
    ) -> None:
        self._world, self._partition = world, partition
        rule = world.plan.files[0].aggregation
        self.oracle = Oracle(replace(rule, count=None, since_first=None, since_last=None, max_items=maxsize))
        for record in records:
            if record.o not in crashed:
                self.oracle.take(record.o, record.k, record.v, 0.0)
        unused = crashed | {offset for offset, _ in self.oracle.refused}
        self._records: dict[bytes, list[LogRecord]] = {}
        for record in records:
            if record.o not in unused and record.k is not None:
                self._records.setdefault(record.k, []).append(record)
        self._results: dict[bytes, list[Seen]] = {}
        for message in sent:
            if "sluicegate-first" in message.headers and message.key is not None:
                self._results.setdefault(message.key, []).append(message)
        self._left: dict[bytes, int] = {}
        self._findings = list(self._laid())

    def at(self, offset: int) -> int:
        """As fold.Fold."""
        return offset

    def outputs(self) -> list[tuple[int, bytes | None, Any, str]]:
        """As fold.Fold; what is wrong with them is in `left`."""
        return [
            (_offset(result, "first"), key, {}, result.topic)
            for key, results in self._results.items()
            for result in results
        ]

    def left(self, world: Any, partition: Partition) -> list[str]:
        """What is wrong with the results, and with what is open at the end."""
        counts = open_counts(world, partition)
        open_at_end = (
            [] if counts in (None, self._left) else [f"{partition}: open groups {counts} instead of {self._left}"]
        )
        return self._findings + open_at_end

    def _laid(self) -> Iterator[str]:
        """Each result takes the next records of its key."""
        for key, results in self._results.items():
            mine, at = self._records.get(key, []), 0
            for result in sorted(results, key=lambda result: _offset(result, "first")):
                document = loads(result.value)
                part = mine[at : at + document["count"]]
                at += document["count"]
                place = f"{self._partition}: the result {document} of {key!r}"
                ends = [part[0].o, part[-1].o] if part else []
                if ends != [_offset(result, "first"), _offset(result, "last")] or len(part) != document["count"]:
                    span = _offset(result, "first"), _offset(result, "last")
                    yield f"{place} is of {span}, its records are {[record.o for record in part]}"
                else:
                    yield from (f"{place} {why}" for why in self._judged(result, document, part))
            if mine[at:]:
                self._left[key] = len(mine[at:])
        self._left |= {key: len(mine) for key, mine in self._records.items() if key not in self._results}

    def _judged(self, seen: Seen, document: Any, part: Sequence[LogRecord]) -> Iterator[str]:
        """By the file of the claim that wrote it."""
        token = seen.headers["sluicegate-shard"].rpartition("#")[2]
        rule = self._world.files[token].aggregation
        sums = {name: sum(loads(record.v)[name] for record in part) for name in FIELDS}
        own = rule.compute[0].field
        reason, count = document["reason"], len(part)
        computed = [name for name in FIELDS if sums[name] == document["total"]]
        # a group that fires by hand was filled under the rule of an earlier file, whichever file its owner has
        if computed != [own] if reason != "manual" else not computed:
            yield f"sums {computed}; the file of its owner sums {own}, and {sums} are right"
        if reason == "count" and count != rule.count:
            yield f"is complete by a count of {rule.count}"
        elif reason == "count-lowered" and not (rule.count and count > rule.count):
            yield f"is over a count of {rule.count}"
        elif reason == "timeout":
            yield from self._timed(rule, token, document)
        elif reason not in ("count", "count-lowered", "manual"):
            yield "has a reason that no file gives"

    def _timed(self, rule: Any, token: str, document: Any) -> Iterator[str]:
        """No timeout fires early. One since the last record counts from the first claim of such a file, or later."""
        opened, closed = seconds(document["opened_at"]), seconds(document["closed_at"])
        if rule.since_first is None and rule.since_last is None:
            yield "timed out, and its file has no timeout"
        elif rule.since_last is None and closed - opened + ROUNDED < rule.since_first:
            yield f"timed out after {closed - opened:.3f} s of {rule.since_first:.3f}"
        elif (
            rule.since_first is None and len(self._world.skews) == 1
        ):  # else nobody knows what time the store told the owner
            due = self._idle_since(token) + rule.since_last
            if closed + ROUNDED < due:
                yield f"timed out {due - closed:.3f} s early: it counts from the claim on, or from a later record"

    def _idle_since(self, token: str) -> float:
        """The first claim since which no file without a timeout since the last record took any record."""
        claims = self._world.claims[self._partition]
        at = next(at for at, (name, _) in enumerate(claims) if name == token)
        begun: float = claims[at][1]
        for name, time in reversed(claims[:at]):
            idle = self._world.files[name].aggregation.since_last is not None
            if not idle and name in self._world.takers:
                break
            begun = time if idle else begun
        return begun


def _offset(seen: Seen, name: str) -> int:
    return int(seen.headers[f"sluicegate-{name}"].rpartition("/")[2])
