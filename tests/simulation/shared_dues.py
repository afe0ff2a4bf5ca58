"""`scope: shared` with deadlines that records give: no group ends before its deadline, and none waits behind it.

The judge reads the values of the records in the buffer, and not the deadlines that came with them.
"""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from sluicegate.streams.agent import Agent, Aggregation, DataDeadline, Destination, Reducer
from sluicegate.streams.contracts.leased_values import Filled, SealedBatch
from sluicegate.streams.shared.shared_records import unpacked

KIND = "shared due"
SECOND = 1_000_000
ENDS = frozenset({"insert_packs", "insert_and_seal", "due"})
"""Calls that may seal a group by its deadline."""


def agent(chance: Random, first: float) -> Agent:
    deadline = DataDeadline(after="wait", since=chance.choice(["first", "last"]), unit="s", cancel="off")
    compute = Reducer("total", "sum", "n"), Reducer("all", "collect", "at")
    rule = Aggregation(count=chance.randint(4, 9), since_first=first, deadline=deadline, compute=compute)
    return Agent("sums", ("in",), rule, Destination("out"), "dead", scope="shared")


def _due(rule: Aggregation, rows: Sequence[Any]) -> float:
    """The deadline of a group with these rows of the buffer, in microseconds of the store's clock."""
    assert rule.deadline is not None
    assert rule.since_first is not None
    due = rows[0].at + rule.since_first * SECOND
    for row in reversed(rows):
        [record] = unpacked([row.entry])
        value = json.loads(record.v)
        if value["off"]:
            break
        if "wait" in value:
            begin = rows[0].at if rule.deadline.since == "first" else row.at
            return float(min(due, begin + value["wait"] * SECOND))
    return float(due)


def sealed(buffer: Any, name: str, parts: Sequence[Any]) -> frozenset[str]:
    """The batches that are there before a call that may seal others."""
    return frozenset(buffer._buffer(parts[0]).batches) if name in ENDS else frozenset()


def judge(
    buffer: Any, agent: Agent, name: str, parts: Sequence[Any], result: Any, before: frozenset[str]
) -> Iterator[str]:
    """What is wrong with the deadlines after this call of the buffer."""
    rule = agent.aggregation
    if rule is None or rule.deadline is None or name not in ENDS:
        return
    stored, now = buffer._buffer(parts[0]), buffer._now()
    batches: Sequence[SealedBatch] = result.batches if isinstance(result, Filled) else result
    for batch in (batch for batch in batches if batch.id not in before):
        early = _due(rule, stored.batches[batch.id].rows) - now if batch.reason == "timeout" else 0.0
        if early > 1:
            yield f"{batch.id} ended {early / SECOND:.3f} s before the deadline of its records"
    if name != "due" or len(batches) == parts[2]:
        return
    for group, rows in stored.open.items():
        if (late := now - _due(rule, list(rows.values()))) > 1:
            yield f"the group {group!r} waits since {late / SECOND:.3f} s for the deadline of its records"
