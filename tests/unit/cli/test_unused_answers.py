"""A handler whose work a call would not do, or whose answer goes nowhere: the command says so, with the cure."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.streams.cli import main

FILE = """\
app: m
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///m.db
dead_letters: m.dead
http: false
agents:
  a:
    from: m.in
    aggregate:
      count: 3
      timeout: {after: 10s, since: first}
      compute: {n: count, total: {sum: amount}}
    handler: answering:FUNCTION
    to: {topic: m.out}
tests:
  t:
    - send: {topic: m.in, key: k, value: {amount: 1}, times: 3}
    - expect: EXPECTED
"""
MODULE = """\
import asyncio
import functools
import threading


def gen(batch, send):
    yield send({"n": 1})


async def agen(batch, send):
    yield send({"n": 1})


def returns(batch, send):
    return {"n": 1}


async def returns_later(batch, send):
    return {"n": 1}


def wrapped(batch, send):
    return gen(batch, send)


class Made:
    def __init__(self, batch, send):
        send({"n": 1})


class Calls:
    async def __call__(self, batch, send):
        await asyncio.sleep(0)
        send({"n": batch.count})


calls = Calls()


def plain_of(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


@plain_of
async def decorated(batch, send):
    send({"n": batch.count})


def anything(*args):
    raise AssertionError("called without arguments")


def later(batch, limit=10, send=None, *, key=None):
    assert (limit, key) == (10, "k")
    send({"n": batch.count})


def _bound(batch, factor, send):
    assert factor == 2
    send({"n": batch.count}, headers={"id": "7"})


bound = functools.partial(_bound, factor=2)


def silent(batch):
    pass


def reduce_gen(total, message):
    yield total


async def reduce_async(total, message):
    return total
"""
Ran = Callable[..., Result]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ran]:
    """`ran(command, function)`: the command on the file with this handler."""
    (tmp_path / "answering.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("answering", None)
    sent = "{topic: m.out, key: k, value: {n: 3}}"

    def run(command: str, function: str, *, expected: str = sent, text: str = FILE) -> Result:
        (tmp_path / "app.yaml").write_text(text.replace("FUNCTION", function).replace("EXPECTED", expected))
        return CliRunner().invoke(main, [command, "app.yaml"])

    yield run
    sys.modules.pop("answering", None)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("gen", "is a generator: a call runs nothing of it; call send(VALUE) in place of yield"),
        ("agen", "is a generator: a call runs nothing of it; call send(VALUE) in place of yield"),
        ("Made", "is a class, so a call only makes an object; name a function, or an object that has __call__"),
        ("anything", "has only *args or **kwargs, so it gets no argument; name its parameters"),
    ],
)
@pytest.mark.parametrize("command", ["check", "test"])
def test_what_a_call_would_not_run_is_refused(command: str, function: str, text: str, ran: Ran) -> None:
    result = ran(command, function)
    assert result.exit_code == 2, result.output
    assert f"app.yaml:13:5: agents.a.handler: handler answering:{function}: {text}" in result.stderr


@pytest.mark.parametrize("function", ["returns", "returns_later", "wrapped"])
def test_an_answer_is_an_error_of_the_handler(function: str, ran: Ran) -> None:
    letter = "{topic: m.dead, key: k, reason: handler-failed}"
    result = ran("test", function, expected=letter)
    assert (result.exit_code, result.stdout) == (0, "ok      t\n1 of 1 tests passed\n"), result.output
    assert ran("test", function).exit_code == 1


@pytest.mark.parametrize("function", ["calls", "decorated", "later", "bound"])
def test_what_a_call_gives_to_wait_for_is_waited_for_and_arguments_come_by_name(function: str, ran: Ran) -> None:
    result = ran("test", function)
    assert (result.exit_code, result.stderr) == (0, ""), result.output


def test_a_topic_that_the_handler_cannot_write_to_is_warned_of(ran: Ran) -> None:
    result = ran("check", "silent")
    text = "agents.a.to: warning: gets nothing: the handler has neither the parameter `send` nor `context`; add `send`"
    assert (result.exit_code, text in result.stderr) == (0, True), result.output
    assert "gets nothing" not in ran("check", "calls").stderr


@pytest.mark.parametrize(("function", "kind"), [("reduce_gen", "a generator"), ("reduce_async", "async")])
def test_a_reducer_whose_call_gives_no_accumulator_is_refused(function: str, kind: str, ran: Ran) -> None:
    text = FILE.replace("n: count", "n: {reduce: answering:FUNCTION}").replace("    handler: answering:FUNCTION\n", "")
    result = ran("check", function, text=text)
    output = f"agents.a.aggregate.compute.n: answering:{function}: is {kind}, so a call gives no accumulator"
    assert (result.exit_code, output in result.stderr) == (2, True), result.output


def test_a_codec_that_waits_or_yields_is_refused(tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "coding.py").write_text(
        "class Codec:\n    async def decode(self, value):\n        return value\n\n"
        "    def encode(self, value):\n        yield b''\n\n\ncodec = Codec()\n"
    )
    monkeypatch.delitem(sys.modules, "coding", raising=False)
    text = FILE.replace("    from: m.in\n", "    from: m.in\n    format: coding:codec\n")
    result: Any = ran("check", "calls", text=text)
    assert result.exit_code == 2, result.output
    assert "agents.a.format: coding:codec: decode is async or a generator" in result.stderr
    assert "agents.a.format: coding:codec: encode is async or a generator" in result.stderr
