"""The judge of a run: what the outbox had against what is in the log."""

import uuid
from collections.abc import Sequence
from typing import Any

from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.messages import TIMEOUT_ID, OutboxMessage, emitted
from tests.chaos.record import Seen
from tests.chaos.verdict import Verdict, exact_copies
from tests.simulation.dispatch.world import SPACE
from tests.simulation.judge import distinct, seen


def judge(world: Any) -> list[str]:
    """What is wrong, a line each; empty when every promise held."""
    sent = [seen(message) for message in world.log.order.get("out", [])]
    rows = world.store.outbox._rows
    problems = [*world.findings, *_rows(world, sent, rows)]
    if world.plan.kind != "unordered":
        verdict = Verdict()
        exact_copies(sent, verdict)
        problems += verdict.lost + verdict.duplicate + _order(distinct(sent), rows)
    return problems + (_timeouts(world, rows) if world.plan.kind == "timeouts" else [])


def _rows(world: Any, sent: Sequence[Seen], rows: Any) -> list[str]:
    """Each row is there, as it was written, or dead for a reason; nothing else is."""
    problems, there = [], {}
    for message in sent:
        there[message.id] = message
        row = rows.get(message.id)
        if row is None:
            problems.append(f"nobody wrote {message.value!r} with id {message.id}")
        elif (message.key, message.value) != (row.message.key, row.message.value):
            problems.append(
                f"{message.id} is {message.value!r} of {message.key!r} instead of {row.message.value!r} of "
                f"{row.message.key!r}"
            )
    for id, row in rows.items():
        if row.state == "dispatched" and id not in there:
            problems.append(f"lost: {id} of {row.message.key!r} counts as sent")
        elif row.state == "pending":
            problems.append(f"lost: {id} of {row.message.key!r} was not sent")
        elif row.state == "dead" and id not in world.refused and row.attempts < 3:
            problems.append(f"{id} is dead after {row.attempts} attempts, and no broker refused it")
    return problems


def _order(taken: Sequence[Seen], rows: Any) -> list[str]:
    """A receiver that drops repeats has the rows of a key in the order in which they were written, but for dead
    ones."""
    problems, last = [], dict[bytes, tuple[int, str]]()
    for record in taken:
        row = rows.get(record.id)
        if row is None or record.key is None or row.state == "dead":
            continue
        if last.get(record.key, (0, ""))[0] > row.seq:
            problems.append(f"{record.id} of {record.key!r} comes after {last[record.key][1]}, which was written later")
        last[record.key] = max(last.get(record.key, (0, "")), (row.seq, record.id))
    return problems


def _timeouts(world: Any, rows: Any) -> list[str]:
    """One message of each timeout, of those that were cancelled none."""
    of_timers = {dict(row.message.headers)[TIMEOUT_ID]: id for id, row in rows.items()}
    named = {number: str(_id(number)).encode() for number in world.due}
    wanted = {
        of_timers.get(named[number], named[number]) if number in world.after else _message(number, due).id
        for number, due in world.due.items()
        if not world.said.get(("cancel", number))
    }
    odd = {id: row for id, row in rows.items() if id not in wanted}
    problems = [
        f"{id} {row.message.value!r}: it was cancelled, or moved, and is a message all the same"
        for id, row in odd.items()
    ]
    return problems + [f"lost: timeout {id}" for id in wanted if id not in rows]


def _message(number: int, due: Any) -> OutboxMessage:
    return emitted(Timeout(_id(number), "out", due))


def _id(number: int) -> uuid.UUID:
    return uuid.uuid5(SPACE, str(number))
