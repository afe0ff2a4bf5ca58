"""The independent recount: it finds for each flight the result or dead letter that holds it, from the file and the
topics alone. It shares no code with the engine. A result names its key and its first and last record. So it must hold
the carrier's flights in that part of the partition that have a delay. Their number, sum and maximum must equal the
result's."""

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sluicegate.streams.contracts.headers import DEAD_OFFSET, DEAD_PARTITION, DEAD_TOPIC, FIRST, ID, LAST
from sluicegate.streams.demo.flights import PARTITIONS, Flight

RecordPosition = tuple[int, int]


class OutputRecord(NamedTuple):
    """A record of an output topic. Of several headers with one name, the last counts."""

    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]

    def header(self, name: str) -> str:
        return (self.headers.get(name) or b"").decode()


@dataclass
class Account:
    """The result of the recount. `copies` counts exact repeats of an output, which receivers drop by its id. `wrong`
    describes outputs that contradict the flights; they account for no flight."""

    flights: int = 0
    accounted: int = 0
    lost: int = 0
    repeated: int = 0
    copies: int = 0
    results: int = 0
    dead: int = 0
    wrong: list[str] = field(default_factory=list)

    def balanced(self) -> bool:
        return self.accounted == self.flights and not (self.lost or self.repeated or self.wrong)

    def line(self) -> str:
        return f"{self.flights} flights in, {self.accounted} accounted for, {self.lost} lost, {self.repeated} repeated"


PlacesOf = Callable[[OutputRecord], Sequence[RecordPosition] | None]
"""The places of the flights of a message, or None when it does not agree with the flights."""


class Book:
    """All flights by partition, and how often each was accounted for."""

    def __init__(self, flights: Iterable[Flight], topic: str) -> None:
        self._topic = topic
        self._partitions: list[list[Flight]] = [[] for _ in range(PARTITIONS)]
        self._on_time: dict[tuple[str, int], list[int]] = {}
        self._marks: Counter[RecordPosition] = Counter()
        for flight in flights:
            partition = self._partitions[flight.partition]
            if flight.delay is not None:
                self._on_time.setdefault((flight.carrier, flight.partition), []).append(len(partition))
            partition.append(flight)

    def account(self, results: Sequence[OutputRecord], dead: Sequence[OutputRecord]) -> Account:
        account = Account(flights=sum(map(len, self._partitions)))
        account.results = self._mark(results, "result", self._of_result, account)
        account.dead = self._mark(dead, "dead letter", self._of_dead_letter, account)
        account.accounted = len(self._marks)
        account.lost = account.flights - account.accounted
        account.repeated = sum(self._marks.values()) - account.accounted
        return account

    def _mark(self, messages: Sequence[OutputRecord], kind: str, places_of: PlacesOf, account: Account) -> int:
        """Marks the flights of each message, and returns the number of different ids. Messages with one id must be
        equal."""
        seen: dict[str, OutputRecord] = {}
        for message in messages:
            name = message.header(ID)
            if name in seen:
                if seen[name] == message:
                    account.copies += 1
                else:
                    account.wrong.append(f"two different messages have the id {name}")
                continue
            seen[name] = message
            places = places_of(message)
            if places is None:
                account.wrong.append(f"{kind} {name} does not agree with the flights")
            else:
                self._marks.update(places)
        return len(seen)

    def _of_result(self, message: OutputRecord) -> Sequence[RecordPosition] | None:
        """The places of the result's flights; None: it contradicts the flights."""
        document = json.loads(message.value or b"null")
        first, last = self._place(message.header(FIRST)), self._place(message.header(LAST))
        if first is None or last is None or first[0] != last[0] or message.key is None:
            return None
        partition, carrier = first[0], message.key.decode()
        offsets = self._on_time.get((carrier, partition), [])
        members = offsets[bisect_left(offsets, first[1]) : bisect_right(offsets, last[1])]
        delays = [self._partitions[partition][offset].delay or 0 for offset in members]
        figures = (document["key"], document["count"], document["flights"], document["total"], document["worst"])
        if not delays or figures != (carrier, len(delays), len(delays), sum(delays), max(delays)):
            return None
        if abs(document["mean"] - sum(delays) / len(delays)) > 1e-9 * max(1, *map(abs, delays)):
            return None
        return [(partition, offset) for offset in members]

    def _of_dead_letter(self, message: OutputRecord) -> Sequence[RecordPosition] | None:
        """The place of its flight; None unless it equals a flight without a delay, byte for byte."""
        where = (message.header(name) for name in (DEAD_TOPIC, DEAD_PARTITION, DEAD_OFFSET))
        place = self._place("/".join(where))
        if place is None:
            return None
        flight = self._partitions[place[0]][place[1]]
        same = (message.key, message.value) == (flight.carrier.encode(), flight.value)
        return [place] if same and flight.delay is None else None

    def _place(self, text: str) -> RecordPosition | None:
        """The place of a flight from `topic/partition/offset`; None when there is no such flight."""
        topic, _, rest = text.rpartition("/")[0].rpartition("/")
        number = text.rpartition("/")[2]
        if topic != self._topic or not (rest.isdecimal() and number.isdecimal()):
            return None
        partition, offset = int(rest), int(number)
        there = partition < PARTITIONS and offset < len(self._partitions[partition])
        return (partition, offset) if there else None
