"""`sluicegate dead retry` of completed groups that failed elsewhere than in a handler: what becomes of them is decided
again, by the clauses of the file as it is now, once."""

import json
import sqlite3
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.cli import letters
from sluicegate.streams.cli.watching import progress
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.reducers import BEYOND
from tests.unit.cli.dead_scene import Scene, without_tracebacks
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import distinct, header
from tests.unit.engine.scene import a_log

HEAD = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
agents:
  sums:
    from: in
"""
COUNT = "    aggregate: {count: 3, compute: {n: count, total: {sum: amount}}}\n"
TO = "    to: {topic: out}\n"
ROUTES = "    to:\n      - {topic: out, where: total > 100}\n"
TWO = """\
    to:
      - {topic: first, continue: true, select: [n]}
      - {topic: out, select: {n: n, rows: rows}}
"""
LOOKED_UP = """\
    lookup:
      site: {table: sites, column: id, key: key, fields: [town], missing: dead-letter}
"""
AVRO = "    to: {topic: out, format: avro, schema: total.avsc}\n"
FIELDS = "key count reason opened_at closed_at n total"
TYPES = {"count": "long", "n": "long"}


def schema(total: str) -> str:
    fields = [{"name": word, "type": TYPES.get(word, "string")} for word in FIELDS.split()[:-1]]
    return json.dumps({"type": "record", "name": "r", "fields": [*fields, {"name": "total", "type": total}]})


class Broken(NamedTuple):
    """A file that makes a dead letter of three records, its mended form, what the letter says, and the results."""

    name: str
    broken: str
    mended: str
    says: tuple[str, str]
    results: list[dict[str, Any]]
    amount: Any = 7


ROWS = COUNT.replace("count: 3", "count: 3, max_bytes: 4MB").replace("n: count", "n: count, rows: collect")
BROKEN = [
    Broken(
        "timeout",
        (late := COUNT.replace("count: 3", "count: 9, timeout: {after: 10s}, on_timeout: dead-letter") + TO),
        late,
        ("aggregate", "timeout"),
        [{"n": 3, "total": 21, "reason": "timeout"}],
    ),
    Broken(
        "having",
        f"{COUNT}    having: total / (n - 3) > 1\n{TO}",
        f"{COUNT}    having: total / n > 1\n{TO}",
        ("expression", "expression-failed"),
        [{"n": 3, "total": 21, "reason": "count"}],
    ),
    Broken(
        "having that lets nothing pass",
        f"{COUNT}    having: total / (n - 3) > 1\n{TO}",
        f"{COUNT}    having: total < 1\n{TO}",
        ("expression", "expression-failed"),
        [],
    ),
    Broken(
        "select",
        COUNT + "    to: {topic: out, select: {mean: total / (n - 3)}}\n",
        COUNT + "    to: {topic: out, select: {mean: total / n}}\n",
        ("expression", "expression-failed"),
        [{"mean": 7}],
    ),
    Broken(
        "routes",
        COUNT + ROUTES,
        COUNT + ROUTES.replace("100", "10"),
        ("expression", "unrouted"),
        [{"n": 3, "total": 21}],
    ),
    Broken(
        "sum",
        COUNT + TO,
        COUNT.replace("sum: amount", "max: amount") + TO,
        ("aggregate", "overflow"),
        [{"n": 3, "total": 1.5e308}],
        1.5e308,
    ),
    Broken(
        "size", ROWS.replace("rows", "many") + TO, COUNT + TO, ("produce", "too-large"), [{"n": 3, "total": 21}], 7.0
    ),
    Broken("format", COUNT + AVRO, COUNT + AVRO, ("produce", "unencodable"), [], 5 * 10**18),
    Broken(
        "having, and Avro",
        f"{COUNT}    having: total / (n - 3) > 1\n" + AVRO,
        f"{COUNT}    having: total / n > 1\n" + AVRO,
        ("expression", "expression-failed"),
        [],
    ),
]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Scene]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(LogTopics, "log", a_log("in", "out", "first", "app.dead"))
    for module in (letters, progress):
        monkeypatch.setattr(module, "BrokerTopics", LogTopics, raising=False)
    with without_tracebacks():
        yield lambda text: Scene(tmp_path, HEAD + text)
    sys.modules.pop("totals", None)


def feed(made: Scene, amount: Any, text: str = "", key: bytes = b"k", count: int = 3) -> None:
    for number in range(count):
        value = {"amount": amount, "id": number, "text": text}
        made.log.append("in", 0, key, json.dumps(value).encode())


def mend(made: Scene, text: str) -> None:
    made.write(HEAD + text)
    made.restart()
    made.later(3)


@pytest.mark.parametrize("case", BROKEN, ids=[case.name for case in BROKEN])
def test_what_becomes_of_the_group_is_decided_again_once(case: Broken, scene: Callable[[str], Scene]) -> None:
    Path("total.avsc").write_text(schema("long" if case.name == "format" else "double"))
    made = scene(case.broken)
    feed(made, case.amount, "x" * 400_000 if case.says[1] == "too-large" else "")
    made.later()
    [letter] = made.listed()
    assert (letter["kind"], letter["stage"], letter["reason"]) == ("group", *case.says)
    Path("total.avsc").write_text(schema("double"))
    mend(made, case.mended)
    done = made.dead("retry", "sums", "--all")
    assert (done.exit_code, "1 group to be " in done.stdout) == (0, True), done.output
    made.later()
    again = made.dead("retry", "sums", letter["id"])
    assert (again.exit_code, "was retried before" in again.stderr) == (5, True), again.output
    again = made.dead("retry", "sums", "--all")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "nothing was sent\n", ""), again.output
    made.restart()
    made.later()
    sent = made.log.topics["out"][0]
    if "avro" in case.mended:
        assert [struct.unpack("<d", (message.v or b"")[-8:]) for message in sent] == [(3 * case.amount,)]
    else:
        assert [{name: output[name] for name in case.results[0]} for output in made.outputs()] == case.results
    [first] = distinct(made.log, "app.dead")
    assert [header(message, "sluicegate-fire") for message in sent] == [header(first, "sluicegate-fire")] * len(sent)
    assert [letter["retried"] for letter in made.listed()] == [True]


def test_one_that_fails_again_is_another_dead_letter(scene: Callable[[str], Scene]) -> None:
    made = scene(COUNT + ROUTES)
    feed(made, 7)
    made.later()
    assert made.dead("retry", "sums", "--all").exit_code == 0
    made.later()
    first, second = made.listed()
    assert (first["id"], first["retried"], second["retried"]) == (second["id"], True, False)
    mend(made, COUNT + ROUTES.replace("100", "10"))
    assert made.dead("retry", "sums", second["letter"]).exit_code == 0
    made.later()
    assert [output["total"] for output in made.outputs()] == [21]


def test_a_result_that_is_too_large_again_is_another_dead_letter(scene: Callable[[str], Scene]) -> None:
    made = scene(ROWS + TO)
    feed(made, 7, "x" * 400_000)
    made.later()
    assert made.dead("retry", "sums", "--all").exit_code == 0
    made.later()
    assert [(letter["reason"], letter["retried"]) for letter in made.listed()] == [
        ("too-large", True),
        ("too-large", False),
    ]


def test_only_the_output_that_failed_is_sent_again(scene: Callable[[str], Scene]) -> None:
    made = scene(ROWS + TWO)
    feed(made, 7, "x" * 400_000)
    made.later()
    assert [letter["reason"] for letter in made.listed()] == ["too-large"]
    assert made.outputs("first") == [{"n": 3}]
    mend(made, ROWS + TWO.replace("rows: rows", "total: total"))
    assert made.dead("retry", "sums", "--all").exit_code == 0
    made.later()
    assert (made.outputs("out"), len(made.log.topics["first"][0])) == ([{"n": 3, "total": 21}], 1)


def test_fields_that_another_rule_did_not_compute_are_read_from_the_topic(scene: Callable[[str], Scene]) -> None:
    """The result names the rule of the file, so it has its fields."""
    made = scene(COUNT + ROUTES)
    feed(made, 7)
    made.later()
    assert [letter["reason"] for letter in made.listed()] == ["unrouted"]
    renamed = COUNT.replace("total: {sum: amount}", "most: {max: amount}") + "    having: most > 1\n" + TO
    made.log.low["in", 0] = 1
    mend(made, renamed)
    refused = made.dead("retry", "sums", "--all", "--json")
    assert refused.exit_code == 4
    assert "in/0 from 0 to 2 has 2 of its 3 messages" in json.loads(refused.stdout)["left_out"][0]["why"]
    made.log.low["in", 0] = 0
    assert made.dead("retry", "sums", "--all").exit_code == 0
    made.later()
    assert [(output["n"], output["most"], "total" in output) for output in made.outputs()] == [(3, 7, False)]


def test_what_cannot_be_repaired_is_named_with_its_reason(scene: Callable[[str], Scene]) -> None:
    made = scene(ROWS + TO)
    feed(made, 1.5e308)
    feed(made, 7, "x" * 400_000)
    feed(made, 7)
    made.later()
    assert [letter["reason"] for letter in made.listed()] == ["overflow", "too-large"]
    made.log.low["in", 0] = 4
    feed(made, 1.5e308)
    made.later()
    overflow, large, another = [letter["id"] for letter in made.listed()]
    done = made.dead("retry", "sums", "--all", "--json")
    assert done.exit_code == 4
    reasons = {letter["id"]: letter["why"] for letter in json.loads(done.stdout)["left_out"]}
    lacks = "it is a completed group: its letter lacks computed fields, and in/0 from 3 to 5 has 2 of its 3 messages"
    assert reasons[large].startswith(lacks)
    assert "in/0 from 0 to 2 has 0 of its 3 messages" in reasons[overflow]
    assert reasons[another] == f"it is a completed group: its messages still give total {BEYOND}"
    made.later()
    assert len(made.listed()) == 3


def test_the_row_of_a_lookup_is_read_again(tmp_path: Path, scene: Callable[[str], Scene]) -> None:
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("create table sites (id text primary key, town text)")
    made = scene(COUNT + LOOKED_UP + TO)
    feed(made, 7)
    made.later()
    assert [letter["reason"] for letter in made.listed()] == ["lookup-missing"]
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("insert into sites values ('k', 'Ulm')")
    assert made.dead("retry", "sums", "--all").exit_code == 0
    made.later()
    assert [(output["total"], output["site"]) for output in made.outputs()] == [(21, {"town": "Ulm"})]


HANDLER = "    handler: totals:HANDLER\n    session: SESSION\n    concurrency: CONCURRENCY\n"
MODULE = """\
def store(batch, session, send):
    session.connection.exec_driver_sql("insert into totals values (?)", (batch.value["total"],))
    send({"total": batch.value["total"]})


