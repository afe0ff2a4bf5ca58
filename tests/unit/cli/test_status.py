"""What `status` reads: the state of each partition, without a claim."""

import json
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from sluicegate.connectors import open_store
from sluicegate.connectors.kafka.embedded import EmbeddedBroker
from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Http, Reducer, Window
from sluicegate.streams.cli import main
from sluicegate.streams.cli.letters import Counts
from sluicegate.streams.cli.watching.progress import Status
from sluicegate.streams.cli.watching.progress import status as read
from sluicegate.streams.cli.watching.running import member
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.http import document, serve
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.pages import pages
from sluicegate.streams.observe.report import PartitionReport, WorkerReport
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.versions import Deployed, RuleVersion
from sluicegate.streams.versions import catalogue
from tests.unit.cli.files import FILE, written
from tests.unit.engine.driver import Driver, Log, ManualClock, memory

AGENT = Agent(
    "sums",
    ("in",),
    Aggregation(count=3, since_first=30.0, compute=(Reducer("total", "sum", "amount"),)),
    Destination("out"),
    "dead",
)
APP = App("app", "redis://:secret@host/0", (AGENT,), {"bootstrap.servers": "embedded"}, http=None)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def log():
    log = Log()
    for topic in ("in", "out", "dead"):
        log.create(topic, 2)
    return log


def status(app, store, timeout) -> Status:
    return read(app, store, timeout, Counts(app, 10_000))


def version_of(agent) -> RuleVersion:
    return RuleVersion(1, rule_of(agent).digest, "convert", 0.0, "me", "", agent)


def feed(log, keys, number=0):
    for key in keys:
        log.append("in", number, key.encode(), b'{"amount": 1}')


def test_the_time_marks_of_a_re_keying_agent_are_no_deadline(log, clock):
    store = memory(clock)
    log.create("keyed", 1)
    re_keys = {"rekeys": "a", "times": Window(60.0)}
    agent = Agent("sums", ("in",), Aggregation(key="k"), Destination("keyed", "raw"), "dead", **re_keys)
    log.append("in", 0, b"a", b'{"k": "x"}')
    Driver(agent, store, log, clock).give(0, 1).turns()
    rows = status(replace(APP, agents=(agent,)), store, 0.1).partitions
    assert [(row.next_deadline, row.open_groups) for row in rows] == [(None, None)] * 2


def test_a_partition_shows_its_owner_offset_groups_deadline_and_outbox(log, clock):
    store = memory(clock)
    feed(log, "aabacd")
    driver = Driver(AGENT, store, log, clock).give(0)
    driver.producer.hold = True
    driver.turns()
    driver.later(12)
    outcome = status(APP, store, 1.0)
    [row] = outcome.partitions
    assert (row.agent, row.topic, row.partition, row.owner, row.offset) == ("sums", "in", 0, "member", 6)
    assert (row.open_groups, row.oldest, row.next_deadline) == (3, 12.0, 18.0)
    assert (row.unsent, row.dead, row.note) == (1, None, None)
    assert (row.high, row.lag) == (None, None)
    assert (outcome.store, outcome.level.name) == ("redis://***@host/0", "volatile")
    assert "embedded" in outcome.unreachable
    json.dumps(outcome.document())


def test_reading_the_status_fences_nobody(log, clock):
    store = memory(clock)
    feed(log, "ab")
    driver = Driver(AGENT, store, log, clock).give(0).turns()
    before = store.read(store.partitions("app")[0]).claim
    status(APP, store, 1.0)
    assert store.read(store.partitions("app")[0]).claim.token == before.token
    feed(log, "c")
    driver.turns()
    assert status(APP, store, 1.0).partitions[0].offset == 3


def test_groups_that_another_rule_wrote_are_read_by_that_rule(log, clock):
    store = memory(clock)
    feed(log, "ab")
    Driver(AGENT, store, log, clock).give(0).turns()
    changed = replace(AGENT, aggregation=replace(AGENT.aggregation, compute=()))
    [row] = status(replace(APP, agents=(changed,)), store, 1.0).partitions
    assert (row.offset, row.open_groups, row.note) == (2, 2, None)


def test_partitions_of_agents_that_left_the_file_are_left_out(log, clock):
    store = memory(clock)
    feed(log, "ab")
    Driver(AGENT, store, log, clock).give(0).turns()
    assert status(replace(APP, agents=(replace(AGENT, name="other"),)), store, 1.0).partitions == []


