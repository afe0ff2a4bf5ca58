"""The headers of a re-keyed record that describe the original record: its place, time, key and bytes."""

from dataclasses import dataclass

from sluicegate.streams.contracts.headers import AGENT, ORIGIN, ORIGIN_KEY, ORIGIN_TIME, ORIGIN_VALUE, passed_on
from sluicegate.streams.contracts.record import Header, KeptRecord, Record, headers

_LONGEST = 18  # digits of a number in a header


@dataclass(frozen=True, slots=True)
class OriginalRecord(KeptRecord):
    """The original of a re-keyed record, and the agent that re-keyed it."""

    agent: str


def of_record(record: Record, key: bytes | None, apart: bool) -> list[Header]:
    """The headers of the re-keyed record without ORIGIN. `key` is its new key. `apart`: its value does not contain the
    bytes of the original."""
    pairs: list[Header] = []
    kind, milliseconds = record.timestamp()
    if kind:
        pairs.append((ORIGIN_TIME, b"%d" % milliseconds))
    if (own := record.key()) != key:
        pairs.append((ORIGIN_KEY, own))
    if apart:
        pairs.append((ORIGIN_VALUE, record.value()))
    return pairs


def origin(record: Record) -> Header:
    return ORIGIN, f"{record.topic()}/{record.partition()}/{record.offset()}".encode()


def original(record: Record, agent: str, wrapped: bool) -> OriginalRecord | None:
    """The original of a record that was re-keyed for this agent. None for any other record. `wrapped`: the value has
    the message as the only field of an object."""
    named = dict(headers(record))
    writer, place = (named.get(AGENT) or b"").decode("utf-8", "replace"), named.get(ORIGIN)
    if place is None or not writer.startswith(f"{agent}."):
        return None
    try:
        topic, number, offset = place.decode("utf-8", "replace").rsplit("/", 2)
        time = int((named.get(ORIGIN_TIME) or b"0")[:_LONGEST])
        position = topic, int(number[:_LONGEST]), int(offset[:_LONGEST])
    except ValueError:
        return None
    value = named[ORIGIN_VALUE] if ORIGIN_VALUE in named else _message(record.value()) if wrapped else record.value()
    key = named[ORIGIN_KEY] if ORIGIN_KEY in named else record.key()
    return OriginalRecord(position, key, value, passed_on(record), (int(ORIGIN_TIME in named), time), writer)


def _message(value: bytes | None) -> bytes | None:
    """The message in `{"LEG": MESSAGE}`."""
    return None if value is None else value.partition(b":")[2][:-1]
