"""`sluicegate eval`: what each clause answers for one record, or one result."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.formats import record_value
from sluicegate.streams.versions import mac_keys
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, Log, ManualClock, header
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
    where: paid && country in ["DE", "FR"]
    let:
      total: amount * default(qty, 1)
      region: country + "/" + default(message.headers.tier, "none")
      late: timestamp("2026-01-01T00:00:00Z")
    key: region
    aggregate: {count: 1, compute: {spent: {sum: total}}}
    having: spent > 10
    to:
      - {topic: large, where: spent >= 1000, select: {spent: spent, half: spent / 2, late: reason == "timeout"}}
      - {topic: small, where: spent < 100, select: [key, spent]}
  stock:
    from: levels
    where: op != "d"
    let: {sku: after.sku, left: after.left + 0}
    key: sku
    repartition: by-sku
    aggregate: {count: 2, compute: {least: {min: left}}}
    to: {topic: low}
  pallets:
    from: orders
    aggregate: {until: "default(last, false) || group.sum >= 500", compute: {sum: {sum: amount}}}
    to: {topic: full}
  calls: {from: orders, where: amount > 3, handler: "builtins:len"}
  lines: {from: lines, format: raw, where: message.key == "a", aggregate: {count: 2}, to: {topic: pairs}}
  payments:
    from: orders
    let: {total: "amount * default(qty, 1)"}
    to:
      - {topic: large, where: total > 1000, continue: true}
      - {topic: small, where: total > 10, select: {total: total, country: country}}
      - {topic: small, where: has(message.headers.tier), select: [country, qty]}
  keyed: {from: orders, key: country, to: {topic: large}}
  copies: {from: orders, where: message.key == "a", to: {topic: large}}
  avro:
    {from: invoices, format: avro, schema: invoice.avsc, where: double(total) >= 100, aggregate: {count: 2},
     to: {topic: bills}}
"""
SCHEMA = """\
{"type": "record", "name": "Invoice", "fields": [{"name": "id", "type": "string"},
 {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}]}
"""
Eval = Callable[..., dict[str, Any]]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "shop.yaml").write_text(FILE)
    (tmp_path / "invoice.avsc").write_text(SCHEMA)
    return str(tmp_path / "shop.yaml")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = a_log("orders", "levels", "by-sku", "lines", "invoices", "large", "small", "dead")
    monkeypatch.setattr(LogTopics, "log", made)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    return made


@pytest.fixture
def plain(file: str) -> Callable[..., Result]:
    return lambda *args: CliRunner().invoke(main, ["eval", file, *args])


@pytest.fixture
def judged(plain: Callable[..., Result]) -> Eval:
    def run(*args: str) -> dict[str, Any]:
        done = plain(*args, "--json")
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    return run


def order(**fields: Any) -> str:
    return json.dumps({"paid": True, "country": "DE", "amount": 6, **fields})


SMALL = order(amount=60)


def answers(part: dict[str, Any]) -> dict[str, Any]:
    """By clause: its answer, or the reason, the clause that failed and the problem."""
    return {
        clause["clause"]: clause["answer"]
        if "answer" in clause
        else (clause["reason"], clause["failed"], clause["problem"])
        for clause in part["clauses"]
    }


@pytest.mark.parametrize(
    ("agent", "comments"),
    [
        ("sums", ["where", "values and key", "group", "reducers", "end"]),
        ("lines", ["values and key", "group", "end"]),
        ("calls", ["where"]),
        ("pallets", ["values and key", "until", "reducers", "group", "end"]),
    ],
)
def test_the_code_of_a_rule_is_shown(file: str, agent: str, comments: list[str]) -> None:
    shown = CliRunner().invoke(main, ["eval", "--show-code", file, agent])
    assert shown.exit_code == 0, shown.output
    assert [line.strip()[2:] for line in shown.output.splitlines() if line.strip().startswith("#")] == comments


def test_every_clause_of_a_record_is_answered(judged: Eval) -> None:
    judgement = judged(
        "sums", "--value", order(qty=2), "--header", "tier=silver", "--header", "tier=gold=1", "--key", "k"
    )
    assert judgement["record"]["becomes"] == "taken"
    assert answers(judgement["record"]) == {
        "let.total": 12,
        "let.region": "DE/gold=1",
        "let.late": "2026-01-01T00:00:00Z",
        "where": True,
        "key": "DE/gold=1",
    }
    assert [clause["clause"] for clause in judgement["result"]["clauses"]] == [
        *("having", "to.large", "select.spent", "select.half", "select.late", "to.small")
    ]


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"amount": 499}, False),
        ({"amount": 500}, True),
        ({"amount": 1, "last": True}, True),
        ({"amount": 1, "last": "x"}, ("expression-failed", "until", "|| of text")),
        ({}, ("missing-field", "", "Object missing required field `amount`")),
    ],
)
def test_until_is_asked_of_a_group_with_this_record_only(judged: Eval, value: Any, answer: object) -> None:
    record = judged("pallets", "--value", json.dumps(value), "--key", "p")["record"]
    assert answers(record)["until"] == answer


