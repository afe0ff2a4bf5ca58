"""Dead letters of legs and of repartitioned records: of the record itself, and a retry sends that record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.letters import Counts
from sluicegate.streams.cli.opening.files import loaded
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, ManualClock, distinct, header
from tests.unit.engine.scene import a_log

HEAD = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
agents:
"""
CORRELATED = """\
  settle:
    correlate:
      legs:
        order: {from: orders, key: id}
        payment: {from: payments, key: id, format: avro, schema: payment.avsc}
      timeout: {after: 15m, clock: wall}
      remember: 1h
    to: {topic: settled}
"""
REPARTITIONED = """\
  sums:
    from: orders
    key: id
    repartition: by-id
    let: {each: total / parts}
    aggregate: {count: 2, compute: {sum: {sum: each}}}
    on_error: {expression: dead-letter}
    to: {topic: settled}
"""
SCHEMA = {
    "type": "record",
    "name": "P",
    "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "long"}],
}
ORDER = b'{ "id": "o1",  "total": 1.50 }'
PAYMENT = b"\x04o1\x0a"


class Scene:
    def __init__(self, folder: Path, agents: str) -> None:
        (folder / "app.yaml").write_text(HEAD + agents)
        (folder / "payment.avsc").write_text(json.dumps(SCHEMA))
        self.file, self.log, self.clock = str(folder / "app.yaml"), LogTopics.log, ManualClock()
        self.app = loaded(self.file)
        self.store = open_store(self.app.store, self.app.folder)
        self.store.migrate()
        for topic in {
            topic for agent in self.app.agents for topic in (*agent.topics, *(to.topic for to in agent.outputs))
        }:
            if topic not in self.log.topics:
                self.log.create(topic, 2)
        self.drivers = [
            driver.give(*range(2), topic=topic)
            for agent in self.app.agents
            for driver in [Driver(agent, self.store, self.log, self.clock)]
            for topic in agent.topics
        ]

    def go(self) -> None:
        for _ in range(6):
            for driver in self.drivers:
                driver.turns(4)
            self.clock.now += 1

    def dead(self, *words: str) -> Result:
        what, *more = words
        return CliRunner().invoke(main, ["dead", what, self.file, *more])

    def listed(self) -> list[dict[str, Any]]:
        return list(json.loads(self.dead("ls", "--all", "--json").stdout)["dead"])


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Scene]:
    monkeypatch.setattr(LogTopics, "log", a_log("app.dead"))
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    return lambda agents: Scene(tmp_path, agents)


def test_a_late_leg_is_a_letter_of_the_record_and_is_sent_again(scene: Callable[[str], Scene]) -> None:
    made = scene(CORRELATED)
    made.log.append("orders", 1, b"other", b'{"id": "o0", "total": 1}')
    made.log.append("orders", 1, b"key", ORDER, [("h", b"x")])
    made.log.append("payments", 0, None, PAYMENT)
    made.go()
    assert len(distinct(made.log, "settled")) == 1
    made.log.append("orders", 1, b"key", ORDER, [("h", b"x")])
    made.log.append("payments", 0, None, PAYMENT)
    made.go()
    dead_letters = {letter["id"]: (letter["agent"], letter["reason"]) for letter in made.listed()}
    assert dead_letters == {"orders/1/2": ("settle", "late"), "payments/0/1": ("settle", "late")}
    by_topic = {header(m, "sluicegate-dead-topic"): m for m in distinct(made.log, "app.dead")}
    order, payment = by_topic["orders"], by_topic["payments"]
    assert (order.k, order.v, header(order, "h")) == (b"key", ORDER, "x")
    assert (payment.k, payment.v) == (None, PAYMENT)
    assert header(order, "sluicegate-dead-rekeyed-by") == "settle.order"
    through, _, _ = (header(order, "sluicegate-dead-read") or "").rsplit("/", 2)
    assert through == made.app.agents[-1].topics[0]
    assert not [name for name, _ in order.h or () if "origin" in name]
    assert Counts(made.app, 100).read().keys() <= {("settle", through, number) for number in range(2)}
    done = made.dead("retry", "settle", "orders/1/2", "payments/0/1", "--json")
    assert (done.exit_code, json.loads(done.stdout)["sent"]) == (0, 2), done.output
    again, paid = made.log.topics["orders"][1][-1], made.log.topics["payments"][0][-1]
    assert (again.k, again.v, header(again, "h")) == (b"key", ORDER, "x")
    assert header(again, "sluicegate-retried-for") == "app/settle.order"
    assert (paid.k, paid.v, header(paid, "sluicegate-retried-for")) == (None, PAYMENT, "app/settle.payment")
    made.clock.now += 2 * 3600  # the key is forgotten, so the records make a group again
    made.go()
    assert [m.k for m in distinct(made.log, "settled")].count(b"o1") == 2


def test_a_repartitioned_record_is_a_letter_of_the_record(scene: Callable[[str], Scene]) -> None:
    made = scene(REPARTITIONED)
    bad = b'{"id": "o1", "total": 4, "parts": 0 }'
    made.log.append("orders", 0, b"k0", b'{"id": "o1", "total": 4, "parts": 2}')
    made.log.append("orders", 1, b"k1", bad)
    made.go()
    [dead_letter] = made.listed()
    assert (dead_letter["id"], dead_letter["agent"], dead_letter["reason"]) == (
        "orders/1/0",
        "sums",
        "expression-failed",
    )
    [letter] = distinct(made.log, "app.dead")
    assert (letter.k, letter.v, header(letter, "sluicegate-dead-offset")) == (b"k1", bad, "0")
    assert (header(letter, "sluicegate-dead-read") or "").startswith("by-id/")
    assert made.dead("retry", "sums", "orders/1/0").exit_code == 0
    assert (made.log.topics["orders"][1][-1].k, made.log.topics["orders"][1][-1].v) == (b"k1", bad)
    made.go()
    assert [(letter["id"], letter["retried"]) for letter in made.listed()] == [
        ("orders/1/0", True),
        ("orders/1/1", False),
    ]
