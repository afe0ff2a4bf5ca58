"""The headers of a re-keyed record that describe the original record: its place, time, key and bytes."""

from dataclasses import dataclass

from sluicegate.streams.contracts.headers import AGENT, ORIGIN, ORIGIN_KEY, ORIGIN_TIME, ORIGIN_VALUE, passed_on
from sluicegate.streams.contracts.record import Header, KeptRecord, Record, headers

_LONGEST = 18  # digits of a number in a header


@dataclass(frozen=True, slots=True)
class OriginalRecord(KeptRecord):
    """The record that was re-keyed, by this agent."""

    agent: str


def of_record(record: Record, key: bytes | None, apart: bool) -> list[Header]:
    """The headers of the re-keyed record, whose key is `key`, but for ORIGIN. `apart`: its value does not hold the
    bytes of the record."""
    told: list[Header] = []
    kind, milliseconds = record.timestamp()
    if kind:
        told.append((ORIGIN_TIME, b"%d" % milliseconds))
    if (own := record.key()) != key:
        told.append((ORIGIN_KEY, own))
    if apart:
        told.append((ORIGIN_VALUE, record.value()))
    return told


def origin(record: Record) -> Header:
    return ORIGIN, f"{record.topic()}/{record.partition()}/{record.offset()}".encode()


def original(record: Record, agent: str, wrapped: bool) -> OriginalRecord | None:
    """The record that was re-keyed for this agent. None for any other record. `wrapped`: the value holds the message as
    the one field of an object."""
    told = dict(headers(record))
    writer, place = (told.get(AGENT) or b"").decode("utf-8", "replace"), told.get(ORIGIN)
    if place is None or not writer.startswith(f"{agent}."):
        return None
    try:
        topic, number, offset = place.decode("utf-8", "replace").rsplit("/", 2)
        time = int((told.get(ORIGIN_TIME) or b"0")[:_LONGEST])
        found = topic, int(number[:_LONGEST]), int(offset[:_LONGEST])
    except ValueError:
        return None
    value = told[ORIGIN_VALUE] if ORIGIN_VALUE in told else _message(record.value()) if wrapped else record.value()
    key = told[ORIGIN_KEY] if ORIGIN_KEY in told else record.key()
    return OriginalRecord(found, key, value, passed_on(record), (int(ORIGIN_TIME in told), time), writer)


def _message(value: bytes | None) -> bytes | None:
    """The message in `{"LEG": MESSAGE}`."""
    return None if value is None else value.partition(b":")[2][:-1]
