"""Logs: one line for each event on stderr, in JSON unless stderr is a terminal. Logging never raises and never blocks.

Event names are stable words with dots (`worker.started`). All other data is in fields. Above DEBUG the log has no field
that could hold the content of a record. Passwords in addresses are masked at every level.
"""

import contextlib
import logging
import os
import re
import select
import stat
import threading
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

from sluicegate.streams.wording import printable

CONTENT = frozenset({"key", "value", "headers", "payload", "record", "message", "entry", "document"})
SECRET = re.compile(r"password|secret|credential|authorization|^token$|api.?key|ssl\.key", re.IGNORECASE)
# The forms of URLs that hints show, such as redis://[user:password@]host and ${USER}:${PASSWORD}@host, hold no secret.
IN_ADDRESS = re.compile(
    r"(?<=://)(?!\[user:password@\]|\$\{\w+\}(?::\$\{\w+\})?@)[^/\s'\"]*(?=@)|(?<=password=)[^&\s'\"]+", re.IGNORECASE
)
MASK = "***"

LogEvent = MutableMapping[str, Any]
Processor = Callable[[Any, str, LogEvent], Any]


def configure(json: bool | None = None, level: str = "info", descriptor: int = 2) -> None:
    """Sends the events of structlog and of the standard library's loggers to `descriptor`. With `json` None the format
    is JSON, unless the descriptor is a terminal. `level` is debug, info, warning or error."""
    pretty = os.isatty(descriptor) if json is None else not json
    number = logging.getLevelNamesMapping()[level.upper()]
    writer = LineWriter(descriptor)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            discreet,
            legible,
            _renderer(pretty, colors=os.isatty(descriptor)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: writer,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(
        handlers=[Forward()], level=number if number == logging.DEBUG else max(number, logging.WARNING), force=True
    )


def discreet(_logger: Any, method: str, event: LogEvent) -> LogEvent:
    """Above DEBUG, removes bytes and the content of records. At every level, masks secrets."""
    for name, value in list(event.items()):
        if method != "debug" and name in CONTENT:
            del event[name]
        else:
            event[name] = _shown(name, value, method == "debug")
    return event


def _shown(name: str, value: Any, debug: bool) -> Any:
    if SECRET.search(name):
        return MASK
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {str(inner): _shown(str(inner), item, debug) for inner, item in value.items()}
    if isinstance(value, bytes | bytearray) and not debug:
        return f"<{len(value)} bytes>"
    return value


def masked(text: str) -> str:
    """The text with the user and password of each address masked."""
    return IN_ADDRESS.sub(MASK, text)


def legible(_logger: Any, _method: str, event: LogEvent) -> LogEvent:
    """Make texts printable: control characters in a topic or an error could control a terminal. A value that is not
    text is written as its `repr`, which has none."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value)
    return event


def _renderer(pretty: bool, colors: bool) -> Processor:
    if pretty:
        wanted = colors and "NO_COLOR" not in os.environ
        return structlog.dev.ConsoleRenderer(colors=wanted, exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer()


class LineWriter:
    """Writes a line in one call. Drops the line if the pipe is broken or full, or if the disk is full."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._poll: select.poll | None = None
        with contextlib.suppress(OSError):
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                self._poll = select.poll()
                self._poll.register(descriptor, select.POLLOUT)

    def _write(self, line: str) -> None:
        text = (line + "\n").encode("utf-8", "replace")
        # One thread at a time: the space that a poll finds in the pipe must still be free for the write.
        with contextlib.suppress(OSError), self._lock:
            if self._poll is None or self._poll.poll(0):
                os.write(self._descriptor, text)

    debug = info = warning = error = critical = _write


class Forward(logging.Handler):
    """Passes the records of the standard library's loggers to structlog. Most of them come from drivers."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
            structlog.get_logger().log(
                level, "library.logged", logger=record.name, text=record.getMessage(), exc_info=record.exc_info
            )
        except Exception:
            self.handleError(record)
