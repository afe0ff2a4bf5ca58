"""Handlers that tests name in their agents; what they were called with, and how they are told to fail."""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any

from sluicegate.streams.handlers import BadItems, Batch, Context, Message, Outage
from tests.unit.engine.scene import Killed
from tests.waiting import wait_until

calls: list[Any] = []
added: list[list[int]] = []
fails: dict[Any, list[BaseException]] = {}
"""By amount: what the next calls raise, one after the other."""


@dataclass
class Order:
    amount: int
    tags: list[str] = field(default_factory=list)


def reset() -> None:
    calls.clear()
    added.clear()
    fails.clear()
    killer.clear()
    bad.clear()


def _maybe_fail(amount: Any) -> None:
    if fails.get(amount):
        raise fails[amount].pop(0)


def note(message: Message) -> None:
    calls.append(message.value["amount"])
    _maybe_fail(message.value["amount"])


def forward(message: Message, send: Any) -> None:
    calls.append(message.value["amount"])
    send({"doubled": message.value["amount"] * 2})
    _maybe_fail(message.value["amount"])


def pass_on(value: Any, headers: Any, send: Any) -> None:
    """Sends what it received, with all its headers."""
    send(value, headers=headers)


def everything(
    value: Any, key: bytes, headers: Any, context: Context, id: str, attempt: int, session: Any, log: Any
) -> None:
    calls.append((value, key, headers, context.id == id, attempt, session))


def typed(value: Order) -> None:
    calls.append(value)


async def slowly(message: Message, context: Context) -> None:
    await asyncio.sleep(0)
    calls.append(message.value["amount"])
    context.send(message.value["amount"], key="async")


def two_outputs(value: Any, send: Any) -> None:
    send(b"raw", key="k1", headers=[("h", "x")])
    send({"to": "other"}, topic="dead", key=b"k2")


def result(batch: Batch, send: Any) -> None:
    calls.append((batch.key, batch.reason, batch.value))
    _maybe_fail(batch.value["total"])
    send({"sum": batch.value["total"]})


def whole(batch: Batch, context: Context) -> None:
    """Sends the result of each group."""
    calls.append((context.id, context.replay))
    _maybe_fail(batch.value["count"])
    context.send(batch.value)


def elsewhere(batch: Batch, send: Any) -> None:
    send(batch.value)
    send(batch.value, topic="other")


def schedules(batch: Batch, schedule: Any) -> None:
    schedule(batch.value, after=1.0)


def book(value: Any, session: Any, send: Any) -> None:
    """The books balance when the sum in the store is that of the outputs."""
    calls.append(value["amount"])
    session.values["sum"] = session.values.get("sum", 0) + value["amount"]
    _maybe_fail(value["amount"])
    send(value["amount"])


def book_together(value: Any, send: Any, together: Any) -> None:
    """As `book`, with one look at the store for all messages of a commit."""
    calls.append(value["amount"])
    together(add_up, value["amount"])
    send(value["amount"])


def add_up(amounts: list[int], session: Any) -> None:
    added.append(amounts)
    session.values["sum"] = session.values.get("sum", 0) + sum(amounts)
    for amount in amounts:
        _maybe_fail(("row", amount))


def context_together(value: Any, context: Context) -> None:
    context.together(add_up, value["amount"])


def together_of_a_batch(batch: Batch, together: Any) -> None:
    together(add_up, batch.value["total"])


def book_batch(batch: Batch, session: Any, send: Any) -> None:
    calls.append(batch.value["total"])
    session.values["sum"] = session.values.get("sum", 0) + batch.value["total"]
    _maybe_fail(batch.value["total"])
    send(batch.value["total"])


def audit(value: Any, session: Any) -> None:
    session.values["audited"] = session.values.get("audited", 0) + 1
    _maybe_fail(("audit", value["amount"]))


def away() -> Outage:
    return Outage("not there")


killer: set[Any] = set()
gate = threading.Event()
loops: set[int] = set()


def deadly(value: Any, send: Any) -> None:
    if value["amount"] in killer:
        raise Killed
    send(value["amount"])


def waits(value: Any, send: Any) -> None:
    calls.append(value["amount"])
    gate.wait(20)
    send(value["amount"])


async def in_a_loop(value: Any, send: Any) -> None:
    loops.add(id(asyncio.get_running_loop()))
    await asyncio.sleep(0.01)
    send(value["amount"])


def until_cancelled(value: Any, context: Context) -> None:
    calls.append(value["amount"])
    wait_until(lambda: context.cancelled, 20, "the cancellation")
    calls.append("cancelled")
    context.send(value["amount"])


bad: dict[int, str] = {}
"""By amount: why a message cannot be used."""


def choosy(batch: Batch, session: Any, send: Any) -> None:
    """Names the bad messages of its group, and books the rest."""
    amounts = [row["amount"] for row in batch.value["rows"]]
    calls.append(amounts)
    if session is not None:
        session.values["sum"] = session.values.get("sum", 0) + batch.value["total"]
    if named := {index: bad[amount] for index, amount in enumerate(amounts) if amount in bad}:
        raise BadItems(named)
    send({"sum": batch.value["total"], "of": amounts})


def choosy_without_session(batch: Batch, send: Any) -> None:
    """As `choosy`; the amount may be missing."""
    amounts = [row.get("amount") for row in batch.value["rows"]]
    if named := {index: bad[amount] for index, amount in enumerate(amounts) if amount in bad}:
        raise BadItems(named)
    send({"sum": batch.value["total"], "of": amounts})


def blunt(batch: Batch, session: Any, send: Any) -> None:
    """Fails for the whole group, and does not say why."""
    amounts = [row["amount"] for row in batch.value["rows"]]
    calls.append(amounts)
    if session is not None:
        session.values["sum"] = session.values.get("sum", 0) + batch.value["total"]
    send({"sum": batch.value["total"], "of": amounts})
    if any(amount in bad for amount in amounts):
        raise ValueError("one of them")


def choosy_together(rows: list[int], session: Any) -> None:
    added.append(rows)
    session.values["sum"] = session.values.get("sum", 0) + sum(rows)
    if named := {index: bad[row] for index, row in enumerate(rows) if row in bad}:
        raise BadItems(named)


def book_choosy(value: Any, send: Any, together: Any) -> None:
    together(choosy_together, value["amount"])
    send(value["amount"])


def choosy_rows(batch: Batch) -> None:
    """As `choosy`, and nothing else."""
    if named := {index: bad[row["amount"]] for index, row in enumerate(batch.value["rows"]) if row["amount"] in bad}:
        raise BadItems(named)


def refuses(reasons: dict[int, str]) -> None:
    raise BadItems(reasons)


def waits_for_its_turn(value: Any, attempt: int, send: Any) -> None:
    """Which attempt it is, and the end only when the gate is open."""
    calls.append((value["amount"], attempt))
    gate.wait(20)
    send(value["amount"])


gate = threading.Event()


def blocked(message: Message) -> None:
    """The call of amount 1 ends when the gate opens."""
    calls.append(message.value["amount"])
    if message.value["amount"] == 1:
        gate.wait(10)
