"""The parts of a test's log for its user: the errors of handlers, with the frames of the user's code, and warnings
about the records."""

import linecache
from collections.abc import MutableMapping
from typing import Any

import structlog

from sluicegate.streams.causes import cause, users

WARNINGS = ("times.implausible",)
"""Events of the log that are shown with the test."""
MOST = 3  # errors that are shown for one test: the last ones


class TracebackLog:
    """A processor of structlog that keeps the tracebacks of handlers and WARNINGS; `quiet` drops every event."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._errors: dict[tuple[str, ...], None] = {}
        self._warnings: dict[str, None] = {}

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        error = event.get("exc_info")
        if event.get("event") == "handler.traceback" and isinstance(error, BaseException):
            lines = error_lines(error)
            self._errors.pop(lines, None)
            self._errors[lines] = None
        if event.get("event") in WARNINGS:
            self._warnings[f"agent {event['agent']}, {event['topic']}: {event['text']}"] = None
        if self._quiet:
            raise structlog.DropEvent
        return event

    def taken(self) -> tuple[str, ...]:
        """The lines of the errors since the last call, each error once."""
        last, self._errors = list(self._errors)[-MOST:], {}
        return tuple(line for error in last for line in error)

    def warnings(self) -> tuple[str, ...]:
        """The warnings since the last call, each once."""
        texts, self._warnings = tuple(self._warnings), {}
        return texts


def error_lines(error: BaseException) -> tuple[str, ...]:
    """The error in one line, and one line for each frame of the user's code."""
    frames = [f"  {frame}: {linecache.getline(frame.file, frame.line).strip()}" for frame in users(error)]
    return cause(error).text, *frames
