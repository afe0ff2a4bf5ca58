"""What a re-keyed record says, in its headers, of the record that it was: place, time, key and bytes."""

from dataclasses import dataclass

from sluicegate.streams.contracts.record import Header, KeptRecord, Record, headers, passed_on

ORIGIN, KEY, VALUE = "sluicegate-origin", "sluicegate-origin-key", "sluicegate-origin-value"
TIME = "sluicegate-origin-time"
AGENT = "sluicegate-agent"
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
        told.append((TIME, b"%d" % milliseconds))
    if (own := record.key()) != key:
        told.append((KEY, own))
    if apart:
        told.append((VALUE, record.value()))
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
        time = int((told.get(TIME) or b"0")[:_LONGEST])
        found = topic, int(number[:_LONGEST]), int(offset[:_LONGEST])
    except ValueError:
        return None
    value = told[VALUE] if VALUE in told else _message(record.value()) if wrapped else record.value()
    key = told[KEY] if KEY in told else record.key()
    return OriginalRecord(found, key, value, passed_on(record), (int(TIME in told), time), writer)


def _message(value: bytes | None) -> bytes | None:
    """The message in `{"LEG": MESSAGE}`."""
    return None if value is None else value.partition(b":")[2][:-1]