def test_what_the_store_holds_of_agents_and_topics_that_left_the_file_is_listed(log, clock):
    store = memory(clock)
    feed(log, "ab")
    feed(log, "aaab", 1)
    driver = Driver(AGENT, store, log, clock, deployed=Deployed((version_of(AGENT),))).give(0, 1)
    catalogue.deploy(store, "app", "token", "me", lambda before, at: {"sums": Deployed((version_of(AGENT),))})
    driver.producer.hold = True
    driver.turns()
    for other in (replace(AGENT, name="other"), replace(AGENT, topics=("out",))):
        rest = status(replace(APP, agents=(other,)), store, 1.0).left_behind
        assert [(row.agent, row.topic, row.partition, row.owner) for row in rest] == [
            ("sums", "in", 0, "member"),
            ("sums", "in", 1, "member"),
        ]
        assert [(row.open_groups, row.items, row.unsent) for row in rest] == [(2, 0, 0), (1, 0, 1)]
        assert rest[1].note.startswith("1 open group and 1 unsent row; agent sums ")
        assert rest[1].note.endswith(", owner member")
    assert status(APP, store, 1.0).left_behind == []
    alone = replace(APP, agents=(AGENT, replace(AGENT, name="other")))
    assert [row.agent for row in read(alone, store, 1.0, Counts(alone, 10), "other").agents] == ["other"]
    assert read(alone, store, 1.0, Counts(alone, 10), "other").left_behind == []


def test_groups_whose_rule_is_not_known_are_listed_all_the_same(log, clock):
    store = memory(clock)
    feed(log, "ab")
    Driver(AGENT, store, log, clock).give(0).turns()
    [rest] = status(replace(APP, agents=(replace(AGENT, name="other"),)), store, 1.0).left_behind
    assert (rest.open_groups, rest.note.partition(";")[0]) == (None, "groups that cannot be read")


def test_a_changelog_that_cannot_be_read_is_said(log, clock):
    store = memory(clock)
    feed(log, "ab")
    Driver(AGENT, store, log, clock).give(0).turns()

    class Torn:
        def __getattr__(self, name):
            return getattr(store, name)

        def read(self, partition):
            import msgspec

            view = store.read(partition)
            return None if view is None else msgspec.structs.replace(view, entries=[])

    [row] = status(APP, Torn(), 1.0).partitions
    assert row.open_groups is None
    assert "missing" in row.note


