"""`sluicegate check --connect --sample N`: what expressions answer for the newest records."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.checking import systems
from sluicegate.streams.cli.terminal.finding import SystemFinding
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.operations.sampling import newest
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Log
from tests.unit.engine.scene import a_log

FILE = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
dead_letters: dead
http: false
agents:
  sums:
    from: orders
    where: amount > 10
    let: {total: price * 2, remark: "default(note, null)"}
    aggregate: {count: 5, compute: {spent: {sum: total}}}
    having: spent > 10
    to: [{topic: large, where: spent >= 1000}, drop]
  stock:
    from: levels
    where: op != "d"
    let: {sku: after.sku}
    key: sku
    repartition: by-sku
    aggregate: {count: 2}
    to: {topic: low}
  results: {from: orders, aggregate: {until: amount > 5}, having: count > 2, to: {topic: large}}
  routes:
    from: prices
    where: amount > 0
    to: [{topic: large, where: amount > 10}, {topic: small, where: price == 1, select: {p: price, n: note}}, drop]
  copies: {from: prices, to: {topic: large}}
  plain: {from: orders, aggregate: {count: 5}, to: {topic: large}}
"""
CANARY = "canary-4711"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = a_log("orders", "levels", "prices", partitions=3)
    monkeypatch.setattr(LogTopics, "log", made)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    monkeypatch.setattr(systems, "inspect", lambda app: [SystemFinding("kafka", True, "answers")])
    return made


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "shop.yaml").write_text(FILE)
    return lambda *args: CliRunner().invoke(main, ["check", str(tmp_path / "shop.yaml"), *args])


def filled(log: Log) -> None:
    """In partition 0: 6 records that are taken; in 1: 3 that are left out; in 2: 4 that fail, 3 for each reason."""
    for number in range(6):
        log.append("orders", 0, b"k", json.dumps({"amount": 11 + number, "price": 1, "note": number or None}).encode())
    for _ in range(3):
        log.append("orders", 1, b"k", json.dumps({"amount": 1, "price": CANARY}).encode())
    for value in ({"price": CANARY}, {"amount": CANARY}, {"price": 1}, {"amount": 12, "price": CANARY}):
        log.append("orders", 2, b"k", json.dumps(value).encode())
    log.append("orders", 2, b"k", b"{" + CANARY.encode())
    log.append("orders", 2, b"k", b"{}", [("sluicegate-retried-for", b"shop/plain")])


def test_each_clause_is_counted_with_the_first_failure_and_its_command(log: Log, check: Callable[..., Result]) -> None:
    filled(log)
    done = check("--connect", "--sample", "1000", "--json")
    assert done.exit_code == 0, done.output
    sums, stock, results, _ = json.loads(done.stdout)["samples"]
    where, total, note = sums["clauses"]
    assert (sums["agent"], sums["records"], sums["not_sampled"]) == ("sums", 14, ["having", "to.large"])
    counts = {"true": 7, "false": 3, "failed": 4}
    problems = {"amount is missing": 2, "> of text and integer": 1, "cannot be read: undecodable": 1}
    assert counts.items() <= where.items()
    assert where["problems"] == problems
    assert where["example"] == "orders/2/0"
    assert (total["computed"], total["failed"], total["problems"]) == (6, 1, {"* of text and integer": 1})
    assert (note["computed"], note["missing"]) == (5, 2)
    assert "example" not in note
    assert (stock["agent"], stock["records"], [clause["clause"] for clause in stock["clauses"]]) == (
        *("stock", 0),
        ["where", "let.sku"],
    )
    assert results == {"agent": "results", "records": 0, "clauses": [], "not_sampled": ["until", "having"]}
    words = shlex.split(total["command"])
    assert words[0] == "sluicegate"
    shown = CliRunner().invoke(main, [*words[1:]])
    assert "  let.total: failed (expression-failed): * of text and integer" in shown.stdout


def test_routes_of_a_forwarder_are_counted_over_the_records_that_where_takes(
    log: Log, check: Callable[..., Result]
) -> None:
    for number in (0, 5, 11, 12):
        log.append("prices", 0, b"k", json.dumps({"amount": number, "price": number - 4}).encode())
    log.append("prices", 0, b"k", json.dumps({"amount": 1, "price": 1, "note": CANARY}).encode())
    done = check("--connect", "--sample", "1000")
    lines = done.stdout.splitlines()
    begin = lines.index("routes: the newest 5 records")
    assert lines[begin + 1 : begin + 6] == [
        "  where: 4 true, 1 false",
        "  to.large: 2 true, 2 false",
        "  to.small: 2 true, 2 false",
        "  select.p: 4 computed",
        "  select.n: 1 computed, 3 missing",
    ]
    assert CANARY not in done.output
    assert not [line for line in lines[begin:] if line.startswith("copies")]


