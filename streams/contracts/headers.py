"""The headers that Sluicegate adds to messages: their names, encodings and parsers.

No other module contains the name of such a header. Each header that explains a dead letter is one entry of
LETTER_HEADERS. The header itself, its JSON Schema, its Avro schema and its line in the reference are generated from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sluicegate.streams.contracts.record import Header, Headers, Record, headers
from sluicegate.streams.units import moment

OWN = "sluicegate-"
"""The prefix of every Sluicegate header."""
ID, SHARD, NUMBER, MAC = "sluicegate-id", "sluicegate-shard", "sluicegate-seq", "sluicegate-mac"
OF_ROW = frozenset((ID, SHARD, NUMBER))
"""The headers of every row: its id, its shard, and its number in the shard."""
FIRE, AGENT, RULE = "sluicegate-fire", "sluicegate-agent", "sluicegate-rule"
REASON, COUNT, FIRST, LAST = "sluicegate-reason", "sluicegate-count", "sluicegate-first", "sluicegate-last"
WINDOW, REVISION, CLOSED = "sluicegate-window", "sluicegate-revision", "sluicegate-closed"
FINAL = "sluicegate-final"
REPLAY, REPLACES = "sluicegate-replay", "sluicegate-replaces"  # of a correction
ORIGIN, ORIGIN_KEY, ORIGIN_VALUE = "sluicegate-origin", "sluicegate-origin-key", "sluicegate-origin-value"
ORIGIN_TIME, TIME, STATE = "sluicegate-origin-time", "sluicegate-time", "sluicegate-state"
RETRIED_FOR, RETRIED_FROM = "sluicegate-retried-for", "sluicegate-retried-from"
TIMEOUT_ID, EVERY, DUE_AT = "sluicegate-timeout-id", "sluicegate-every", "sluicegate-due-at"  # of a timeout

DEAD = "sluicegate-dead-"
"""The prefix of the headers that explain a dead letter, except REMOVED."""
DEAD_STAGE, DEAD_REASON, DEAD_CLAUSE = f"{DEAD}stage", f"{DEAD}reason", f"{DEAD}clause"
DEAD_ERROR, DEAD_WHERE, DEAD_ATTEMPTS = f"{DEAD}error", f"{DEAD}where", f"{DEAD}attempts"
DEAD_TOPIC, DEAD_PARTITION, DEAD_OFFSET = f"{DEAD}topic", f"{DEAD}partition", f"{DEAD}offset"
DEAD_TIMESTAMP, DEAD_APP, DEAD_AGENT = f"{DEAD}timestamp", f"{DEAD}app", f"{DEAD}agent"
DEAD_VERSION, DEAD_ITEM, DEAD_RETRIES = f"{DEAD}version", f"{DEAD}item", f"{DEAD}retries"
DEAD_READ, DEAD_REKEYED_BY = f"{DEAD}read", f"{DEAD}rekeyed-by"
DEAD_SIZE, DEAD_DIGEST, DEAD_CUT = f"{DEAD}size", f"{DEAD}digest", f"{DEAD}cut"
DEAD_MEMBERS = f"{DEAD}members"
REMOVED = "sluicegate-removed"
RENAMED = "dead-"  # the prefix in a dead letter for Sluicegate headers that the record already had

NEEDED_OF_LETTERS = frozenset((ID, DEAD_APP, DEAD_AGENT, DEAD_STAGE, DEAD_REASON, DEAD_ERROR, DEAD_ATTEMPTS))
"""Every dead letter has these headers and its place."""
NOT_RETRIED = frozenset((*OF_ROW, RETRIED_FROM, RETRIED_FOR))
"""Headers that `dead retry` does not send back with a record: with the old shard and number a receiving agent would
drop the record as a repeat."""
_LONGEST = 18  # digits of a number


class UnreadableHeader(Exception):
    """The message has no readable header of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class MessageHeaders(dict[str, bytes | None]):
    """The headers of one message by name, as `by_name` makes them."""

    def raw(self, name: str) -> bytes:
        """The value of the header. Empty if the message does not have it."""
        return self.get(name) or b""

    @property
    def retried(self) -> bool:
        """Whether `dead retry` sent this copy of a message back to its topic. The copy names no shard."""
        return RETRIED_FOR in self and SHARD not in self

    def text(self, name: str) -> str:
        return (self.get(name) or b"").decode("utf-8", "replace")

    def integer(self, name: str) -> int:
        """Raises UnreadableHeader."""
        return _integer(name, self.raw(name))

    def offset(self, name: str) -> int:
        """The offset of a place. Raises UnreadableHeader."""
        return _integer(name, self.raw(name).rpartition(b"/")[2])

    def place(self, name: str) -> tuple[str, int, int] | None:
        """Topic, partition and offset. None if the header is missing or invalid."""
        topic, _, rest = self.raw(name).partition(b"/")
        return _place(topic, *rest.partition(b"/")[::2])

    def window(self) -> tuple[int, int]:
        """Start and end of the window in milliseconds since 1970. Raises UnreadableHeader."""
        times = [moment(text) for text in self.text(WINDOW).split("/")]
        start, end = times if len(times) == 2 else (None, None)
        if start is None or end is None:
            raise UnreadableHeader(WINDOW)
        return round(1000 * start), round(1000 * end)

    def closed(self) -> tuple[str, tuple[int, ...]]:
        """The cause that closed the window and its details: the offset of the next record, and the watermark. Raises
        UnreadableHeader."""
        by, *rests = self.text(CLOSED).split("/")
        signs = (-1 if text.startswith("-") else 1 for text in rests)
        return by, tuple(
            sign * _integer(CLOSED, text.encode().removeprefix(b"-")) for sign, text in zip(signs, rests, strict=True)
        )

    def removed(self) -> tuple[int, ...]:
        """The indexes of the messages that a handler removed from its group. Raises UnreadableHeader."""
        return tuple(_integer(REMOVED, text) for text in self.raw(REMOVED).split(b",") if text)

    def failure(self) -> tuple[bytes, bytes, bytes]:
        """Stage, reason and clause of a dead letter."""
        return self.raw(DEAD_STAGE), self.raw(DEAD_REASON), self.raw(DEAD_CLAUSE)

    def dead_place(self) -> tuple[str, int, int] | None:
        """The place of the record of a dead letter, or of the first record of its group."""
        return _place(self.raw(DEAD_TOPIC), self.raw(DEAD_PARTITION), self.raw(DEAD_OFFSET))

    def dead_offset(self) -> int:
        """The offset that the agent read, in the partition that it read. Raises UnreadableHeader."""
        return self.offset(DEAD_READ) if DEAD_READ in self else self.integer(DEAD_OFFSET)


