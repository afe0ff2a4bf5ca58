"""Errors of the engine at a group or a record of a shared buffer: the third time its records are dead letters, and all
other groups go on."""

from typing import Any

import pytest
import structlog

from sluicegate.connectors.memory.buffer import MemoryBuffer
from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Outbox, Reducer
from sluicegate.streams.aggregation import accept
from sluicegate.streams.aggregation.compiled.compiler import MadeFunction
from sluicegate.streams.aggregation.group_faults import DEATHS
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.outbox import rows
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.shared import shared_firing, shared_runs
from sluicegate.streams.testing.driver import TestDriver
from tests.mutation.twins import without

BAD = 47
COMPUTE = (Reducer("total", "sum", "v"), Reducer("all", "collect"))


def in_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = accept.accept

    def raises(groups: Any, records: Any, now: float) -> None:
        if any(b"40" in record.value() for record in records):
            raise ZeroDivisionError("secret 47")
        taken(groups, records, now)

    monkeypatch.setattr(shared_firing, "accept", raises)


def in_values(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Rule.values

    def raises(self: Rule, state: Any, bags: Any) -> dict[str, Any]:
        if (made := values(self, state, bags))["total"] == BAD:
            raise ZeroDivisionError("secret 47")
        return made

    monkeypatch.setattr(Rule, "values", raises)


def in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    fire = Rows._fire

    def raises(self: Rows, event: Any, dead: Any) -> Any:
        if event.values["total"] == BAD:
            raise ZeroDivisionError("secret 47")
        return fire(self, event, dead)

    monkeypatch.setattr(Rows, "_fire", raises)
    monkeypatch.setattr(rows, "row_loop", lambda form: MadeFunction(None, ""))  # type: ignore[arg-type]


def in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a driver's own error, which no store turns into one of ours."""
    complete = MemoryBuffer.complete_all

    def raises(self: MemoryBuffer, name: str, ends: Any) -> Any:
        if any(f'"total":{BAD}'.encode() in (message.value or b"") for _, messages in ends for message in messages):
            raise ZeroDivisionError("secret 47")
        return complete(self, name, ends)

    monkeypatch.setattr(MemoryBuffer, "complete_all", raises)


def driven(seconds: int = 60) -> tuple[list[Any], list[Any], list[str]]:
    """The totals that came out, the dead letters as (offset, reason, bytes), and the lines of the log."""
    rule = Aggregation(count=2, compute=COMPUTE)
    agent = Agent("a", ("in",), rule, Destination("out"), "dead", scope="shared")
    app = App("app", "memory://", (agent,), outbox=Outbox())
    with structlog.testing.capture_logs() as lines, TestDriver(app, partitions=1) as driver:
        for key, value in (("a", 1), ("b", 40), ("c", 3), ("a", 1), ("b", 7), ("c", 3)):
            driver.send("in", {"v": value}, key=key)
        for _ in range(seconds):
            driver.advance(1.0)
        dead = driver.dead_letters()
        letters = [(letter.headers["sluicegate-dead-offset"], letter.reason, letter.raw) for letter in dead]
        totals = sorted(output.value["total"] for output in driver.read("out"))
    assert "secret" not in str(lines)
    return totals, letters, [str(line["event"]) for line in lines]


@pytest.mark.parametrize("fails", [in_accept, in_values, in_rows, in_the_store])
def test_the_records_of_the_group_are_dead_letters_after_the_third_time(
    fails: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch)
    totals, letters, events = driven()
    assert totals == [2, 6]
    assert letters == [("1", "crash", b'{"v":40}'), ("4", "crash", b'{"v":7}')]
    assert events.count("shared.fault") == DEATHS


def test_without_the_count_the_group_is_tried_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    in_values(monkeypatch)
    with without("shared-faults"):
        totals, letters, events = driven()
    assert (totals, letters) == ([2, 6], [])
    assert events.count("shared.fault") > 2 * DEATHS


def test_a_record_that_cannot_be_inserted_is_a_dead_letter_after_the_third_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packs = shared_runs.packs

    def raises(run: Any, *rest: Any) -> Any:
        if 1 in run.offsets:
            raise ZeroDivisionError("secret 47")
        return packs(run, *rest)

    monkeypatch.setattr(shared_runs, "packs", raises)
    totals, letters, events = driven()
    assert (totals, letters) == ([2, 6], [("1", "crash", b'{"v":40}')])
    assert DEATHS <= events.count("partition.fault") <= DEATHS + 1  # the first one may be of a whole batch
