"""The input of one partition folded by the oracle of tests/unit/aggregation, and what must be left of it at the end."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.durable.alarms import is_alarm, row_of
from sluicegate.streams.aggregation.durable.entry import unpacked_state
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from tests.chaos.record import Seen
from tests.simulation import correlated, handlers, routed
from tests.simulation.apps import UNTIL, ends
from tests.unit.aggregation.oracle import Oracle
from tests.unit.aggregation.timelines import FUNCTIONS

ENDS: dict[Any, Any] = {UNTIL: ends, correlated.COMPLETE: correlated.complete}
"""What `until` expressions mean."""


def loads(value: bytes | None) -> Any:
    try:
        return json.loads(value or b"")
    except ValueError:
        return None


def _counted(so_far: Any, message: Any) -> int:
    """As handlers.alive, without dying."""
    return (so_far or 0) + 1


class Fold:
    """What one partition's records come to. A timeout is taken from the output that says so (`timers.early` asks
    whether it was due); all else follows from the records. `usable` are those that some group has."""

    def __init__(
        self, agent: Agent, records: Sequence[LogRecord], crashed: set[int], sent: Sequence[Seen], identify: Any
    ) -> None:
        self.agent, self.records = agent, records
        rule = replace(agent.aggregation, since_first=None, since_last=None) if agent.aggregation else None
        self.failed: list[int] = []
        self.passed: list[LogRecord] = []
        self.forwarded: list[tuple[LogRecord, str]] = []
        self.oracle = Oracle(
            rule, functions=FUNCTIONS | {f"{handlers.__name__}:alive": _counted}, where=routed.where(agent)
        )
        if rule is not None:
            self.oracle.ends = ENDS.get(rule.until)
        self._ids: set[str] = set()
        self.identify = identify
        timeouts = self._timeouts(sent)
        for record in records:
            if record.o not in crashed:
                self._take(record, timeouts)
        refused = {offset for offset, _ in self.oracle.refused}
        self.usable = [record for record in records if record.o not in crashed and record.o not in refused]

    def _timeouts(self, sent: Sequence[Seen]) -> dict[str, int]:
        """How many records were in each group that timed out, by its fire's id."""
        results = {}
        for message in sent:
            document = loads(message.value)
            if isinstance(document, dict) and document.get("reason") == "timeout" and self.group_of(message):
                results[self.group_of(message)] = document["count"]
        return results

    def group_of(self, message: Seen) -> str:
        """The id of the first result of its group; empty for other messages."""
        return message.headers.get("sluicegate-fire", "")

    def _take(self, record: LogRecord, timeouts: dict[str, int]) -> None:
        if self.agent.aggregation is None:
            self._message(record)
            return
        if not self._fresh(record):
            return
        refused = len(self.oracle.refused)
        self.oracle.take(record.o, record.k, record.v, 0.0)
        if len(self.oracle.refused) == refused and self.agent.dedupe is not None:
            self._ids.add(self._identity(record))
        for key, group in list(self.oracle.groups.items()):
            if timeouts.get(self.identify(group.first)) == len(group.records) and group.last == record.o:
                self.oracle.end(key, "timeout", 0.0)

    def _message(self, record: LogRecord) -> None:
        value = loads(record.v)
        if self.agent.forwards:
            routes = routed.forwarded(value)
            if isinstance(routes, str):
                self.oracle.refused.append((record.o, routes))
            else:
                self.forwarded += [(record, topic) for topic in routes]
        elif value is None or not isinstance(value, dict):
            self.oracle.refused.append((record.o, "undecodable"))
        elif value.get("fail", 0) >= 99 or "n" not in value:
            self.failed.append(record.o)
        else:
            self.passed.append(record)

    def _identity(self, record: LogRecord) -> str:
        value = loads(record.v)
        return str(value.get("id", "")) if isinstance(value, dict) else ""

    def _fresh(self, record: LogRecord) -> bool:
        dedupe, identity = self.agent.dedupe, self._identity(record)
        if dedupe is None:
            return True
        if not identity and dedupe.on_missing == "dead-letter" and loads(record.v) is not None:
            self.oracle.refused.append((record.o, "no-id"))
            return False
        return not identity or identity not in self._ids

    def at(self, offset: int) -> int:
        """The place, among the results of its key, of the result that begins at this offset."""
        return offset

    def outputs(self) -> list[tuple[int, bytes | None, Any, str]]:
        """(offset of the first record, key, document, topic) of each; of a forwarded record its value."""
        topic = self.agent.to.topic if self.agent.to else ""
        if self.agent.forwards:
            return [(message.o, message.k, message.v, topic) for message, topic in self.forwarded]
        if self.agent.aggregation is None:
            return [(record.o, record.k, handlers.result(loads(record.v)), topic) for record in self.passed]
        findings = []
        for key, fires in self.oracle.fires.items():
            for reason, count, first, _, _, _, values in fires:
                document = {"count": count, "reason": reason, **values}
                if self.agent.handler:
                    document = {"sum": values["total"], "count": count, "reason": reason}
                findings += [(first, key, document, topic) for topic in routed.topics(self.agent, document)]
        return findings

    def left(self, world: Any, partition: Partition) -> list[str]:
        """Groups that are open at the end: those of a rule that never times out, and no others."""
        if self.agent.aggregation is None:
            return books(world, partition, self) if self.agent.handler and self.agent.handler.session else []
        if both := apart(world, partition):
            return both
        rule = self.agent.aggregation
        log_records = {key: group.records for key, group in self.oracle.groups.items()}
        if log_records and (rule.since_first is not None or rule.since_last is not None):
            return [f"{partition}: groups of {sorted(log_records)} never ended, or lost records"]
        counts = open_counts(world, partition)
        wanted = {key: len(records) for key, records in log_records.items()}
        return [] if counts in (None, wanted) else [f"{partition}: open groups {counts} instead of {wanted}"]


