"""The independent recount: which output of each agent accounts for each record, from the flights and the topics alone.

It shares no code with the engine. A result names its key and its first and last record. So it must account for the
records of this key in that part of the partition, and its figures must be theirs. The records of `carriers` and
`alarms` are the results of `delays`, each id once.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from sluicegate.streams.contracts.headers import COUNT, DEAD_OFFSET, DEAD_PARTITION, DEAD_TOPIC, FIRST, ID, LAST
from sluicegate.streams.demo import file
from sluicegate.streams.demo.flights import Flight
from sluicegate.streams.demo.ledger import LaneLedger, LedgerEntry, LedgerSpan

RecordPosition = tuple[str, int, int]
"""Topic, partition and offset."""


class OutputRecord(NamedTuple):
    """A record of an output topic. Of several headers with one name, the last counts."""

    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]

    def header(self, name: str) -> str:
        return (self.headers.get(name) or b"").decode()

    def document(self) -> dict[str, Any]:
        document = json.loads(self.value or b"null")
        return document if isinstance(document, dict) else {}


@dataclass
class Account:
    """How the outputs of one agent account for its records. `copies` counts exact repeats of an output, which receivers
    drop by its id. `wrong` describes outputs that contradict the records; they account for no record."""

    records: int = 0
    accounted: int = 0
    lost: int = 0
    repeated: int = 0
    copies: int = 0
    outputs: Mapping[str, int] = field(default_factory=dict)
    wrong: Sequence[str] = ()

    def balanced(self) -> bool:
        return self.accounted == self.records and not (self.lost or self.repeated or self.wrong)

    def line(self, noun: str) -> str:
        return f"{self.records} {noun} in, {self.accounted} accounted for, {self.lost} lost, {self.repeated} repeated"


SpanOf = Callable[[OutputRecord], LedgerSpan | None]
"""The records of an output; None: it contradicts them."""


class Book(Generic[LedgerEntry]):
    """The records of one agent, and its outputs."""

    def __init__(self) -> None:
        self.ledger = LaneLedger[LedgerEntry]()
        self.claimed = 0
        """The records that the outputs claim by themselves, each id once."""
        self._copies = 0
        self._outputs: Counter[str] = Counter()
        self._wrong: list[str] = []
        self._seen: dict[str, OutputRecord] = {}

    def take(self, output: OutputRecord, kind: str, span_of: SpanOf) -> bool:
        """Marks the records of an output. False: its id was taken before, so this one must be equal."""
        name = output.header(ID)
        if name in self._seen:
            if self._seen[name] == output:
                self._copies += 1
            else:
                self._wrong.append(f"two different messages have the id {name}")
            return False
        self._seen[name] = output
        self._outputs[kind] += 1
        self.claimed += int(output.header(COUNT) or 1)
        span = span_of(output)
        if span is None:
            self._wrong.append(f"{kind} {name} does not agree with the records")
        else:
            self.ledger.mark(span)
        return True

    def account(self, ended: bool = True) -> Account:
        """While the agent still runs, a record is lost when an output of its lane has passed over it."""
        records, accounted = self.ledger.total, self.ledger.accounted
        lost = records - accounted if ended else self.ledger.skipped
        counts = records, accounted, lost, self.ledger.repeated, self._copies
        return Account(*counts, dict(self._outputs), tuple(self._wrong))


class Recount:
    """The books of all agents. Outputs may come before what they account for: those of `carriers` and `alarms` wait for
    the results that they name."""

    def __init__(self, flights: Iterable[Flight] = ()) -> None:
        self.delays = Book[Flight]()
        self.carriers = Book[dict[str, Any]]()
        self.alarms = Book[dict[str, Any]]()
        self._ends: Counter[int] = Counter()  # the next offset of each partition of flights
        self._results: Counter[int] = Counter()  # and of each partition of results
        self._waiting: list[tuple[str, OutputRecord]] = []
        for flight in flights:
            self.add(flight)

    @property
    def books(self) -> Mapping[str, Book[Any]]:
        return {file.DELAYS: self.delays, file.CARRIERS: self.carriers, file.ALARMS: self.alarms}

    def add(self, flight: Flight) -> None:
        """The flight is the next record of its partition."""
        offset = self._ends[flight.partition]
        self._ends[flight.partition] = offset + 1
        self.delays.ledger.add((flight.carrier, flight.partition, flight.delay is None), offset, flight)

    def take(self, topic: str, partition: int, offset: int, output: OutputRecord) -> None:
        """An output, in the order of its partition."""
        if topic == file.DEAD:
            self.delays.take(output, "dead letter", self._of_dead_letter)
        elif topic == file.DELAYS:
            if self.delays.take(output, "result", self._of_result):
                self._add_result(partition, offset, output)
            self._results[partition] = offset + 1
        else:
            self._waiting.append((topic, output))

    def turn(self) -> None:
        """Takes the outputs that waited for what they account for."""
        waiting, self._waiting = self._waiting, []
        for topic, output in waiting:
            last = _of_alarm(output) if topic == file.ALARMS else _position(output.header(LAST))
            if last is not None and last[2] >= self._results[last[1]]:
                self._waiting.append((topic, output))
            elif topic == file.ALARMS:
                self.alarms.take(output, "alarm", self._result_of)
            else:
                self.carriers.take(output, "result", self._of_results)

    def counted(self) -> bool:
        """Whether the outputs claim as many records as there are, right or wrong."""
        return not self._waiting and all(book.claimed >= book.ledger.total for book in self.books.values())

    def _add_result(self, partition: int, offset: int, output: OutputRecord) -> None:
        document = output.document()
        lane = output.key, partition
        self.carriers.ledger.add(lane, offset, document)
        if document.get("mean", 0) > file.LATE:
            self.alarms.ledger.add(lane, offset, document)

    def _of_result(self, output: OutputRecord) -> LedgerSpan | None:
        span = _span(output, file.INPUT)
        if span is None or output.key is None:
            return None
        span, document = span._replace(lane=(output.key.decode(), span.lane, False)), output.document()
        delays = [flight.delay or 0 for flight in self.delays.ledger.entries(span)]
        names = "key", "count", "flights", "total", "worst"
        figures = [document.get(name) for name in names]
        if not delays or figures != [output.key.decode(), len(delays), len(delays), sum(delays), max(delays)]:
            return None
        if abs(document["mean"] - sum(delays) / len(delays)) > 1e-9 * max(1, *map(abs, delays)):
            return None
        return span

    def _of_dead_letter(self, output: OutputRecord) -> LedgerSpan | None:
        """Its flight has no delay, and equals it byte for byte."""
        place = _position("/".join(output.header(name) for name in (DEAD_TOPIC, DEAD_PARTITION, DEAD_OFFSET)))
        if place is None or place[0] != file.INPUT or output.key is None:
            return None
        span = LedgerSpan((output.key.decode(), place[1], True), place[2], place[2])
        flights = self.delays.ledger.entries(span)
        return span if [flight.value for flight in flights] == [output.value] else None

    def _of_results(self, output: OutputRecord) -> LedgerSpan | None:
        span = _span(output, file.DELAYS)
        if span is None or output.key is None:
            return None
        span, document = span._replace(lane=(output.key, span.lane)), output.document()
        results = self.carriers.ledger.entries(span)
        figures = [document.get(name) for name in ("count", "flights", "total", "worst")]
        sums = [sum(result[name] for result in results) for name in ("flights", "total")]
        worst = max((result["worst"] for result in results), default=None)
        return span if results and figures == [len(results), *sums, worst] else None

    def _result_of(self, output: OutputRecord) -> LedgerSpan | None:
        place = _of_alarm(output)
        if place is None:
            return None
        span = LedgerSpan((output.key, place[1]), place[2], place[2])
        means = [result["mean"] for result in self.alarms.ledger.entries(span)]
        return span if means == [output.document().get("mean")] else None


def _of_alarm(output: OutputRecord) -> RecordPosition | None:
    """The place of the result that an alarm is for."""
    document = output.document()
    return _position(f"{file.DELAYS}/{document.get('partition')}/{document.get('offset')}")


def _span(output: OutputRecord, topic: str) -> LedgerSpan | None:
    """From the first to the last record of a result. Its lane is the partition alone."""
    first, last = _position(output.header(FIRST)), _position(output.header(LAST))
    if first is None or last is None or first[:2] != last[:2] or first[0] != topic:
        return None
    return LedgerSpan(first[1], first[2], last[2])


def _position(text: str) -> RecordPosition | None:
    """From `topic/partition/offset`; None when the text is no place."""
    rest, _, offset = text.rpartition("/")
    topic, _, partition = rest.rpartition("/")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        return None
    return topic, int(partition), int(offset)
