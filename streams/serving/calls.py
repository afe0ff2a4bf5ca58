"""`GET /agents/AGENT/groups/KEY`: the committed state of a key, as JSON."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import ConfigurationError, Halt, PersistenceError, SystemNotReady
from sluicegate.streams.handlers.values import plain
from sluicegate.streams.observe.http import JSON, Answer, AnswerResource, CallFields, ResourceRequest
from sluicegate.streams.observe.logs import masked
from sluicegate.streams.operations.desk import StoreDesk
from sluicegate.streams.operations.groups.group_changes import document, require_groups
from sluicegate.streams.operations.groups.open_groups import OpenGroup
from sluicegate.streams.serving.committed import CommittedState
from sluicegate.streams.units import moment

PREFIX = "/agents/"
PAGE = 100  # groups in one answer
PAGE_BYTES = 1024 * 1024  # in one answer with several groups
RETRY_AFTER = "1"  # seconds
ENCODED = re.compile(r"(?:[!-$&-~]|%[0-9A-Fa-f]{2})*")  # ASCII without spaces, and bytes as %XX
NUMBER = re.compile(r"[0-9]{1,9}")
PASSING = ("age", "fires_in", "owner")  # fields that change without a change of the state


class _Problem(Exception):
    def __init__(self, status: HTTPStatus, error: str, **more: Any) -> None:
        super().__init__(error)
        self.answer = _json(status, {"error": error, **more})


def resources(
    app: App,
    open_store: Callable[[], Store],
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> tuple[Mapping[str, AnswerResource], Callable[[], None]]:
    """The resources, and a function that closes the store. The first request opens it."""
    desk = StoreDesk(open_store)
    state = StateResource(app, CommittedState(app, desk, clock, now))
    return {PREFIX: state.answer}, desk.close


class StateResource:
    """Answers requests below PREFIX."""

    def __init__(self, app: App, state: CommittedState) -> None:
        self._app, self._state = app, state

    def answer(self, request: ResourceRequest) -> Answer:
        try:
            return self._open_groups(request)
        except _Problem as problem:
            return problem.answer
        except (PersistenceError, SystemNotReady) as error:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": masked(str(error))}, {"Retry-After": RETRY_AFTER})
        except (ConfigurationError, Halt) as error:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": masked(str(error))})
        except ModuleNotFoundError as error:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"no module {error.name}: install its extra"})

    def _open_groups(self, request: ResourceRequest) -> Answer:
        name, key = _named(request.path)
        agent = self._agent(name)
        window, first = _window(request.fields), _first(request.fields)
        headers = {name.lower(): value for name, value in request.headers.items()}
        groups, age = self._state.groups(agent, key, "no-cache" in headers.get("cache-control", ""))
        if window is not None:
            groups = [group for group in groups if group.window is not None and group.window.start == window]
        if not groups:
            raise _Problem(HTTPStatus.NOT_FOUND, "there is no open group with this key", agent=agent.name)
        page = _page(groups[first:])
        follows = first + len(page)
        tag = _tag(page, first, len(groups))
        fresh = {"ETag": tag, "Age": str(int(age)), "Cache-Control": "private, no-cache"}
        tags = [word.strip().removeprefix("W/") for word in headers.get("if-none-match", "").split(",")]
        if tags == ["*"] or tag.removeprefix("W/") in tags:
            return Answer(HTTPStatus.NOT_MODIFIED, JSON, b"", fresh)
        more = {"count": len(groups), "next": follows if follows < len(groups) else None}
        return _json(HTTPStatus.OK, {"agent": agent.name, "groups": page, **more}, fresh)

    def _agent(self, name: str) -> Agent:
        agents = [agent for agent in self._app.agents if agent.grouped]
        for agent in self._app.agents:
            if agent.name == name:
                break
        else:
            names = [agent.name for agent in agents]
            raise _Problem(HTTPStatus.NOT_FOUND, f"there is no agent {name!r}", agents=names)
        try:
            require_groups(agent)
        except ConfigurationError as error:
            raise _Problem(HTTPStatus.NOT_FOUND, str(error), agents=[agent.name for agent in agents]) from None
        return agent


def _named(path: str) -> tuple[str, bytes]:
    """The agent and the key in the path."""
    if not ENCODED.fullmatch(path):
        raise _Problem(HTTPStatus.BAD_REQUEST, "the path is not percent-encoded: a byte is %XX, a percent sign %25")
    parts = path.split("/")
    if len(parts) != 3 or parts[1] != "groups":
        raise _Problem(HTTPStatus.NOT_FOUND, f"ask {PREFIX}AGENT/groups/KEY; a slash in the key is %2F")
    return unquote_to_bytes(parts[0]).decode(errors="replace"), unquote_to_bytes(parts[2])


def _window(fields: CallFields) -> int | None:
    """The begin of the window in milliseconds since 1970."""
    if "window" not in fields:
        return None
    seconds = moment(fields["window"])
    if seconds is None:
        raise _Problem(HTTPStatus.BAD_REQUEST, "window is not a time; write one such as 2026-01-31T08:05:00Z")
    return round(1000 * seconds)


def _first(fields: CallFields) -> int:
    text = fields.get("first", "0")
    if not NUMBER.fullmatch(text):
        raise _Problem(HTTPStatus.BAD_REQUEST, "first is not a number; write the `next` of an answer")
    return int(text)


def _page(groups: Sequence[OpenGroup]) -> list[dict[str, Any]]:
    """The first groups as JSON: at least one, and no more than PAGE and PAGE_BYTES."""
    page, size = list[dict[str, Any]](), 0
    for group in groups[:PAGE]:
        content = {**document(group), "values": plain(group.values)}
        size += len(_encoded(content))
        if page and size > PAGE_BYTES:
            break
        page.append(content)
    return page


def _tag(page: Sequence[Mapping[str, Any]], first: int, many: int) -> str:
    """A weak entity tag. It changes with the state, but not with its age or owner."""
    lasting = [[{name: value for name, value in row.items() if name not in PASSING} for row in page], first, many]
    return f'W/"{blake2b(_encoded(lasting), digest_size=16).hexdigest()}"'


def _json(status: HTTPStatus, content: Any, headers: Mapping[str, str] = {}) -> Answer:
    return Answer(status, JSON, _encoded(content), headers)


def _encoded(content: Any) -> bytes:
    return msgspec.json.encode(content, enc_hook=str)
