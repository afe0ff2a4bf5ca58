"""`scope: shared` with early results: each result of a group once, numbered without a gap, in order, and each with more
records than the one before.

The judge reads the results in the outbox, and the rows of the buffer while a worker asks for what is due.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from sluicegate.connectors.times import length
from sluicegate.streams.agent import Agent, Aggregation, Destination, Emit, Reducer, Until
from sluicegate.streams.contracts.leased_values import Gate, OpenBatch
from tests.simulation.early import EVERY

KIND = "shared early"


def agent(chance: Random, first: float) -> Agent:
    emit = Emit(every=chance.choice(EVERY), final=chance.random() < 0.6)
    compute = Reducer("total", "sum", "n"), Reducer("all", "collect", "at")
    until = chance.choice([Until("s", "x"), None])
    rule = Aggregation(
        count=chance.choice([5, 9, 15]),
        since_first=2 * first + (emit.every or first),
        until=until,
        compute=compute,
        emit=emit,
    )
    return Agent("sums", ("in",), rule, Destination("out"), "dead", scope="shared")


def judge(buffer: Any, name: str, parts: Sequence[Any], batches: Sequence[OpenBatch]) -> Iterator[str]:
    """What is wrong with the early results that are due, after this call."""
    if name != "early":
        return
    stored, now, gate = buffer._buffer(parts[0]), buffer._now(), parts[1]
    for batch in batches:
        rows = list(stored.open[batch.group].values())
        new = [row.at for row in rows if row.id > stored.early[batch.group].covered]
        early = new[0] + length(gate.every) - now if new and new[0] <= now else 0
        if not new or early > 1:
            yield f"a result of {batch.group!r} {early / 1e6:.3f} s before it is due, with {len(new)} new records"
    yield from _waits(stored, now, gate) if len(batches) < parts[2] else ()


def _waits(stored: Any, now: int, gate: Gate) -> Iterator[str]:
    """Groups with records in no result whose next one is not due, or due for longer than it may be."""
    for group, rows in stored.open.items():
        early = stored.early.get(group)
        if early is None or (early.due_at is None and max(rows) > early.covered):
            yield f"the group {group!r} has records in no result, and none is due"
        elif early.due_at is not None and early.due_at - now > max(length(gate.lease), length(gate.every)):
            yield f"the next result of {group!r} waits for a clock that was ahead"


def last_results(world: Any, results: Sequence[tuple[Any, dict[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """Of these rows of the outbox, in the order in which they were written, and their documents: what is wrong with
    the numbers of each group, and the id of each row that has a later one."""
    emit = world.plan.agents[0].aggregation.emit
    groups: dict[tuple[Any, str], list[tuple[Any, dict[str, Any]]]] = {}
    for row, document in results:
        groups.setdefault((row.message.key, dict(row.message.headers)["sluicegate-first"]), []).append((row, document))
    for (key, _), all_of in groups.items():
        documents = [document for _, document in all_of]
        *before, last = documents
        numbers = [document["revision"] for document in documents]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"the results of {key!r} are numbered {numbers}", None
        if any(document["final"] for document in before) or not (last["final"] or not emit.final):
            yield f"the last result of {key!r} is not its last: {documents}", None
        for document, following in pairwise(documents):
            grown = following["count"] - document["count"]
            least = 0 if following["final"] and emit.final else 1
            if grown < least or following["all"][: document["count"]] != document["all"]:
                yield f"a result of {key!r} does not continue the one before: {document} {following}", None
        yield from (("", row.message.id) for row, _ in all_of[:-1])
    if not any(document["reason"] == "early" for _, document in results):
        yield "no early result in a whole run", None