@pytest.mark.parametrize(
    ("arguments", "outputs"),
    [
        (["--value", order()], None),
        (["--value", order(amount=60)], [{"topic": "small", "value": {"total": 60, "country": "DE"}}]),
        (
            ["--value", order(amount=60, qty=20)],
            [{"topic": "large", "unchanged": True}, {"topic": "small", "value": {"total": 1200, "country": "DE"}}],
        ),
        (["--value", order(), "--header", "tier=a"], [{"topic": "small", "value": {"country": "DE"}}]),
    ],
)
def test_a_forwarded_record_shows_where_it_goes(
    judged: Eval, plain: Callable[..., Result], arguments: list[str], outputs: list[dict[str, Any]] | None
) -> None:
    record = judged("payments", *arguments)["record"]
    assert record.get("outputs") == outputs
    assert (record["becomes"], record.get("reason")) == (("taken", None) if outputs else ("dead-letter", "unrouted"))
    names = [clause["clause"] for clause in record["clauses"]]
    assert names == ["let.total", "to.large", "to.small", "select.total", "select.country", "to.small"]
    shown = plain("payments", *arguments).stdout
    assert all(f"  -> {message['topic']}: " in shown for message in outputs or [])
    assert ("  -> large: unchanged\n" in shown) == ({"topic": "large", "unchanged": True} in (outputs or []))


def test_a_forwarded_record_shows_its_new_key(judged: Eval) -> None:
    assert answers(judged("keyed", "--value", order())["record"]) == {"key": "DE"}
    lacking = judged("keyed", "--value", "{}")["record"]
    assert (lacking["becomes"], lacking["reason"]) == ("dead-letter", "missing-field")


def test_a_clause_of_a_route_that_has_no_answer_is_named(judged: Eval) -> None:
    record = judged("payments", "--value", '{"amount": "x"}')["record"]
    assert (record["becomes"], record["clause"]) == ("dead-letter", "let.total")
    assert answers(record)["to.large"] == ("expression-failed", "let.total", "* of text and integer")
    assert answers(record)["select.country"] is None


def test_a_value_that_a_forwarder_does_not_read_may_be_anything(judged: Eval) -> None:
    record = judged("copies", "--value", "{", "--key", "a")["record"]
    assert (record["becomes"], record["outputs"]) == ("taken", [{"topic": "large", "unchanged": True}])
    assert answers(record) == {"where": True}
    assert judged("copies", "--value", "{", "--key", "b")["record"]["becomes"] == "left-out"


def test_a_clause_without_an_answer_says_why_and_names_the_clause_that_failed(judged: Eval) -> None:
    record = judged("sums", "--value", order(amount="6"))["record"]
    failed = ("expression-failed", "let.total", "* of text and integer")
    assert answers(record) | {"let.late": 0} == {
        "let.total": failed,
        "let.region": "DE/none",
        "let.late": 0,
        "where": True,
        "key": failed,
    }
    assert (record["becomes"], record["clause"], record["error"]) == ("dead-letter", *failed[1:])


@pytest.mark.parametrize(
    ("on_error", "value", "becomes", "clause"),
    [
        ("{}", order(country="US"), "left-out", "where"),
        ("{}", order(paid=1), "dead-letter", "where"),
        ("{expression: skip}", order(paid=1), "skipped", None),
        ("{expression: stop}", order(paid=1), "halted", None),
        ("{}", "{", "dead-letter", None),
        ("{decode: wait}", "{", "halted", None),
    ],
)
def test_what_becomes_of_a_record_is_what_the_file_says(
    judged: Eval, file: str, on_error: str, value: str, becomes: str, clause: str | None
) -> None:
    Path(file).write_text(FILE.replace("    key: region\n", f"    key: region\n    on_error: {on_error}\n"))
    record = judged("sums", "--value", value)["record"]
    assert (record["becomes"], record.get("clause")) == (becomes, clause)
    assert answers(record)["where"] is False or answers(record)["where"][0] in ("expression-failed", "undecodable")


