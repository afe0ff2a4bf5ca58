"""The errors that handlers raised in a test, with the frames of the user's code."""

import linecache
from collections.abc import MutableMapping
from typing import Any

import structlog

from sluicegate.streams.causes import cause, users

MOST = 3  # errors that are shown for one test: the last ones


class TracebackLog:
    """A processor of structlog that keeps the tracebacks of handlers; `quiet` drops every event."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._errors: dict[tuple[str, ...], None] = {}

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        error = event.get("exc_info")
        if event.get("event") == "handler.traceback" and isinstance(error, BaseException):
            lines = told(error)
            self._errors.pop(lines, None)
            self._errors[lines] = None
        if self._quiet:
            raise structlog.DropEvent
        return event

    def taken(self) -> tuple[str, ...]:
        """The lines of the errors since the last call, each error once."""
        last, self._errors = list(self._errors)[-MOST:], {}
        return tuple(line for error in last for line in error)


def told(error: BaseException) -> tuple[str, ...]:
    """One line for the error, and one for each frame of the user's code."""
    frames = [f"  {frame}: {linecache.getline(frame.file, frame.line).strip()}" for frame in users(error)]
    return cause(error).text, *frames