def by_name(pairs: Sequence[Header]) -> MessageHeaders:
    """The headers by name. If a name occurs twice, the first header belongs to the writer."""
    return MessageHeaders(reversed(pairs))


def _place(topic: bytes, number: bytes, offset: bytes) -> tuple[str, int, int] | None:
    """None if Kafka has no such partition number or offset: a client accepts no larger ones."""
    if not (number.isdigit() and offset.isdigit() and len(number) < 10 and len(offset) <= _LONGEST):
        return None
    return topic.decode("utf-8", "replace"), int(number), int(offset)


def _integer(name: str, text: bytes) -> int:
    if not text.isdigit() or len(text) > _LONGEST:
        raise UnreadableHeader(name)
    return int(text)


def window_headers(window: str, revision: int, by: str, rests: Sequence[int]) -> Headers:
    """The headers of a window. `window` is START/END. `by` and `rests` are as in `MessageHeaders.closed`. Without `by`,
    a record or a limit ended the group."""
    pairs: Headers = [(WINDOW, window.encode()), (REVISION, b"%d" % revision)]
    if by:
        pairs.append((CLOSED, ("/".join((by, *map(str, rests))) if rests else by).encode()))
    return pairs


def revision_headers(revision: int, final: bool | None, windowed: bool) -> Iterator[Header]:
    """The number of the result within its group, and whether no early result follows. With `windowed` the window's
    headers have the number."""
    if not windowed and (final is not None or revision > 1):
        yield REVISION, b"%d" % revision
    if final is not None:
        yield FINAL, b"true" if final else b"false"