@pytest.fixture
def broker():
    broker = EmbeddedBroker({"orders": 2, "refunds": 1, "totals": 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for _ in range(5):
        producer.produce("orders", b"x", partition=1)
    assert producer.flush(10) == 0
    yield broker
    broker.close()


def test_the_command_shows_every_input_partition_with_its_lag(tmp_path, broker):
    file = written(tmp_path, broker.bootstrap)
    runner = CliRunner()
    assert runner.invoke(main, ["status", file]).exit_code == 3
    assert not (tmp_path / "state.db").exists()
    open_store("sqlite:///state.db", str(tmp_path)).migrate()
    result = runner.invoke(main, ["status", file, "--json"])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["level"]["name"] in ("durable", "lossy")
    rows = [(p["agent"], p["topic"], p["partition"], p["owner"], p["high"], p["lag"]) for p in document["partitions"]]
    assert rows == [
        ("alerts", "totals", 0, None, 0, 0),
        ("totals", "orders", 0, None, 0, 0),
        ("totals", "orders", 1, None, 5, 5),
        ("totals", "refunds", 0, None, 0, 0),
    ]
    table = runner.invoke(main, ["status", file])
    assert table.exit_code == 0
    assert any(line.split()[:4] == ["orders/1", "-", "-", "5"] for line in table.stdout.splitlines())


def test_without_kafka_the_stores_part_is_shown_and_the_end_is_3(tmp_path):
    file = written(tmp_path)
    open_store("sqlite:///state.db", str(tmp_path)).migrate()
    result = CliRunner().invoke(main, ["status", file, "--json"])
    assert result.exit_code == 3
    assert json.loads(result.stdout)["partitions"] == []
    assert "Kafka" in json.loads(result.stdout)["unreachable"]


def test_check_connect_says_what_is_there_and_the_level(tmp_path, broker):
    file = written(tmp_path, broker.bootstrap)
    result = CliRunner().invoke(main, ["check", file, "--connect", "--json"])
    document = json.loads(result.stdout)
    texts = {(s["system"], s["ok"], s["text"].partition(" ")[0]) for s in document["systems"]}
    assert {
        ("store", True, "sqlite:///state.db"),
        ("store", True, "level"),
        ("kafka", True, f"{broker.bootstrap}"),
    } <= texts


@pytest.fixture
def running():
    """`running(token, *partitions)`: the port of a run whose first worker of `sums` is process 7 and says this of its
    partitions."""
    opened = []

    def run(token, *partitions):
        board = Board(lambda: 0.0)
        board.expect(("sums", 0), 7)
        board.put(WorkerReport("sums", 0, 7, 0.0, True, partitions=partitions))
        opened.append(serve(Http(0, token=token), pages(board, Meter())))
        return replace(APP, http=Http(opened[-1].number, token=token))

    yield run
    for port in opened:
        port.shutdown()
        port.server_close()


@pytest.mark.parametrize("token", [None, "open sesame"])
def test_a_partition_that_has_halted_in_a_run_on_this_machine_says_so(log, clock, running, token):
    store = memory(clock)
    feed(log, "ab")
    driver = Driver(AGENT, store, log, clock).give(0).turns()
    app = running(token, PartitionReport("in", 0, "halted", error="topic-recreated", detail="its offsets begin anew"))
    assert status(app, store, 1.0).partitions[0].note is None, "another process halted"
    store.claim(driver.worker._owners["in", 0].partition, "token", member("sums", 0, 7))
    assert status(app, store, 1.0).partitions[0].note == "halted, topic-recreated: its offsets begin anew"
    assert status(replace(app, http=replace(app.http, token="wrong")), store, 1.0).partitions[0].note == (
        None if token else "halted, topic-recreated: its offsets begin anew"
    )


def test_a_partition_that_fails_again_and_again_in_a_run_on_this_machine_says_why(log, clock, running):
    store = memory(clock)
    feed(log, "ab")
    Driver(AGENT, store, log, clock).give(0).turns()
    missing = {"error": "failed", "detail": "no such table customers"}
    for state in ("claiming", "restoring", "running"):
        app = running(None, PartitionReport("in", 0, state, **missing))
        assert status(app, store, 1.0).partitions[0].note == "retrying: no such table customers"


def test_a_partition_that_is_read_to_its_last_record_has_no_lag(log, clock, monkeypatch):
    store = memory(clock)
    feed(log, "ab")
    Driver(AGENT, store, log, clock).give(0).turns()
    monkeypatch.setattr(
        "sluicegate.streams.cli.watching.progress._kafka", lambda *_: ({("in", 0): 6, ("in", 1): 3}, None, None)
    )
    asked = []
    for ended, lags in (({("in", 0)}, [0, 3]), ({("in", 1)}, [4, 0]), (set(), [4, 3])):
        monkeypatch.setattr(
            "sluicegate.streams.cli.watching.progress.read_to_the_end",
            lambda kafka, offsets, timeout, ended=ended: asked.append(offsets) or ended,
        )
        assert [row.lag for row in status(APP, store, 1.0).partitions] == lags
    assert asked == [{("in", 0): 2, ("in", 1): 0}] * 3


def test_a_partition_that_nobody_owns_while_workers_run_is_named(log, clock, monkeypatch):
    store = memory(clock)
    feed(log, "ab")
    monkeypatch.setattr(
        "sluicegate.streams.cli.watching.progress._kafka", lambda *_: ({("in", 0): 2, ("in", 1): 7}, None, None)
    )
    monkeypatch.setattr("sluicegate.streams.cli.watching.progress.read_to_the_end", lambda *_: set())
    assert [row.note for row in status(APP, store, 1.0).partitions] == [None, None]
    Driver(AGENT, store, log, clock).give(0).turns()
    [owned, unowned] = status(APP, store, 1.0).partitions
    assert (owned.note, unowned.owner, unowned.lag) == (None, None, 7)
    assert unowned.note.startswith("it has no owner: ")


def test_a_port_that_answers_something_else_says_nothing_of_partitions(log, clock):
    feed(log, "ab")
    store = memory(clock)
    Driver(AGENT, store, log, clock).give(0).turns()
    other = serve(Http(0), {"/status": lambda: document(["something", "else"])})
    try:
        assert status(replace(APP, http=Http(other.number)), store, 1.0).partitions[0].note is None
    finally:
        other.shutdown()
        other.server_close()


def test_of_a_store_in_the_memory_of_a_run_the_command_says_that_it_cannot_know(tmp_path, broker):
    file = written(tmp_path, broker.bootstrap, FILE.replace("sqlite:///state.db", "memory://"))
    result = CliRunner().invoke(main, ["status", file])
    assert result.exit_code == 0
    assert result.stderr == "sluicegate: the state is in the memory of `sluicegate run`: only its /status knows it\n"
