"""Checks the fields of a question, and converts errors to answers."""

import re
from collections.abc import Callable, Collection
from functools import wraps
from http import HTTPStatus
from typing import Any

import msgspec

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.errors import ConfigurationError, Fenced, Halt, PersistenceError, SystemNotReady
from sluicegate.streams.observe.http import JSON, Answer, AnswerCall, CallFields
from sluicegate.streams.observe.logs import masked

PAGE = 100  # rows of one answer
LONGEST = 4096  # characters of a field


class StillReading(Exception):
    """The answer needs a value that is being read. The page asks again."""


def answering(call: Callable[[CallFields], Any]) -> AnswerCall:
    """The call with its result as JSON. An error of the product becomes an answer with `error`."""

    @wraps(call)
    def answer(fields: CallFields) -> Answer:
        try:
            return _json_answer(HTTPStatus.OK, call(fields))
        except StillReading as reading:
            return _json_answer(HTTPStatus.ACCEPTED, {"reading": str(reading)})
        except ConfigurationError as error:
            return _json_answer(HTTPStatus.BAD_REQUEST, {"error": masked(str(error))})
        except Fenced as error:
            text = f"another process claimed in between ({error}): the rest was not done; do it again"
            return _json_answer(HTTPStatus.CONFLICT, {"error": masked(text)})
        except (SystemNotReady, PersistenceError, Halt) as error:
            return _json_answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": masked(str(error))})
        except ModuleNotFoundError as error:
            return _json_answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"no module {error.name}: install its extra"})

    return answer


def _json_answer(status: HTTPStatus, content: Any) -> Answer:
    return Answer(status, JSON, msgspec.json.encode(content, enc_hook=str))


def text(fields: CallFields, name: str, default: str | None = None) -> str:
    """The text of a field. Raises ConfigurationError if it is missing without a default, is not text, or is too
    long."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise ConfigurationError(f"the field {name} is missing or not a text")
    if len(value) > LONGEST:
        raise ConfigurationError(f"the field {name} is longer than {LONGEST} characters")
    return value


def optional(fields: CallFields, name: str) -> str | None:
    """None for an empty or missing field."""
    return text(fields, name, "") or None


def number(fields: CallFields, name: str, default: int, most: int) -> int:
    """A number from 0 to `most`. Raises ConfigurationError."""
    value = text(fields, name, str(default))
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise ConfigurationError(f"the field {name} is not a number")
    return min(int(value), most)


def seconds(fields: CallFields, name: str) -> float:
    """A time in seconds since 1970; 0 for an empty or missing field. Raises ConfigurationError."""
    value = text(fields, name, "") or "0"
    if not re.fullmatch(r"[0-9]{1,12}([.][0-9]{1,9})?", value):
        raise ConfigurationError(f"the field {name} is not a time")
    return float(value)


def ordered(fields: CallFields, orders: Collection[str], default: str) -> tuple[str, bool]:
    """The name of the order, and whether it is descending: the field `order` then begins with `-`. Raises
    ConfigurationError."""
    name = optional(fields, "order") or default
    if name.removeprefix("-") not in orders:
        raise ConfigurationError(f"there is no order {name!r}; known are {', '.join(orders)}")
    return name.removeprefix("-"), name.startswith("-")


def agent_of(app: App, fields: CallFields) -> Agent:
    """The agent. Raises ConfigurationError if the app does not have it."""
    name = text(fields, "agent")
    for agent in app.agents:
        if agent.name == name:
            return agent
    raise ConfigurationError(f"there is no agent {name!r}")
