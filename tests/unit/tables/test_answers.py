"""`eval`, `explain` and the notes of a failed test: what an agent over a table says of one record."""

import json
from typing import Any

import pytest

from sluicegate.streams.agent import Agent
from sluicegate.streams.operations.answering import RecordClauses, record_verdict
from sluicegate.streams.operations.explaining import ExplainedOutput, OffsetSpan, explained
from sluicegate.streams.reading.addressed import TRUSTING
from tests.unit.engine.driver import LogRecord
from tests.unit.tables.scene import an_agent, both

FIRST, SECOND = both(an_agent(where="amount > 1"))


def record(topic: str, value: Any, offset: int = 0, key: bytes = b"ann") -> LogRecord:
    return LogRecord(topic, 0, offset, key, None if value is None else json.dumps(value).encode(), None)


def answered(agent: Agent, of: LogRecord) -> dict[str, Any]:
    clauses = RecordClauses(agent)
    return {name: clauses.answer(number, of).value for number, name in enumerate(clauses.names)}


@pytest.mark.parametrize(
    ("amount", "customer", "clauses", "outcome"),
    [(2, "ann", {"where": True, "key": b"ann"}, "taken"), (1, "ann", {"where": False, "key": b"ann"}, "left-out")],
)
def test_clauses_are_asked_of_the_row(amount: int, customer: str, clauses: dict[str, Any], outcome: str) -> None:
    of = record("orders", {"op": "c", "after": {"customer": customer, "amount": amount}})
    assert answered(FIRST, of) == clauses
    assert record_verdict("app", FIRST, of, TRUSTING).outcome == outcome


def test_a_row_that_no_group_can_have_is_a_dead_letter() -> None:
    verdict = record_verdict("app", FIRST, record("orders", {"op": "c", "after": {"amount": 5}}), TRUSTING)
    assert (verdict.outcome, verdict.reason) == ("dead-letter", "missing-field")


@pytest.mark.parametrize("value", [None, {"op": "d", "before": {"amount": 3}, "after": None}])
def test_a_deleted_row_has_no_clauses(value: Any) -> None:
    of = record("orders", value)
    assert answered(FIRST, of) == {"where": None, "key": None}
    assert record_verdict("app", FIRST, of, TRUSTING).outcome == "taken"


def test_the_agent_behind_it_has_the_key_of_the_message() -> None:
    of = record("by-customer", {"op": "c", "before": None, "after": {"amount": 3}})
    assert answered(SECOND, of) == {"key": b"ann"}
    assert record_verdict("app", SECOND, of, TRUSTING).outcome == "dead-letter"  # its reducers need more fields


def test_a_result_is_made_of_the_changes_of_its_group() -> None:
    rows = [{"id": n, "status": "new", "amount": n} for n in range(3)]
    changes = [(None, rows[0]), (None, rows[1]), (rows[0], rows[2]), (rows[1], None)]
    log = [
        record("by-customer", {"op": "u", "before": before, "after": after}, offset)
        for offset, (before, after) in enumerate(changes)
    ]
    span = OffsetSpan(("by-customer", 0), 0, 3)
    entry = ExplainedOutput("totals/0/3", "id", "fire", "totals", "early", 1, b"ann", span)
    explanation = explained("app", SECOND, entry, span, log, 0)
    assert (explanation.offsets, explanation.notes) == ([0, 1, 2, 3], [])
