"""Finds the application's functions by import path, and calls them with the arguments that their parameters ask for."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, get_type_hints

import msgspec

from sluicegate.streams.aggregation.reducers import imported
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.handlers.values import Batch, Context, Message

Call = Callable[[Any, Context], Any]
Await = Callable[[Awaitable[Any]], Any]

ARGUMENTS: dict[str, Call] = {
    "message": lambda item, context: item,
    "batch": lambda item, context: item,
    "value": lambda item, context: item.value,
    "key": lambda item, context: item.key,
    "raw_key": lambda item, context: item.raw_key,
    "headers": lambda item, context: item.headers,
    "context": lambda item, context: context,
    "session": lambda item, context: context.session,
    "lookups": lambda item, context: context.lookups,
    "send": lambda item, context: context.send,
    "schedule": lambda item, context: context.schedule,
    "cancel": lambda item, context: context.cancel,
    "together": lambda item, context: context.together,
    "id": lambda item, context: context.id,
    "attempt": lambda item, context: context.attempt,
    "log": lambda item, context: context.log,
}
OF_A_TYPE: dict[Any, str] = {Message: "message", Batch: "batch", Context: "context"}
OTHER = {"message": "batch", "batch": "message"}


class Functions(NamedTuple):
    """`calls` run one after the other. `value_type` is the type that the value is decoded into (Any: plain values).
    `schedules`: whether they may schedule timeouts."""

    calls: Sequence[Call]
    value_type: Any
    schedules: bool


def functions(paths: Sequence[str], item: str, run: Await, session: bool = False) -> Functions:
    """The functions at `package.module:name`, for items that are a `message` or a `batch`. `run` waits for coroutines.

    Raises ConfigurationError for a function that cannot be imported or that asks for an unknown argument.
    """
    found = [(path, imported(path)) for path in paths]
    types = {hint for path, function in found if (hint := _hints(function).get("value", Any)) is not Any}
    if len(types) > 1:
        raise ConfigurationError(f"{', '.join(paths)}: the handlers of one agent must agree on the type of `value`")
    wanted = [_wanted(path, function, item) for path, function in found]
    if any("together" in each for each in wanted) and (item == "batch" or not session):
        raise ConfigurationError(f"{', '.join(paths)}: `together` is for handlers of messages with session: true")
    calls = [_call(function, each, item, run) for (_, function), each in zip(found, wanted, strict=True)]
    schedules = any({"schedule", "context"} & {*each} for each in wanted)
    return Functions(calls, types.pop() if types else Any, schedules)


def decoder(value_type: Any, text: Callable[[bytes], bytes] | None = None) -> Callable[[bytes], Any]:
    """A decoder of JSON into the type. `text` makes JSON of another format. Raises ConfigurationError for a type that
    msgspec does not support."""
    try:
        decode = msgspec.json.Decoder(value_type).decode
    except TypeError as error:
        raise ConfigurationError(f"a handler's `value` cannot be of type {value_type}: {error}") from error
    return decode if text is None else lambda value: decode(text(value))


def _call(function: Callable[..., Any], wanted: Sequence[str], item: str, run: Await) -> Call:
    """The call of a function. With one or two arguments no list of arguments is made, which saves 0.2 µs per call."""
    getters = [ARGUMENTS[name] for name in wanted]
    asynchronous = inspect.iscoroutinefunction(function)
    if asynchronous:
        return lambda it, context: run(function(*[get(it, context) for get in getters]))
    if wanted == [item]:
        return lambda it, context: function(it)
    if wanted == ["value"]:
        return lambda it, context: function(it.value)
    if len(getters) == 2:
        one, two = getters
        return lambda it, context: function(one(it, context), two(it, context))
    return lambda it, context: function(*[get(it, context) for get in getters])


def _wanted(path: str, function: Callable[..., Any], item: str) -> list[str]:
    """The entry of ARGUMENTS for each parameter, by its name or else by its type. The first parameter is the item
    itself."""
    hints, wanted = _hints(function), []
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"handler {path} does not say what its parameters are") from error
    for at, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        name = (
            parameter.name
            if parameter.name in ARGUMENTS
            else OF_A_TYPE.get(hints.get(parameter.name), "" if at else item)
        )
        if name == OTHER[item]:
            raise ConfigurationError(f"handler {path}: this agent's handler gets a {item}, not a {name}")
        if not name and parameter.default is parameter.empty:
            raise ConfigurationError(f"handler {path}: `{parameter.name}` is unknown; there are {', '.join(ARGUMENTS)}")
        if not name:
            break  # it has a default, and so do all parameters after it
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise ConfigurationError(f"handler {path}: `{parameter.name}` must not be keyword-only")
        wanted.append(name)
    return wanted


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:
        return {}