@pytest.mark.parametrize(
    "value", [SMALL, order(amount=60, country="US"), order(amount=None), order(paid=None), "{", "3", '"x"']
)
@pytest.mark.parametrize("agent", ["sums", "calls", "payments", "copies"])
def test_the_verdict_is_what_the_engine_does(log: Log, file: str, judged: Eval, agent: str, value: str) -> None:
    """A record at its place, first judged and then given to an owner."""
    app = loaded(file)
    log.append("orders", 0, b"k", value.encode(), [("tier", b"gold")])
    record = judged(agent, "--at", "orders/0/0")["record"]
    [chosen] = (item for item in app.agents if item.name == agent)
    open_store(app.store, app.folder).migrate()
    driver = Driver(chosen, open_store(app.store, app.folder), log, ManualClock()).give(0)
    driver.turns(4)
    dead = [
        (header(letter, "sluicegate-dead-reason"), header(letter, "sluicegate-dead-clause"))
        for letter in log.topics["dead"][0]
    ]
    if record["becomes"] == "dead-letter":
        assert dead == [(record["reason"], record.get("clause"))]
        assert not log.topics["small"][0]
    elif agent == "calls":  # it judges no type of the handler
        assert {reason for reason, _ in dead} <= {"undecodable"}
    else:
        sent = (
            record.get("outputs", ()) if agent in ("payments", "copies") else [record] * (record["becomes"] == "taken")
        )
        assert (dead, len(log.topics["small"][0])) == ([], len(sent))


def test_a_result_is_answered_by_having_and_every_route(judged: Eval) -> None:
    result = judged("sums", "--result", '{"key": "DE", "spent": 1201, "reason": "count"}')["result"]
    assert answers(result) == {
        "having": True,
        "to.large": True,
        "select.spent": 1201,
        "select.half": 600,
        "select.late": False,
        "to.small": False,
    }
    assert result["outputs"] == [{"topic": "large", "value": {"spent": 1201, "half": 600, "late": False}}]


@pytest.mark.parametrize(
    ("result", "becomes", "reason", "clause"),
    [
        ({"spent": 1}, "left-out", None, "having"),
        ({"spent": 500}, "dead-letter", "unrouted", None),
        ({"spent": 5000}, "dead-letter", "expression-failed", "select.late"),
        ({}, "dead-letter", "expression-failed", "having"),
        ({"spent": 50}, "taken", None, None),
    ],
)
def test_what_becomes_of_a_result(
    judged: Eval, result: dict[str, Any], becomes: str, reason: str | None, clause: str | None
) -> None:
    judgement = judged("sums", "--result", json.dumps(result))["result"]
    assert (judgement["becomes"], judgement.get("reason"), judgement.get("clause")) == (becomes, reason, clause)


def test_a_record_is_read_at_its_place_in_the_format_of_the_agent(log: Log, file: str, judged: Eval) -> None:
    [avro] = (agent for agent in loaded(file).agents if agent.name == "avro")
    log.append("invoices", 0, b"k", record_value(avro, {"id": "i", "total": "99.50"}))
    log.append("invoices", 0, b"k", record_value(avro, {"id": "i", "total": "100.00"}))
    log.append("lines", 0, b"a", b"\xff")
    assert answers(judged("avro", "--at", "invoices/0/0")["record"])["where"] is False
    assert answers(judged("avro", "--at", "invoices/0/1")["record"]) == {"where": True, "key": "k"}
    assert answers(judged("avro", "--value", '{"id": "i", "total": "100.00"}')["record"])["where"] is True
    assert answers(judged("lines", "--at", "lines/0/0")["record"]) == {"where": True, "key": "a"}
    assert answers(judged("lines", "--value", "any text")["record"])["where"][0] == "expression-failed"


def test_with_repartition_each_half_reads_its_topic(log: Log, judged: Eval) -> None:
    value = b'{"op": "u", "after": {"sku": "s-1", "left": 4}}'
    log.append("levels", 0, b"k", value)
    log.append("by-sku", 0, b"s-1", value)
    first = judged("stock", "--at", "levels/0/0")
    assert answers(first["record"]) == {"let.sku": "s-1", "let.left": 4, "where": True, "key": "s-1"}
    assert answers(judged("stock", "--at", "by-sku/0/0")["record"]) == {"let.sku": "s-1", "let.left": 4, "key": "s-1"}
    assert answers(judged("stock", "--value", value.decode())["record"]) == answers(first["record"])


def test_a_record_that_was_retried_for_another_agent_is_passed_over(log: Log, file: str, judged: Eval) -> None:
    log.append("orders", 0, b"k", order().encode(), [("sluicegate-retried-for", b"shop/calls")])
    app = loaded(file)
    open_store(app.store, app.folder).migrate()
    assert judged("sums", "--at", "orders/0/0")["record"]["becomes"] == "passed-over"
    assert judged("calls", "--at", "orders/0/0")["record"]["becomes"] == "taken"


