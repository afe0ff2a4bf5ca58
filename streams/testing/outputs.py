"""What came out of an app, as a person reads it: decoded, and each output once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sluicegate.schemas import codec
from sluicegate.schemas.json import Decode
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.record import headers as headers_of
from sluicegate.streams.testing.log import LogRecord


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """A message that an agent sent. `key` and the headers' values are text where they are UTF-8; `value` is decoded by
    the format of its writer (of a dead letter: of its reader) where it can be, else bytes; `raw` is what travels."""

    topic: str
    partition: int
    key: str | bytes | None
    value: Any
    headers: Mapping[str, str | bytes | None]
    id: str
    raw: bytes | None

    @property
    def reason(self) -> str | None:
        """Why it is a dead letter, or else why its group ended."""
        found = self.headers.get("sluicegate-dead-reason", self.headers.get("sluicegate-reason"))
        return None if found is None else str(found)


class OutputReader:
    """Makes outputs of messages of this app."""

    def __init__(self, app: App) -> None:
        readers = {f"{app.name}/{agent.name}": formats.reads(agent).decode for agent in app.agents}
        self._dead = {agent.dead_letters: readers for agent in app.agents}
        self._decode = {to.topic: _reader(replace(agent, to=to)) for agent in app.agents for to in agent.outputs}

    @property
    def topics(self) -> list[str]:
        """The topics that the agents write, sorted."""
        return sorted({*self._dead, *self._decode})

    @property
    def dead_letter_topics(self) -> list[str]:
        return sorted(self._dead)

    def output(self, message: LogRecord) -> ReadOutput:
        headers = {name: None if value is None else _text(value) for name, value in headers_of(message)}
        writer = "/".join(str(headers.get(f"sluicegate-dead-{name}")) for name in ("app", "agent"))
        decode = self._dead.get(message.t, {}).get(writer) or self._decode.get(message.t, _as_text)
        value = None if message.v is None else _decoded(decode, message.v)
        key = None if message.k is None else _text(message.k)
        return ReadOutput(message.t, message.p, key, value, headers, str(headers.get("sluicegate-id")), message.v)


def sent_by_us(messages: Iterable[LogRecord]) -> list[LogRecord]:
    """Those that agents wrote: all but what the test itself sent."""
    return [message for message in messages if any(name == "sluicegate-id" for name, _ in headers_of(message))]


def sender(message: LogRecord) -> tuple[bytes | None, bytes | None]:
    """Shard and number: what a receiver tells repeats by."""
    found = dict(headers_of(message))
    return found.get("sluicegate-shard"), found.get("sluicegate-seq")


def _reader(agent: Agent) -> Decode:
    return codec("json").decode if agent.to is not None and agent.to.format == "raw" else formats.writes(agent).decode


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _decoded(decode: Decode, value: bytes) -> Any:
    try:
        return decode(value)
    except Exception:
        return value


def _as_text(value: bytes) -> str | bytes:
    return _text(value)
