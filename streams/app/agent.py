"""An agent of an App, and the part of the document that its keywords make."""

import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sluicegate.streams.app import values
from sluicegate.streams.app.keys import AgentKeys, AggregateKeys, FileKeys, HandlerFunction
from sluicegate.streams.app.origins import CodePlace
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.handlers.functions import in_vain, listed


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: its input, its groups, its function and its output. `App.agent` and `App.add` make it.

    Its attributes:

    - `name` is a part of the consumer group, so an agent with a new name begins at `start`.
    - `function` is the decorated function; None for an agent of `App.add` or of a file.
    - `document` has the keys and the values as a file has them.
    - `place` is the file and the line that define the agent.

    The keywords of `App.agent` and `App.add` are the keys of an agent in a file. An agent with `count`, `timeout`,
    `until` or `window` collects records into groups. A duration may be a
    timedelta. A function may stand where a file has "module:name".

    """

    name: str
    function: HandlerFunction | None
    document: Mapping[str, Any]
    place: CodePlace


Agent.__doc__ = f"{Agent.__doc__}{AgentKeys.__doc__}\n    {AggregateKeys.__doc__}"


def made(
    name: str,
    function: HandlerFunction | None,
    handler: object,
    place: CodePlace,
    keys: FileKeys,
    of: values.OfFunction,
) -> Agent:
    """The agent of these keywords. `of` returns the text of a function. Raises ConfigurationError."""
    check_keywords(place, f"agent {name}", keys, AgentKeys.__annotations__)
    if function is not None and (vain := in_vain(function)):
        raise ConfigurationError(f"{place}: agent {name}: the function {vain}")
    try:
        return Agent(name, function, MappingProxyType(_tree(function, {**keys, "handler": handler}, of)), place)
    except values.Unsayable as error:
        raise ConfigurationError(f"{place}: agent {name}: a value {error}") from error


def check_keywords(place: CodePlace, what: str, names: Iterable[str], words: Iterable[str]) -> None:
    """Raises ConfigurationError for the first unknown keyword."""
    for word in names:
        if word not in words:
            from sluicegate.streams.hints import did_you_mean

            hint = did_you_mean(word, [*words])
            raise ConfigurationError(f"{place}: {what}: unknown keyword `{word}`; {hint}")


def _tree(function: HandlerFunction | None, keys: FileKeys, of: values.OfFunction) -> values.DocumentTree:
    set_ = {_in_file(key): value for key, value in keys.items() if value is not None}
    groups = {key: set_.pop(key) for key in AggregateKeys.__annotations__ if key in set_}
    if function is not None and groups and (messages := listed(function)):
        groups["compute"] = {messages: "collect", **groups.get("compute", {})}
    if groups:
        set_["aggregate"] = groups
    return {key: values.of_value(value, of) for key, value in set_.items()}


def _in_file(word: str) -> str:
    """The file's key of a keyword: a key that is a Python keyword has an underscore behind it."""
    return word[:-1] if keyword.iskeyword(word[:-1]) else word
