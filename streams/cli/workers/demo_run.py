"""The run of `sluicegate demo --open`: that of `sluicegate run`, and the console also shows the numbers of the demo and
has a button that kills a worker. No other run has that button: it is added here to the calls of the port."""

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.streams.cli.opening.files import loaded, read_again, read_now
from sluicegate.streams.cli.terminal.outcome import code
from sluicegate.streams.demo.numbers import DemoNumbers
from sluicegate.streams.errors import SystemNotReady

if TYPE_CHECKING:
    from sluicegate.streams.observe.board import Board
    from sluicegate.streams.observe.http import Answer, CallFields, HttpCalls, Page

FOLDER = Path(__file__).parents[2] / "demo" / "page"
SLOWEST_RESTART = 0.5  # seconds: also a worker that was killed many times starts at once
COMMAND = "from sluicegate.streams.cli.workers.demo_run import main; main()"


def main() -> None:
    """Takes the file of the numbers and that of the app. Ends as `sluicegate run` does."""
    numbers, file = sys.argv[1:]
    threading.Thread(target=_end_with_the_demo, name="demo", daemon=True).start()
    sys.exit(code(lambda: run(DemoNumbers(Path(numbers)), file)))


def _end_with_the_demo() -> None:
    """The demo writes nothing to our stdin, and holds it open as long as it lives."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def run(numbers: DemoNumbers, file: str) -> int:
    from sluicegate.streams.cli.workers.run import start
    from sluicegate.streams.processes.supervisor import Pace

    again, now = partial(read_again, file), partial(read_now, file)
    more = partial(with_demo, numbers)
    return start(loaded(file), (), 1, "info", again, read=now, more=more, pace=Pace(slowest_restart=SLOWEST_RESTART))


def with_demo(numbers: DemoNumbers, calls: "HttpCalls", board: "Board") -> "HttpCalls":
    """The calls of the console with those of the demo. A kill needs the secret of the console as each change does."""
    from sluicegate.streams.console.calls import page_files
    from sluicegate.streams.console.wording import answering

    return calls._replace(
        files={**calls.files, **page_files(FOLDER), "/": partial(_page, calls.files["/"])},
        questions={**calls.questions, "/console/demo": answering(lambda _: _shown(numbers))},
        changes={**calls.changes, "/console/kill": answering(partial(_kill, board))},
    )


def _page(console: "Page") -> "Answer":
    """The page of the console with the script of the demo, which loads that of the console."""
    page = console()
    return page._replace(body=page.body.replace(b'"/console.js"', b'"/demo/console.js"'))


def _shown(numbers: DemoNumbers) -> Any:
    try:
        return numbers.read()
    except OSError as error:
        raise SystemNotReady("the demo begins") from error


def _kill(board: "Board", fields: "CallFields") -> dict[str, Any]:
    """SIGKILL to the worker of the agent. Raises ConfigurationError and SystemNotReady."""
    from sluicegate.streams.console.wording import text

    agent = text(fields, "agent")
    for worker in board.status()["workers"]:
        if worker["agent"] == agent and worker["pid"] is not None:
            os.kill(worker["pid"], signal.SIGKILL)
            return {"killed": worker["pid"]}
    raise SystemNotReady(f"no worker of {agent} runs at this moment")
