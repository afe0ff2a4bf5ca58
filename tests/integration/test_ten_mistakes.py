"""Ten mistakes that a newcomer makes, with the real command: one screen, the line, the cure, 2 or 3, no traceback,
within 5 s."""

import math
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.supervised.run import Run

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}"}}
store: {store}
start_timeout: 2s
http: {{port: {port}}}
agents:
  baskets:
    from: {ns}-clicks
    aggregate:
      count: 10
      compute:
        spent: {{sum: amount}}
    to: {{topic: {ns}-baskets}}
"""
CALLS = """\
    handler: {module}:place
"""
ROWS, COLUMNS, SECONDS = 24, 110, 5.0
CHECK, CONNECT, RUN = ["check"], ["check", "--connect"], ["run"]


class Scene(NamedTuple):
    """Where the command runs, and the addresses that it may name."""

    folder: Path
    kafka: str
    redis: str
    closed: int
    taken: int
    ns: str


class Mistake(NamedTuple):
    """`wrong` makes the file of a scene; `lines` are parts of what is said, with the scene's values in braces."""

    commands: list[list[str]]
    wrong: str
    instead: str
    code: int
    lines: list[str]
    line: int | None = None
    module: str = ""


MISTAKES = {
    "misspelt key": Mistake(
        [CHECK, RUN], "    aggregate:", "    agregate:", 2, ["unknown key; did you mean aggregate?"], 9
    ),
    "wrong type": Mistake(
        [CHECK, RUN], "count: 10", "count: ten", 2, ["must be a whole number; write a whole number"], 10
    ),
    "unknown reducer": Mistake(
        [CHECK, RUN], "sum: amount", "summ: amount", 2, ["is not a reducer; did you mean sum?"], 12
    ),
    "missing topic": Mistake([CONNECT, RUN], "", "", 3, ["{ns}-clicks", "sluicegate topics shop.yaml --create"]),
    "Kafka down": Mistake(
        [CONNECT, RUN],
        '"{kafka}"',
        '"127.0.0.1:{closed}"',
        3,
        ["Kafka at 127.0.0.1:{closed} is not ready", "start it, or correct `kafka.bootstrap.servers`"],
    ),
    "store down": Mistake(
        [CONNECT, RUN],
        "sqlite:///state.db",
        "redis://127.0.0.1:{closed}/0",
        3,
        ["the store at 127.0.0.1:{closed} is not ready", "start it, or correct `store`"],
    ),
    "wrong password": Mistake(
        [CONNECT, RUN],
        "sqlite:///state.db",
        "{redis}",
        3,
        ["refuses user or password", "correct them in the store's URL"],
    ),
    "port taken": Mistake([RUN], "port: 0", "port: {taken}", 3, ["127.0.0.1:{taken}", "set http.port"]),
    "import error": Mistake(
        [CHECK, RUN], "", CALLS.format(module="broken"), 2, ["baskets.handler"], 14, "import needslib\n"
    ),
    "wrong signature": Mistake(
        [CHECK, RUN],
        "",
        CALLS.format(module="surprising"),
        2,
        ["baskets.handler", "nonsense", "there are message"],
        14,
        "def place(batch, nonsense):\n    pass\n",
    ),
}
CASES = [
    pytest.param(name, command, id=f"{name}-{' '.join(command)}")
    for name, mistake in MISTAKES.items()
    for command in mistake.commands
]


@pytest.fixture
def scene(tmp_path: Path, kafka: str, redis_url: str, ns: str) -> Iterator[Scene]:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # never listens
        place = redis_url.rpartition("@")[2].removeprefix("redis://").partition("/")[0]
        wrong = f"redis://newcomer:canary@{place}/0"
        yield Scene(tmp_path, kafka, wrong, closed.getsockname()[1], taken.getsockname()[1], ns)


def written(scene: Scene, mistake: Mistake) -> Path:
    text = FILE.format(ns=scene.ns, kafka=scene.kafka, store="sqlite:///state.db", port=0)
    wrong, instead = (text.format(**scene._asdict()) for text in (mistake.wrong, mistake.instead))
    if wrong:
        assert wrong in text
    path = scene.folder / "shop.yaml"
    path.write_text(text.replace(wrong, instead) if wrong else text + instead)
    if mistake.module:
        module = re.search(r"handler: (\w+):", path.read_text())
        assert module is not None
        (scene.folder / f"{module[1]}.py").write_text(mistake.module)
    return path


def rows(text: str) -> int:
    """Lines of a terminal that is COLUMNS wide."""
    return sum(max(1, math.ceil(len(line) / COLUMNS)) for line in text.splitlines())


def called(scene: Scene, *command: str) -> tuple["subprocess.CompletedProcess[str]", float]:
    """The command, when it has ended, and its seconds."""
    began = time.monotonic()
    done = subprocess.run([SLUICEGATE, *command], capture_output=True, text=True, cwd=scene.folder, timeout=60)
    return done, time.monotonic() - began


@pytest.mark.parametrize(("name", "command"), CASES)
def test_a_mistake_is_said_with_its_cure(scene: Scene, name: str, command: list[str]) -> None:
    mistake = MISTAKES[name]
    file = written(scene, mistake)
    done, taken = called(scene, command[0], file.name, *command[1:])
    output = done.stdout + done.stderr
    assert done.returncode == mistake.code, output
    for line in mistake.lines:
        assert line.format(**scene._asdict()) in done.stderr
    if mistake.line is not None:
        assert f"shop.yaml:{mistake.line}:" in done.stderr
    assert rows(output) <= ROWS, output
    assert "Traceback" not in output
    assert "canary" not in output
    others = (called(scene, command[0], file.name, *command[1:])[1] for _ in range(2))  # where others had the processor
    assert taken < SECONDS or min(others) < SECONDS


@pytest.mark.parametrize("name", ["Kafka down", "store down"])
def test_a_run_that_waits_says_within_5_s_for_what(scene: Scene, name: str) -> None:
    file = written(scene, MISTAKES[name])
    file.write_text(file.read_text().replace("start_timeout: 2s", "start_timeout: 60s"))
    began = time.monotonic()
    run = Run(str(SLUICEGATE), "run", str(file))
    try:
        event = run.wait("start.waiting", timeout=SECONDS)[0]
        assert time.monotonic() - began < SECONDS
        assert event["address"] == f"127.0.0.1:{scene.closed}"
        assert event["system"] == {"Kafka down": "Kafka", "store down": "the store"}[name]
        assert re.fullmatch("5[0-9] s", event["left"])
        assert "Connection refused" in event["error"]
    finally:
        run.close()


def test_the_file_without_a_mistake_is_right(scene: Scene) -> None:
    """None of the above comes from the file itself."""
    file = written(scene, Mistake([CHECK], "", "", 0, []))
    done = subprocess.run([SLUICEGATE, "check", str(file)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