def remote(batch, send):
    send({"total": batch.value["total"]})
"""


@pytest.mark.parametrize("how", [("store", "true", "0"), ("remote", "false", "0"), ("remote", "false", "2")])
def test_a_handler_gets_the_group_once_having_has_an_answer(
    how: tuple[str, str, str], tmp_path: Path, scene: Callable[[str], Scene]
) -> None:
    (tmp_path / "totals.py").write_text(MODULE)
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("create table totals (total integer)")
    text = HANDLER.replace("HANDLER", how[0]).replace("SESSION", how[1]).replace("CONCURRENCY", how[2])
    made = scene(f"{COUNT}    having: total / (n - 3) > 10\n{text}{TO}")
    feed(made, 7)
    feed(made, 70, key=b"j")
    made.later()
    assert [letter["reason"] for letter in made.listed()] == ["expression-failed"] * 2
    mend(made, f"{COUNT}    having: total / n > 10\n{text}{TO}")
    assert made.dead("retry", "sums", "--all").exit_code == 0
    made.later()
    made.restart()
    made.later()
    assert made.outputs() == [{"total": 210}]
    with sqlite3.connect(tmp_path / "state.db") as connection:
        assert connection.execute("select total from totals").fetchall() == [(210,)] * (how[0] == "store")


def test_an_owner_that_dies_while_it_decides_leaves_one_result(
    scene: Callable[[str], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene(COUNT + ROUTES)
    feed(made, 7)
    made.later()
    mend(made, COUNT + ROUTES.replace("100", "10"))
    assert made.dead("retry", "sums", "--all").exit_code == 0
    commit, fails = SqlStore.commit, ["after", "before"]

    def unanswered(store: Any, claim: Any, changes: Any) -> Any:
        when = fails.pop() if changes.outbox and fails else ""
        if when == "before":
            raise PersistenceError("no answer")
        result = commit(store, claim, changes)
        if when:
            raise PersistenceError("no answer")
        return result

    monkeypatch.setattr(SqlStore, "commit", unanswered)
    made.later(40)
    assert fails == []
    assert [output["total"] for output in made.outputs()] == [21]
