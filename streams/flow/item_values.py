"""The value of an expression for a message or a completed group, for flow control."""

from collections.abc import Callable
from hashlib import blake2b
from math import isnan
from typing import Any

import msgspec

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.clauses import ClauseFailed, Fields, clause
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.results import document, of_result
from sluicegate.streams.handlers.values import Message

ItemValue = Callable[[Message | Fire], Any]
EVERYTHING = b""
"""The key of a limit without `key`."""
KEYED = b"\1"
"""The prefix of the keys of a limit with `key`."""
DIGEST_SIZE = 12  # two keys with the same digest would share a limit
_canonical = msgspec.json.Encoder(order="sorted", enc_hook=str).encode


def value_of(agent: Agent, codec: Codec, name: str, text: str) -> ItemValue:
    """A function that evaluates the expression `text` of the key `name`: on the message, or on the result of an agent
    with groups. It returns None for a missing field, and if the expression has no value. Raises ConfigurationError."""
    if agent.aggregation is not None:
        result = of_result(clause(name, text))
        return _answering(lambda item: result(document(item)))  # type: ignore[arg-type]  # a completed group
    question = clause(name, f"default({text}, null)")
    fields = Fields([question], agent.let, codec, opaque=not codec.fields)
    answer, read = fields.function(question), fields.read
    return _answering(lambda item: answer(read(item.record, item.record.value() or b"")))  # type: ignore[union-attr]


def _answering(function: ItemValue) -> ItemValue:
    def value(item: Message | Fire) -> Any:
        try:
            return function(item)
        except ClauseFailed:
            return None

    return value


def key_of(agent: Agent, codec: Codec, name: str, text: str) -> Callable[[Message | Fire], bytes]:
    """As `value_of`, with the value as the key of a ledger. Raises ConfigurationError."""
    if not text:
        return lambda item: EVERYTHING
    value = value_of(agent, codec, name, text)

    def key(item: Message | Fire) -> bytes:
        try:
            content = _canonical(value(item))
        except (TypeError, ValueError, RecursionError):  # for example text that is not Unicode
            content = _canonical(None)
        return KEYED + blake2b(content, digest_size=DIGEST_SIZE).digest()

    return key


def priority_of(agent: Agent, codec: Codec, name: str, text: str) -> Callable[[Message | Fire], float]:
    """As `value_of`, with the value as a number; 0 if it is not a number. Raises ConfigurationError."""
    value = value_of(agent, codec, name, text)

    def number(item: Message | Fire) -> float:
        answer = value(item)
        return answer if isinstance(answer, int | float) and not isinstance(answer, bool) and not isnan(answer) else 0

    return number
