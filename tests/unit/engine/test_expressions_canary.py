"""A value of a record never comes out of an expression that fails: in no error, log event, header of a dead letter,
metric or status."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas.json import decode_any
from sluicegate.streams.agent import Agent, Aggregation, Destination, Let, OnError, Reducer, Selected
from sluicegate.streams.expressions import exact as forms
from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.faults import EvaluationError
from sluicegate.streams.expressions.parse import parse
from tests.unit.engine.driver import Driver, Log, ManualClock

TEXT, NUMBER = "c4n4ry-7Hq", 918273645918273
SECRETS = (TEXT, str(NUMBER), "c4n4ry")
FIELDS: dict[str, Any] = {
    "t": TEXT,
    "n": NUMBER,
    "d": float(NUMBER),
    "huge": NUMBER * 2**64,
    "l": [TEXT, NUMBER, {TEXT: TEXT}],
    "texts": [TEXT] * 3,
    "m": {TEXT: NUMBER, "x": TEXT},
    "flag": True,
    "none": None,
}
FAILING = (
    *("t > 1", "t + n", "n + t", "t * 2", "-t", "!t", "!n", "t && flag && t", "n || false", "t ? 1 : 2", "n % 0"),
    *("n / 0", "d / 0", "n * n", "n * 10000000", "huge + 1", "d * 1e300 * 1e300", "n - flag", "l + t", "m + m"),
    *("gone", "gone.x", "t.x", "n.x", "l.x", "m.gone", "m[t].x", "m[n]", "m['gone']", "l[9]", "l[t]", "l[d]", "t[0]"),
    *("none > 1", "none.x", "l[2].gone", "n in t", "t in n", "l in m", "size(n)", "size(flag)", "t.startsWith(n)"),
    *("n.endsWith(t)", "t.contains(n)", "n.matches('x')", "n.lowerAscii()", "t.split(n)"),
    *("l.join()", "texts.join(n)", "t.substring(99)", "t.substring(t)", "t.replace(n, t)", "t.replace('', t + t, t)"),
    *("int(t)", "double(t)", "bool(t)", "bool(n)", "int(l)", "string(l)", "string(huge)", "int(d * 1e10)", "double(m)"),
    *("timestamp(t)", "timestamp(n)", "duration(t)", "duration(n)", "timestamp('2026-01-01T00:00:00Z').getHours(t)"),
    *("n.getHours()", "timestamp('9999-12-31T00:00:00Z') + duration(string(n) + 's')", "duration('1s') * n"),
    *("math.greatest(t, n)", "math.least(l)", "math.abs(t)", "math.sign(t)", "math.ceil(n)", "math.round(t)"),
    *("l.all(i, i > 1)", "texts.exists(i, i)", "l.exists_one(i, i == 1 / 0)", "l.filter(i, i)", "l.map(i, i.x)"),
    *("t.all(i, true)", "n.map(i, i)", "m.map(k, k + 1)", "m.all(k, m[k] > 1)", "{t: n, t: n}", "{n: t}", "[gone]"),
    *("texts.map(i, texts.map(j, i + n))", "default(gone, t) > 1", "default(t.x, 1)", "has(t.x)", "t < n", "l < l"),
)


def failing_tells_nothing() -> None:
    for text in FAILING:
        record = decode_any(json.dumps(FIELDS).encode())
        with pytest.raises(EvaluationError) as raised:
            exact(parse(text), lambda name: lambda document: document.get(name))(record)
        assert not any(secret in str(raised.value) for secret in SECRETS), text


def test_no_error_holds_a_value_of_the_record() -> None:
    failing_tells_nothing()


def test_twin_an_error_that_holds_a_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "kind", lambda value: f"{type(value).__name__} {value}")
    with pytest.raises(AssertionError):
        failing_tells_nothing()


SECRET = Reducer("secret", "last", "t")
OF_RECORDS: dict[str, dict[str, Any]] = {
    "where": {"where": "t > 1"},
    "where, quickly": {"where": "t > 1 && flag"},
    "let": {"let": (Let("x", "t + n"),), "compute": (Reducer("x", "sum", "x"),)},
    "let of where": {"let": (Let("x", "int(t)"),), "where": "x > 1"},
}
OF_RESULTS: dict[str, dict[str, Any]] = {
    "having": {"having": "secret > 1"},
    "to.out": {"to": None, "routes": (Destination("out", where="int(secret) > 1"), Destination("rest"))},
    "select": {"to": Destination("out", select=(Selected("x", "secret * 2"),))},
}


def agent(clause: str, **more: Any) -> Agent:
    results = {"to": Destination("out"), "dead_letters": "dead", **(OF_RECORDS | OF_RESULTS)[clause], **more}
    rule = Aggregation(count=2, compute=(SECRET, *results.pop("compute", ())))
    return Agent("sums", ("in",), rule, **results)


@pytest.mark.parametrize("policy", ["dead-letter", "skip", "stop"])
@pytest.mark.parametrize("scope", ["partition", "shared"])
@pytest.mark.parametrize("clause", [*OF_RECORDS, *OF_RESULTS])
def test_nothing_of_the_engine_holds_a_value_of_the_record(
    clause: str, scope: Any, policy: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.create("rest", 1)
    for _ in range(2):
        log.append("in", 0, b"k", json.dumps(FIELDS).encode())
    with capture_logs() as lines:
        driver = Driver(agent(clause, scope=scope, on_error=OnError(expression=policy)), store, log, clock).give(0)
        for _ in range(6):
            driver.turns(2).later(0.5)
        log.append("in", 0, b"k", json.dumps(FIELDS).encode())
        driver.turns(4)
    letters = [message.h for message in log.order.get("dead", [])]
    letters += [row.headers for rows in store._rows.values() for row in rows.unsent.values()]
    letters += [row.message.headers for row in store.outbox._rows.values()]
    texts = [lines, letters, driver.worker._parts.meter.snapshot(), driver.worker.reports.of(clock.now), driver.reports]
    texts += [driver.worker._claims.others()]
    failed = {"outcome": "failed"} if policy != "stop" else {}
    assert "failed" in repr(texts[2]) if failed else "expression-stopped" in repr(texts)
    assert not any(secret in repr(texts) for secret in SECRETS)