def renamed(pairs: Sequence[Header]) -> Headers:
    """The headers of a record in the form that its dead letter has."""
    return [(f"{RENAMED}{name}" if name.startswith(OWN) else name, value) for name, value in pairs]


def restored(pairs: Sequence[Header]) -> Headers:
    """The original headers of a record from its dead letter."""
    mark = f"{RENAMED}{OWN}"
    return [(name.removeprefix(RENAMED) if name.startswith(mark) else name, value) for name, value in pairs]


def others(pairs: Sequence[Header]) -> Headers:
    """The headers that are not Sluicegate's."""
    return [header for header in pairs if not header[0].startswith(OWN)]


def passed_on(record: Record) -> Headers:
    """The headers that are forwarded with the record. Sluicegate's own headers describe the record itself: an output of
    another agent, a dead letter, a record that was retried for one agent. The row of the new output has its own."""
    return others(headers(record))


class DeadReason(NamedTuple):
    """The reason why a record or a group is a dead letter, as texts. `topic`, `partition`, `offset` and `time` describe
    the record, or the first record of the group. `where` is the place in the user's code that raised, or empty."""

    reason: str
    error: str
    where: str
    clause: str
    stage: str
    attempts: str
    topic: str
    partition: str
    offset: str
    time: str
    app: str
    agent: str
    version: str


class LetterHeader(NamedTuple):
    """One header of dead letters. `schema` is the JSON Schema of its text. `always`: every letter has it. `text` makes
    the text of the header; None if the letter does not have it. Without `text`, outbox.rows or outbox.sizes adds the
    header."""

    name: str
    meaning: str
    schema: Mapping[str, object]
    always: bool = False
    text: Callable[[DeadReason], str | None] | None = None


def explaining(why: DeadReason) -> list[Header]:
    """The headers that explain a dead letter, in ASCII."""
    texts = ((entry.name, entry.text(why)) for entry in LETTER_HEADERS if entry.text is not None)
    return [(name, text.encode("ascii", "replace")) for name, text in texts if text is not None]


