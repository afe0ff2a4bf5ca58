"""The outputs of an app, decoded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sluicegate.schemas import codec
from sluicegate.schemas.event_codec import of_events
from sluicegate.schemas.json import Decode
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.headers import DEAD_AGENT, DEAD_APP, DEAD_REASON, ID, NUMBER, REASON, SHARD
from sluicegate.streams.contracts.record import headers as headers_of
from sluicegate.streams.testing.log import LogRecord


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """A message that an agent sent. `key` and the values of headers are text when they are UTF-8. `value` is decoded by
    the format of the writer, or for a dead letter of the reader; bytes when that fails. `raw` is the value as sent."""

    topic: str
    partition: int
    key: str | bytes | None
    value: Any
    headers: Mapping[str, str | bytes | None]
    id: str
    raw: bytes | None

    @property
    def reason(self) -> str | None:
        """The reason of a dead letter, or the reason why a group ended."""
        text = self.headers.get(DEAD_REASON, self.headers.get(REASON))
        return None if text is None else str(text)


class OutputReader:
    """Decodes the messages of this app. `before` reads what it wrote under earlier rules."""

    def __init__(self, app: App, before: "OutputReader | None" = None) -> None:
        readers = {f"{app.name}/{agent.name}": formats.reads(agent).decode for agent in app.agents}
        self._dead = {agent.dead_letters: readers for agent in app.agents}
        self._decode = {to.topic: _reader(replace(agent, to=to)) for agent in app.agents for to in agent.outputs}
        self._decode |= {agent.history: codec("json").decode for agent in app.agents if agent.history}
        self._decode = {schedule.topic: codec("json").decode for schedule in app.schedules} | self._decode
        if before is not None:
            self._dead, self._decode = before._dead | self._dead, before._decode | self._decode

    @property
    def topics(self) -> list[str]:
        """The topics that the agents write, sorted."""
        return sorted({*self._dead, *self._decode})

    @property
    def dead_letter_topics(self) -> list[str]:
        return sorted(self._dead)

    def output(self, message: LogRecord) -> ReadOutput:
        headers = {name: None if value is None else text_of(value) for name, value in headers_of(message)}
        writer = "/".join(str(headers.get(name)) for name in (DEAD_APP, DEAD_AGENT))
        decode = self._dead.get(message.t, {}).get(writer) or self._decode.get(message.t, text_of)
        value = None if message.v is None else _decoded(decode, message.v)
        key = None if message.k is None else text_of(message.k)
        return ReadOutput(message.t, message.p, key, value, headers, str(headers.get(ID)), message.v)


def sent_by_us(messages: Iterable[LogRecord]) -> list[LogRecord]:
    """The messages of agents, without those that the test sent."""
    return [message for message in messages if any(name == ID for name, _ in headers_of(message))]


def sender(message: LogRecord) -> tuple[bytes | None, bytes | None]:
    """Shard and number, by which a receiver recognizes repeats."""
    named = dict(headers_of(message))
    return named.get(SHARD), named.get(NUMBER)


def text_of(value: bytes) -> str | bytes:
    """The bytes as text when they are UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _decoded(decode: Decode, value: bytes) -> Any:
    try:
        return decode(value)
    except Exception:
        return value


def _reader(agent: Agent) -> Decode:
    """The decoder of an agent's outputs. A raw value is decoded as JSON."""
    assert agent.to is not None
    if agent.format_of(agent.to) == "raw":
        return codec("json").decode
    if agent.forwards_unchanged(agent.to):
        return formats.reads(agent).decode
    written, envelope = formats.writes(agent), agent.to.envelope
    return (written if envelope is None or envelope.mode == "binary" else of_events(written)).decode
