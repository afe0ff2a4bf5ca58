"""An error of the user's code, whatever runs it: its message and its place, in the log and in the dead letter."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from sluicegate.streams import causes
from sluicegate.streams.testing.driver import TestDriver

CODE = """\
import json

import msgspec


class Order(msgspec.Struct):
    name: str

    def __post_init__(self):
        if self.name == "Bob":
            raise ValueError(f"no customer {self.name}")


def enter(value):
    check(value)


def check(value):
    raise ValueError(f"no customer {value['name']}")


def group(batch):
    check({"name": batch.key})


def rows(batch):
    for row in batch.value["rows"]:
        if row["name"] == "Bob":
            check(row)


def typed(value: Order):
    raise AssertionError


def reduce(total, value):
    check(value)


class codec:
    decode = staticmethod(lambda data: check(json.loads(data)))
    encode = staticmethod(json.dumps)


class writer:
    decode = staticmethod(json.loads)

    @staticmethod
    def encode(value):
        check({"name": value["key"]})
"""
HEAD = """\
app: shop
kafka: {bootstrap.servers: localhost:9}
store: memory://
dead_letters: dead
agents:
  a:
    from: in
"""
RETRY = "retry: {attempts: 2, backoff: 1s..1s}\n"
AGENTS = {
    "handler": "handler: shop:enter\n" + RETRY,
    "session": "handler: shop:enter\nsession: true\n" + RETRY,
    "slow": "handler: shop:enter\nconcurrency: 2\n" + RETRY,
    "group": "handler: shop:group\naggregate: {count: 1}\n" + RETRY,
    "slow group": "handler: shop:group\nconcurrency: 2\naggregate: {count: 1}\n" + RETRY,
    "shared group": "handler: shop:group\nscope: shared\naggregate: {count: 1}\n" + RETRY,
}
OTHERS = {
    "typed": ("handler: shop:typed\n", "undecodable", "Order.__post_init__", 11),
    "reducer": (
        "aggregate: {count: 2, compute: {x: {reduce: shop:reduce}}}\nto: {topic: out}\n",
        "reducer",
        "check",
        19,
    ),
    "codec": ("handler: shop:enter\nformat: shop:codec\n", "undecodable", "check", 19),
    "written": ("aggregate: {count: 1}\nto: {topic: out, format: shop:writer}\n", "unencodable", "check", 19),
}


class Shop:
    """The file, its module, and what was logged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[Any] = []

    def driver(self, agent: str) -> TestDriver:
        (self.folder / "shop.yaml").write_text(HEAD + textwrap.indent(agent, "    "))
        return TestDriver(self.folder / "shop.yaml")

    def logged(self) -> str:
        """All but debug."""
        return "\n".join(str(event) for event in self.said if event["log_level"] != "debug")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "shop.py").write_text(CODE)
    made = Shop(tmp_path)
    with structlog.testing.capture_logs() as made.said:
        yield made
    sys.modules.pop("shop", None)


@pytest.mark.parametrize("name", AGENTS)
def test_a_handler(name: str, shop: Shop) -> None:
    with shop.driver(AGENTS[name]) as driver:
        driver.send("in", {"name": "Bob"}, key="Bob")
        driver.advance(5)
        [letter] = driver.dead_letters()
    assert letter.headers["sluicegate-dead-error"] == "the handler raised ValueError: no customer Bob"
    assert letter.headers["sluicegate-dead-where"] == "shop.py:19 in check"
    failed = [event for event in shop.said if event["event"] == "handler.failed"]
    assert [(failure["error"], failure["raised_at"]) for failure in failed] == [
        ("ValueError: no customer <value>", "shop.py:19 in check")
    ] * 2
    assert "Bob" not in shop.logged()


@pytest.mark.parametrize("name", OTHERS)
def test_a_reducer_a_codec_and_a_type(name: str, shop: Shop) -> None:
    agent, reason, function, line = OTHERS[name]
    with shop.driver(agent) as driver:
        driver.send("in", b'{"name": "Bob"}', key="Bob")
        [letter] = driver.dead_letters()
    assert letter.reason == reason
    assert "no customer Bob" in str(letter.headers["sluicegate-dead-error"])
    assert letter.headers["sluicegate-dead-where"] == f"shop.py:{line} in {function}"
    assert "Bob" not in shop.logged()


@pytest.mark.parametrize(("policy", "agent"), [("decode", "codec"), ("decode", "typed"), ("produce", "written")])
def test_a_partition_that_stops_says_where_and_no_value(policy: str, agent: str, shop: Shop) -> None:
    with shop.driver(f"{OTHERS[agent][0]}on_error: {{{policy}: stop}}\n") as driver:
        driver.send("in", b'{"name": "Bob"}', key="Bob")
        [trouble] = driver.troubles()
    assert f"shop.py:{OTHERS[agent][3]} in {OTHERS[agent][2]}" in trouble
    assert "no customer <value>" in trouble
    assert "Bob" not in shop.logged() + trouble


@pytest.mark.parametrize("then", ["stop", "park"])
def test_what_waits_for_a_person_says_where(then: str, shop: Shop) -> None:
    with shop.driver(f"handler: shop:enter\nconcurrency: 2\nthen: {then}\n{RETRY}") as driver:
        driver.send("in", {"name": "Bob"}, key="k")
        driver.advance(5)
        if then == "stop":
            [trouble] = driver.troubles()
            assert "the handler raised ValueError: no customer <value> 2 times (shop.py:19 in check)" in trouble
    assert "Bob" not in shop.logged()
    assert "shop.py:19 in check" in shop.logged()


def test_an_isolated_message_says_where(shop: Shop) -> None:
    rule = (
        "handler: shop:rows\naggregate: {count: 2, compute: {rows: collect}}\nretry: {attempts: 3, isolate_after: 1}\n"
    )
    with shop.driver(rule) as driver:
        for name in ("Ann", "Bob"):
            driver.send("in", {"name": name}, key="k")
        driver.advance(5)
        [letter] = driver.dead_letters()
    assert letter.reason == "bad-item"
    text = "the handler raised ValueError: no customer Bob (shop.py:19 in check)"
    assert letter.headers["sluicegate-dead-error"] == text
    assert "Bob" not in shop.logged()


def test_the_twin_that_logs_the_message_as_it_is_shows_the_value(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "masked", lambda text, payload: text)
    with shop.driver(AGENTS["handler"]) as driver:
        driver.send("in", {"name": "Bob"}, key="k")
    assert "Bob" in shop.logged()
