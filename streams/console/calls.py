"""The entry point of the console: the calls that the HTTP port answers for it."""

import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path

from sluicegate.streams.agent import App
from sluicegate.streams.console.about import about
from sluicegate.streams.console.changes import ConsoleChanges
from sluicegate.streams.console.questions import Questions
from sluicegate.streams.console.systems import ConsoleSystems
from sluicegate.streams.console.wording import answering
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.http import Answer, HttpCalls, Page, new_secret

FOLDER = Path(__file__).parent / "page"
NAMES = (
    "overview",
    "partitions",
    "history",
    "rule",
    "groups",
    "why",
    "timeouts",
    "outbox",
    "dead",
    "payload",
    "progress",
    "plan",
    "audit",
)
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}


def calls(
    app: App, board: Board, systems: ConsoleSystems, clock: Callable[[], float] = time.monotonic
) -> tuple[HttpCalls, Callable[[], None]]:
    """The calls, and a function that closes the resources that they opened. The first question that needs the store
    opens it."""
    questions, secret = Questions(app, board, systems, clock), new_secret()
    changes = ConsoleChanges(app, questions)
    asked = {f"/console/{name}": answering(getattr(questions, name)) for name in NAMES}
    asked["/console/session"] = answering(lambda _: {**about(app), "secret": secret})
    made = {
        "/console/fire": answering(changes.fire),
        "/console/drop": answering(changes.drop),
        "/console/retry": answering(changes.retry),
        "/console/dead/drop": answering(changes.drop_dead),
        "/console/outbox/retry": answering(changes.retry_outbox),
        "/console/outbox/drop": answering(changes.drop_outbox),
    }
    files = page_files(FOLDER)
    return HttpCalls({"/": files["/console.html"], **files}, asked, made, secret), questions.desk.close


def page_files(folder: Path) -> dict[str, Page]:
    """Every file of the folder by its path."""
    known = (path for path in folder.rglob("*") if path.suffix in TYPES)
    return {f"/{path.relative_to(folder).as_posix()}": partial(_file, path) for path in known}


def _file(path: Path) -> Answer:
    return Answer(HTTPStatus.OK, f"{TYPES[path.suffix]}; charset=utf-8", path.read_bytes())
