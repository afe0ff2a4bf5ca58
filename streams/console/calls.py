"""The door of the console: the calls that the HTTP port answers for it."""

import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path

from sluicegate.streams.agent import App
from sluicegate.streams.console.changes import ConsoleChanges
from sluicegate.streams.console.questions import Questions
from sluicegate.streams.console.systems import ConsoleSystems
from sluicegate.streams.console.wording import answering
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.http import Answer, HttpCalls, Page, new_secret

FOLDER = Path(__file__).parent / "page"
FILES = {
    "/": ("console.html", "text/html; charset=utf-8"),
    "/console.js": ("console.js", "text/javascript; charset=utf-8"),
    "/console.css": ("console.css", "text/css; charset=utf-8"),
}


def calls(
    app: App, board: Board, systems: ConsoleSystems, clock: Callable[[], float] = time.monotonic
) -> tuple[HttpCalls, Callable[[], None]]:
    """The calls, and a function that closes what they opened. The store is opened by the first question for it."""
    questions, secret = Questions(app, board, systems, clock), new_secret()
    changes = ConsoleChanges(app, questions)
    named = ("overview", "partitions", "groups", "why", "timeouts", "outbox", "dead", "payload", "progress", "audit")
    asked = {f"/console/{name}": answering(getattr(questions, name)) for name in named}
    asked["/console/session"] = answering(lambda _: {"app": app.name, "secret": secret})
    made = {
        "/console/fire": answering(changes.fire),
        "/console/drop": answering(changes.drop),
        "/console/retry": answering(changes.retry),
        "/console/outbox/retry": answering(changes.retry_outbox),
        "/console/outbox/drop": answering(changes.drop_outbox),
    }
    return HttpCalls(_files(), asked, made, secret), questions.desk.close


def _files() -> dict[str, Page]:
    return {path: partial(_file, FOLDER / name, type_) for path, (name, type_) in FILES.items()}


def _file(path: Path, type_: str) -> Answer:
    return Answer(HTTPStatus.OK, type_, path.read_bytes())
