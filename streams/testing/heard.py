"""What handlers raised while a test was played, for whoever must mend them: the frames of the user's code, without
locals."""

import linecache
from collections.abc import MutableMapping
from typing import Any

import structlog

from sluicegate.streams.causes import message, users

MOST = 3  # errors that are told of one test: the last ones


class TracebackLog:
    """A processor for structlog that takes in the tracebacks of handlers; `quiet` drops every event."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._errors: dict[tuple[str, ...], None] = {}

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        error = event.get("exc_info")
        if event.get("event") == "handler.traceback" and isinstance(error, BaseException):
            said = told(error)
            self._errors.pop(said, None)
            self._errors[said] = None
        if self._quiet:
            raise structlog.DropEvent
        return event

    def taken(self) -> tuple[str, ...]:
        """The lines of what was heard since the last call, each error once."""
        last, self._errors = list(self._errors)[-MOST:], {}
        return tuple(line for error in last for line in error)


def told(error: BaseException) -> tuple[str, ...]:
    """One line for the error, and one for each frame of the user's code."""
    kind, said = type(error).__name__, message(error)
    frames = [f"  {frame}: {linecache.getline(frame.file, frame.line).strip()}" for frame in users(error)]
    return f"{kind}: {said}" if said else kind, *frames