def test_in_words_without_any_value_of_a_record(log: Log, check: Callable[..., Result]) -> None:
    filled(log)
    log.append("levels", 0, b"k", b'{"op": "u"}')
    done = check("--connect", "--sample", "1000")
    lines = done.stdout.splitlines()
    begin = lines.index("sums: the newest 14 records")
    assert lines[begin + 1] == (
        "  where: 7 true, 3 false, 4 failed "
        "(2 amount is missing; 1 > of text and integer; 1 cannot be read: undecodable)"
    )
    assert lines[begin + 2].startswith("    the first failure: sluicegate eval ")
    assert lines[begin + 2].endswith("shop.yaml sums --at orders/2/0")
    assert lines[begin + 3] == "  let.total: 6 computed, 1 failed (* of text and integer)"
    assert lines[begin + 5 : begin + 10] == [
        "  let.remark: 5 computed, 2 missing",
        "  having, to.large: not sampled, because they see groups or results",
        "stock: the newest 1 record",
        "  where: 1 true, 0 false",
        "  let.sku: 0 computed, 1 failed (after is missing)",
    ]
    at = lines.index("routes: the newest 0 records")
    assert lines[at - 2 : at] == ["results:", "  until, having: not sampled, because they see groups or results"]
    assert CANARY not in done.output


def test_only_so_many_of_the_newest_records_are_read(log: Log, check: Callable[..., Result]) -> None:
    filled(log)
    [sums, *_] = json.loads(check("--connect", "--sample", "3", "--json").stdout)["samples"]
    assert sums["records"] == 2  # one of each partition; that of the last one is for another agent
    assert [sums["clauses"][0].get(name, 0) for name in ("true", "false", "failed")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("lengths", "most", "shares"),
    [
        ((10, 10, 10), 6, (2, 2, 2)),
        ((1, 10, 10), 9, (1, 4, 4)),
        ((0, 2, 100), 50, (0, 2, 48)),
        ((3, 3, 3), 100, (3, 3, 3)),
        ((9, 9, 9), 2, (1, 1, 0)),
    ],
)
def test_the_newest_are_shared_out_over_the_partitions(
    lengths: tuple[int, ...], most: int, shares: tuple[int, ...]
) -> None:
    records = newest({("t", number): (5, 5 + length) for number, length in enumerate(lengths)}, most)
    assert tuple(high - low for _, (low, high) in sorted(records.items())) == shares
    assert all(high == 5 + length for (_, (_, high)), length in zip(sorted(records.items()), lengths, strict=True))


def test_without_connect_or_with_the_embedded_broker_it_is_usage(
    check: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = check("--sample", "10")
    assert (done.exit_code, "write --connect, too" in done.stderr) == (2, True)
    assert check("--connect", "--sample", "0").exit_code == 2
    (tmp_path / "shop.yaml").write_text(FILE.replace('"127.0.0.1:1"', "embedded"))
    done = check("--connect", "--sample", "10")
    assert (done.exit_code, "the embedded broker answers only its own run" in done.stderr) == (2, True)


def test_brokers_that_fail_meanwhile_end_with_3(
    log: Log, check: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise SystemNotReady("reading orders/0: nothing came for 30 s")

    monkeypatch.setattr(LogTopics, "read", fails)
    done = check("--connect", "--sample", "10")
    assert (done.exit_code, "kafka: the records of --sample cannot be read: reading orders/0" in done.stderr) == (
        3,
        True,
    )


WINDOWS = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
dead_letters: dead
http: false
agents:
  minutes:
    from: orders
    aggregate: {window: {tumbling: 1m, time: {field: ts, unit: ms}}, compute: {n: count}}
    to: {topic: large}
  fitting:
    from: levels
    key: sku
    repartition: by-sku
    aggregate: {window: {tumbling: 1m, time: {field: ts, unit: s}}, compute: {n: count}}
    to: {topic: low}
"""


def test_times_that_are_years_away_from_kafkas_are_counted_as_failures(log: Log, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(WINDOWS)
    now = 1_767_225_660
    for topic in ("orders", "levels"):
        for ts in (now, now + 1):
            log.append(topic, 0, b"k", json.dumps({"ts": ts, "sku": "a"}).encode(), at=now * 1_000)
    log.append("orders", 1, b"k", json.dumps({"ts": now * 1_000}).encode(), at=now * 1_000)
    log.append("orders", 1, b"k", b"{}", at=now * 1_000)
    done = CliRunner().invoke(main, ["check", str(tmp_path / "shop.yaml"), "--connect", "--sample", "100"])
    lines = done.stdout.splitlines()
    begin = lines.index("minutes: the newest 4 records")
    away = "56 years before Kafka's timestamps: is its `unit` right?"
    assert lines[begin + 1].startswith(f"  time: 1 computed, 3 failed (2 {away}; 1 ")
    assert lines[begin + 2].endswith("shop.yaml minutes --at orders/0/0")
    assert lines[lines.index("fitting: the newest 2 records") + 1] == "  time: 2 computed"
    shown = CliRunner().invoke(main, [*shlex.split(lines[begin + 2].partition(": ")[2])[1:]])
    assert '  time: "1970-01-21T10:53:45.660Z"' in shown.stdout