def open_counts(world: Any, partition: Partition) -> dict[bytes, int] | None:
    """By key, as the owner holds them; None when nobody does."""
    for process in world.processes:
        if process.believes(partition):
            owner = process.worker._owners[partition.topic, partition.number]
            every = [*(rule.groups for rule in owner.groups.older), owner.groups.newest]
            newest, cold = owner.groups.newest, dict[bytes, int]()
            for key, _, blob in world.store.keys(partition, None, 1000):
                if newest.cold.is_cold(key, owner.groups.cold.paging.gone):
                    cold |= {name: state[0] for name, state in newest.cold.groups_in(key, unpacked_state(blob))}
            hot = {key: state[0] for groups in every for key, state in groups.states.items()}
            return cold | hot
    return None


def apart(world: Any, partition: Partition) -> list[str]:
    """A row is of a cold group, or of a hot one of which the owner knows that it may have a row, or an alarm of a cold
    group. The owner knows how many are cold, and of which windows."""
    states = {row.key: row.state for row in world.store.keys(partition, None, 1000)}
    rows = states.keys()
    for process in world.processes:
        if process.believes(partition):
            owned = process.worker._owners[partition.topic, partition.number].groups
            groups, paging = owned.newest, owned.cold.paging
            cold = {key for key in rows if groups.cold.is_cold(key, paging.gone)}
            alarms = {key for key in rows - cold if is_alarm(key) and row_of(key) in cold}
            if unknown := rows - cold - alarms - paging._rows - paging.gone.keys():
                return [f"{partition}: the owner does not know of the rows of {sorted(unknown)}"]
            all_starts = [start for key in cold for start in groups.cold.starts_in(key, unpacked_state(states[key]))]
            if groups.cold.count != len(all_starts):
                return [f"{partition}: {len(all_starts)} groups are cold, the owner knows of {groups.cold.count}"]
            starts = Counter(start for start in all_starts if start is not None)
            if groups.cold.starts != starts:
                return [f"{partition}: {starts} groups are cold, the owner knows of {groups.cold.starts}"]
    return []


def books(world: Any, partition: Partition, fold: Fold) -> list[str]:
    """What handlers wrote through their sessions: every message once, in order."""
    mine = {json.loads(record.v or b"")["at"]: (record.k, record.o) for record in fold.passed}
    for key in {record.k for record in fold.passed}:
        listed = [at for at in world.store._values.get(repr(key), []) if at in mine]
        wanted = [at for at, (of, _) in mine.items() if of == key]
        if listed != wanted:
            return [
                f"{partition}: the books of {key!r} list {Counter(listed) - Counter(wanted)} too often, "
                f"{Counter(wanted) - Counter(listed)} too rarely, or in another order"
            ]
    return []