_TEXT = {"type": "string"}
_INDEX = {"type": "string", "pattern": r"^\d+$"}
_NUMBER = {"type": "string", "pattern": r"^[1-9]\d*$"}
_NAME, _UUID = {"$ref": "#/$defs/name"}, {"$ref": "#/$defs/uuid"}
_OF_RECORD = "null-value", "too-large", "missing-field", "wrong-type", "undecodable", "no-key", "no-id", "crash"
_OF_GROUP = "limit", "reducer", "timeout", "overflow", "handler-failed", "rate-limited", "bad-item", "lookup-missing"
_OF_OUTPUT = "expression-failed", "unrouted", "unencodable", "no-destination"
_OF_TABLE = ("not-added",)
_OF_TIME = "late", "time-ahead", "bad-time", "no-time"
LETTER_HEADERS: tuple[LetterHeader, ...] = (
    LetterHeader(ID, "Of this dead letter. A copy has the same id.", _UUID, always=True),
    LetterHeader(
        SHARD,
        "The writer of the dead letter. With sluicegate-seq it lets a reader drop repeats.",
        {
            "type": "string",
            "pattern": r"^([A-Za-z0-9._-]+/[A-Za-z0-9._-]+(~\d+)?/[A-Za-z0-9._@-]+/\d+|outbox/\d+)>[A-Za-z0-9._-]+#.*$",
        },
        always=True,
    ),
    LetterHeader(NUMBER, "The number of the dead letter within its shard. It grows.", _NUMBER, always=True),
    LetterHeader(
        MAC,
        "The MAC that proves the writer, made with the key of the app. Other programs pass over it.",
        {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    ),
    LetterHeader(
        DEAD_REASON,
        "Why the record cannot be used.",
        {"enum": [*_OF_RECORD, *_OF_GROUP, *_OF_OUTPUT, *_OF_TIME, *_OF_TABLE]},
        always=True,
        text=lambda why: why.reason,
    ),
    LetterHeader(
        DEAD_ERROR,
        "For people. Quotes the payload only where the message of an exception of the user's code does.",
        {"type": "string", "maxLength": 1000},
        always=True,
        text=lambda why: why.error,
    ),
    LetterHeader(
        DEAD_WHERE,
        "The place in the user's code that raised: FILE:LINE in FUNCTION. Absent where no code of the user's raised.",
        {"type": "string", "maxLength": 300},
        text=lambda why: why.where or None,
    ),
    LetterHeader(
        DEAD_CLAUSE,
        "The expression of the file that has no answer: where, let.NAME, until, complete, having, to.TOPIC or "
        "select.NAME. Absent for other reasons.",
        _TEXT,
        text=lambda why: why.clause or None,
    ),
    LetterHeader(
        DEAD_STAGE,
        "Where the record failed.",
        {"enum": ["decode", "expression", "dedupe", "key", "aggregate", "lookup", "handler", "produce", "crash"]},
        always=True,
        text=lambda why: why.stage,
    ),
    LetterHeader(DEAD_ATTEMPTS, "The number of attempts.", _INDEX, always=True, text=lambda why: why.attempts),
    LetterHeader(
        DEAD_TOPIC,
        "The topic of the record, or of the group's first record.",
        _TEXT,
        always=True,
        text=lambda why: why.topic,
    ),
    LetterHeader(
        DEAD_PARTITION,
        "The partition of the record, or of the group's first record.",
        _INDEX,
        always=True,
        text=lambda why: why.partition,
    ),
    LetterHeader(
        DEAD_OFFSET, "Of the record, or of the group's first record.", _INDEX, always=True, text=lambda why: why.offset
    ),
    LetterHeader(
        DEAD_TIMESTAMP,
        "The record's own time; of a group, the time at which it was opened.",
        {"type": "string", "pattern": "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$"},
        always=True,
        text=lambda why: why.time,
    ),
    LetterHeader(DEAD_APP, "The app that wrote the dead letter.", _NAME, always=True, text=lambda why: why.app),
    LetterHeader(DEAD_AGENT, "The agent that wrote the dead letter.", _NAME, always=True, text=lambda why: why.agent),
    LetterHeader(
        DEAD_VERSION,
        "The version of Sluicegate that wrote the dead letter.",
        _TEXT,
        always=True,
        text=lambda why: why.version,
    ),
    LetterHeader(
        DEAD_ITEM,
        "Of a message that a handler could not use (bad-item), or that does not fit the type of its parameter "
        "(undecodable): its index in the group as it was completed; key and offset are the group's.",
        _INDEX,
    ),
    LetterHeader(
        DEAD_SIZE,
        "Only of a record that is larger than a message may be: the bytes of its value, of which the letter "
        "has the beginning.",
        _INDEX,
    ),
    LetterHeader(
        DEAD_DIGEST,
        "Only of a record that is larger than a message may be: of its whole value.",
        {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
    ),
    LetterHeader(
        DEAD_CUT,
        "Only of a record that is larger than a message may be: what of it the letter has not, or not whole: "
        "value, key, headers.",
        _TEXT,
    ),
    LetterHeader(
        DEAD_REKEYED_BY,
        "Of a record that was re-keyed for the agent (repartition, correlate): the agent that re-keyed it. "
        "The other headers name the record itself.",
        _NAME,
    ),
    LetterHeader(
        DEAD_READ,
        "Of a record that was re-keyed for the agent: TOPIC/PARTITION/OFFSET of what the agent read.",
        {"type": "string", "pattern": "^[A-Za-z0-9._@-]+/\\d+/\\d+$"},
    ),
    LetterHeader(DEAD_RETRIES, "Of a group that failed again after `dead retry`: how often it was retried.", _NUMBER),
    LetterHeader(
        DEAD_MEMBERS,
        "Of a group of `scope: shared` without its computed fields (unencodable, too-large, overflow): the places of "
        "its messages in their order, as JSON, up to 64 KiB. Each item is a topic, a partition, and a list of offsets, "
        "each but the first as the difference to the one before.",
        {"type": "string", "pattern": "^\\[.*\\]$"},
    ),
    LetterHeader(
        REMOVED,
        "Of a group whose handler named bad messages: their indexes in the group as it was completed.",
        {"type": "string", "pattern": "^\\d+(,\\d+)*$"},
    ),
)