def test_in_words(plain: Callable[..., Result]) -> None:
    shown_lines = plain(
        "sums", "--value", order(amount="6"), "--result", '{"key": "DE", "spent": 50}'
    ).stdout.splitlines()
    assert shown_lines[:3] == [
        "the record: a dead letter, expression-failed (let.total: * of text and integer)",
        "  let.total: failed (expression-failed): * of text and integer",
        '  let.region: "DE/none"',
    ]
    assert shown_lines[5:7] == [
        "  key: failed (expression-failed): let.total: * of text and integer",
        "the result: taken",
    ]
    assert shown_lines[-1] == '  -> small: {"key": "DE", "spent": 50}'
    assert "having: not evaluated: it sees results; add --result" in plain("sums", "--value", "{}").stdout


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], "give the record with --at or with --value, or a result with --result"),
        (["--at", "orders/0/0", "--value", "{}"], "give the record with --at or with --value"),
        (["--result", "{}", "--key", "k"], "--key and --header belong to --value"),
        (["--value", "{}", "--header", "x"], "--header x: write NAME=VALUE"),
        (["--at", "orders/0"], "--at orders/0: write TOPIC/PARTITION/OFFSET"),
        (["--at", "orders/0/x"], "--at orders/0/x: write TOPIC/PARTITION/OFFSET"),
        (["--at", "lines/0/0"], "agent sums does not read lines; it reads orders"),
        (["--at", "orders/7/0"], "the brokers have no partition orders/7"),
        (["--at", "orders/0/1"], "--at orders/0/1: the partition holds offsets 0 to 0"),
        (["--result", "[]"], "--result is not a JSON object"),
        (["--result", "{"], "--result is not JSON: "),
        (["--result", "[" * 200_000], "--result is nested too deep to be decoded"),
    ],
)
def test_what_cannot_be_judged_is_usage(log: Log, plain: Callable[..., Result], args: list[str], text: str) -> None:
    log.append("orders", 0, b"k", order().encode())
    done = plain("sums", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr


def test_what_only_one_agent_lacks_is_usage(log: Log, plain: Callable[..., Result]) -> None:
    for args, text in (
        (("calls", "--result", "{}"), "agent calls has no results"),
        (("nobody", "--value", "{}"), "there is no agent 'nobody'"),
        (("avro", "--value", '{"id": 3}'), "--value cannot be written as avro"),
        (("avro", "--value", "{"), "--value is not JSON"),
    ):
        done = plain(*args)
        assert (done.exit_code, text in done.stderr) == (2, True), done.output


def test_brokers_that_do_not_answer_end_with_3(plain: Callable[..., Result]) -> None:
    done = plain("sums", "--at", "orders/0/0")
    assert (done.exit_code, "Kafka" in done.stderr) == (3, True), done.output


def test_a_time_that_is_years_away_is_doubted(tmp_path: Path) -> None:
    window = "aggregate: {window: {tumbling: 5m, time: {field: ts, unit: ms}}}"
    file = tmp_path / "times.yaml"
    file.write_text(f"{FILE.partition('agents:')[0]}agents:\n  sums: {{from: orders, {window}, to: out}}\n")
    shown = CliRunner().invoke(main, ["eval", str(file), "sums", "--key", "k", "--value", '{"ts": 1767225660}'])
    assert shown.exit_code == 0
    assert "before Kafka's timestamps: is its `unit` right?)" in shown.stdout


def test_a_forged_addressee_of_a_record_in_a_topic_is_not_believed(file: str, log: Log, judged: Eval) -> None:
    """As by the worker: only a record that a process of the app signed is for another agent."""
    app = loaded(file)
    with closing(open_store(app.store, app.folder)) as store:
        store.migrate()
        mac = mac_keys.read_or_make(store, "shop", lambda: "token")
    hidden = [("sluicegate-retried-for", b"shop/other")]
    [row] = mac.signed([OutboxRow(1, "t", "i", "orders", 0, b"k", SMALL.encode(), [*hidden])])
    for headers in (hidden, list(row.headers)):
        log.append("orders", 0, b"k", SMALL.encode(), headers)
    for offset, outcome in enumerate(["taken", "passed-over"]):
        assert judged("sums", "--at", f"orders/0/{offset}")["record"]["becomes"] == outcome


def test_a_store_in_memory_holds_no_keys_for_it(tmp_path: Path, file: str, log: Log, judged: Eval) -> None:
    (tmp_path / "shop.yaml").write_text(FILE.replace("sqlite:///state.db", "memory://"))
    log.append("orders", 0, b"k", SMALL.encode(), [("sluicegate-retried-for", b"shop/other")])
    assert judged("sums", "--at", "orders/0/0")["record"]["becomes"] == "passed-over"
