"""The port of `sluicegate demo --open`: it alone has the numbers of the demo and the button that kills."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluicegate.streams.agent import Http
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.workers import demo_run
from sluicegate.streams.cli.workers.demo import FlightPace
from sluicegate.streams.console import calls as console
from sluicegate.streams.demo.numbers import DemoNumbers
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.http import HttpPort, serve
from tests.unit.console.desk import ConsoleClient, LogSystems, a_console, a_driver

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    a_driver(tmp_path)
    return tmp_path


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    made = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield made
    made.kill()
    made.communicate()


@contextmanager
def a_demo(folder: Path, board: Board) -> Iterator[ConsoleClient]:
    app = loaded(str(folder / "app.yaml"))
    made, close = console.calls(app, board, LogSystems(str(folder / "app.yaml")))
    numbers = DemoNumbers(folder / "numbers.json")
    port: HttpPort = serve(Http(port=0), {}, demo_run.with_demo(numbers, made, board))
    try:
        yield ConsoleClient(port)
    finally:
        port.shutdown()
        port.server_close()
        close()


def test_a_press_kills_the_worker_of_its_agent(folder: Path, process: subprocess.Popen[bytes]) -> None:
    board = Board(lambda: 0.0)
    board.expect(("b", 0), os.getpid())
    board.expect(("a", 0), process.pid)
    with a_demo(folder, board) as client:
        assert client.change("kill", agent="a") == (200, {"killed": process.pid})
        assert process.wait(10) == -signal.SIGKILL
        board.expect(("a", 0), None)
        assert client.change("kill", agent="a") == (503, {"error": "no worker of a runs at this moment"})
        assert client.change("kill")[0] == 400


def test_a_press_without_the_secret_or_from_another_site_kills_nothing(
    folder: Path, process: subprocess.Popen[bytes]
) -> None:
    board = Board(lambda: 0.0)
    board.expect(("a", 0), process.pid)
    body = json.dumps({"agent": "a"}).encode()
    with a_demo(folder, board) as client:
        assert client.send("POST", "/console/kill", body, **JSON)[0] == 403
        secret = {"Sluicegate-Change": client.secret, "Origin": "http://elsewhere.example"}
        assert client.send("POST", "/console/kill", body, **JSON, **secret)[0] == 403
        assert process.poll() is None


def test_no_other_run_has_the_button(folder: Path) -> None:
    with a_console(folder) as client:
        assert client.change("kill", agent="a")[0] == 405
        assert [client.send("GET", path)[0] for path in ("/console/demo", "/demo/numbers.js", "/demo.html")] == [
            404
        ] * 3
        assert "demo" not in client.send("GET", "/")[1]


def test_the_page_of_the_demo_is_that_of_each_run_with_another_script(folder: Path) -> None:
    with a_console(folder) as client:
        page = client.send("GET", "/")[1]
    with a_demo(folder, Board(lambda: 0.0)) as client:
        assert client.send("GET", "/")[1] == page.replace("/console.js", "/demo/console.js")
        assert client.send("GET", "/demo/numbers.js")[0] == 200


def test_the_numbers_are_those_of_the_last_writing_and_a_reading_is_noticed(folder: Path) -> None:
    numbers = DemoNumbers(folder / "numbers.json")
    with a_demo(folder, Board(lambda: 0.0)) as client:
        assert numbers.unread() == float("inf")
        assert client.send("GET", "/console/demo")[:2] == (503, {"error": "the demo begins"})
        numbers.write({"total": 1})
        numbers.write({"total": 2})
        assert client.ask("demo") == {"total": 2}
    assert 0 <= numbers.unread() < 60


def test_flights_are_spread_over_the_time() -> None:
    now = [100.0]
    pace, at_once = FlightPace(100, 50.0, lambda: now[0]), FlightPace(100, 0, lambda: now[0])
    assert [pace.due(number) for number in (0, 1)] == [True, False]
    now[0] += 10
    assert [pace.due(number) for number in (20, 21)] == [True, False]
    assert at_once.due(99)
