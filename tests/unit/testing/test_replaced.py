"""Handlers that a test replaces, so that it calls no network."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluicegate.streams.agent import Agent, App, Destination, Handler
from sluicegate.streams.cli import main
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.testing.driver import TestDriver

HEAD = """\
app: shop
kafka: {bootstrap.servers: "localhost:1"}
store: memory://
agents:
  enter:
    from: orders
    handler: tests.unit.testing.test_replaced:network
    retry: {attempts: 2, backoff: 5s..5s}
    to: {topic: entered}
  big:
    from: entered
    where: amount > 10
    to: {topic: big}
tests:
  it:
"""
STUBS = "tests.unit.testing.test_replaced"
ACCEPTED = f"    - handlers: {{enter: {STUBS}:accepted}}\n"
SEND = "    - send: {topic: orders, key: k, value: {amount: 20}}\n"
EXPECT = "    - expect: {topic: entered, key: k, value: {order: {amount: 20}, ok: true}}\n"


def network(message: Any) -> None:
    raise OSError("a test calls the network")


def accepted(value: Any, send: Any) -> None:
    send({"order": value, "amount": value["amount"], "ok": True})


def down(value: Any) -> None:
    raise ConnectionError("the stub is down")


def invoke(folder: Path, text: str, *options: str) -> Any:
    (folder / "f.yaml").write_text(text)
    return CliRunner().invoke(main, ["test", str(folder / "f.yaml"), *options])


@pytest.mark.parametrize("options", [(), ("--crash",)])
def test_the_replacement_is_called_and_the_handler_is_not(tmp_path: Path, options: tuple[str, ...]) -> None:
    big = "    - expect: {topic: big, key: k}\n"
    result = invoke(tmp_path, HEAD + ACCEPTED + SEND + EXPECT + big, *options)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "1 of 1 tests passed")
    result = invoke(tmp_path, HEAD + SEND + EXPECT, *options)
    assert (result.exit_code, "OSError" in result.stdout) == (1, True)


def test_it_may_change_while_records_wait_for_another_attempt(tmp_path: Path) -> None:
    steps = ACCEPTED.replace("accepted", "down") + SEND + ACCEPTED + "    - advance: 5s\n" + EXPECT
    assert invoke(tmp_path, HEAD + steps).stdout.splitlines()[-1] == "1 of 1 tests passed"


def test_it_lasts_until_the_end_of_its_test_and_under_a_deployed_rule(tmp_path: Path) -> None:
    (tmp_path / "next.yaml").write_text(HEAD.replace("amount > 10", "amount > 30").partition("tests:")[0])
    deploy = "    - deploy: {file: next.yaml}\n"
    more = SEND + EXPECT + "    - expect_nothing: big\n"
    once = "  again:\n" + SEND + "    - advance: 1m\n    - expect: {topic: shop.dead, reason: handler-failed}\n"
    result = invoke(tmp_path, HEAD + ACCEPTED + deploy + more + once)
    assert result.stdout.splitlines() == ["ok      it", "ok      again", "2 of 2 tests passed"]


@pytest.mark.parametrize(
    ("step", "place", "problem"),
    [
        ("{entre: x:y}", ":18", "tests.it[0].handlers.entre: is not an agent with a handler; did you mean enter?"),
        ("{big: x:y}", ":18", "tests.it[0].handlers.big: is an agent without a handler; leave it out"),
        ("{enter: stub}", ":18", "tests.it[0].handlers.enter: is not an import path; write module:function"),
        ("{enter: []}", ":18", "tests.it[0].handlers.enter: names no function; "),
        (f"{{enter: {STUBS}:acepted}}", ":18", f"tests.it[0].handlers.enter: {STUBS}:acepted: "),
        (f"{{enter: {STUBS}:invoke}}", ":18", f"tests.it[0].handlers.enter: handler {STUBS}:invoke: `text` "),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, step: str, place: str, problem: str) -> None:
    result = invoke(tmp_path, HEAD + f"    - handlers: {step}\n" + SEND)
    assert (result.exit_code, result.stdout) == (2, "")
    line = HEAD.count("\n") + 1
    assert result.stderr.startswith(f"{tmp_path / 'f.yaml'}:{line}{place}: {problem}"), result.stderr


def test_check_names_the_same_mistake(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(HEAD + ACCEPTED.replace("accepted", "acepted"))
    result = CliRunner().invoke(main, ["check", str(tmp_path / "f.yaml")])
    assert (result.exit_code, "has no acepted" in result.stderr) == (2, True)


def test_the_driver_takes_a_function_or_its_name() -> None:
    handler = Handler((f"{STUBS}:network",), attempts=1)
    app = App("app", "memory://", (Agent("a", ("in",), None, Destination("out"), "dead", handler=handler),))
    calls = []

    def local(value: Any) -> None:
        calls.append(value)

    with TestDriver(app) as driver:
        driver.replace_handler("a", local)
        driver.send("in", {"amount": 1})
        driver.replace_handler("a", f"{STUBS}:accepted")
        driver.send("in", {"amount": 2})
        assert (calls, [output.value["amount"] for output in driver.read("out")]) == ([{"amount": 1}], [2])
        assert driver.counts("a")["records_consumed", ()] == 2
        with pytest.raises(ConfigurationError, match="there is no agent 'b'"):
            driver.replace_handler("b", local)
        assert driver.dead_letters() == []
