"""The newest dead letters of an app without their contents, kept from one reading to the next."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from sys import intern

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.headers import DEAD_CLAUSE, DEAD_WHERE
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.operations.dead.dead_changes import LetterTopics
from sluicegate.streams.operations.dead.dead_letters import Letter, letters
from sluicegate.streams.versions.mac_keys import SigningKeys

MOST = 100_000  # records of all partitions of the dead-letter topics together
LEAST = 1_000  # records of each partition, however many there are
LONGEST_KEY, LONGEST_ERROR = 200, 1_000  # bytes and characters that are kept for the list and its search
GAP = 1_000  # records that are read on the way to the next letter; behind more of them reading begins anew
KEPT_HEADERS = {DEAD_CLAUSE, DEAD_WHERE}

OffsetRange = tuple[int, int]
"""The first offset, and the one after the last."""
LetterName = tuple[str, bool]
"""The id of a letter, and whether it is proven: a letter with a forged id does not replace the genuine one."""


class LetterIndex:
    """About 1 kB for each letter. A reading takes only the records that came since the one before. It is for one
    thread at a time, except `whole`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._topics = {agent.dead_letters for agent in app.agents}
        self._agents = [agent.name for agent in app.agents]
        self._keys: SigningKeys | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._order: dict[TopicPartition, deque[tuple[int, LetterName]]] = {}
        self._letters: dict[LetterName, tuple[Letter, TopicPartition, int]] = {}

    def read(self, topics: LetterTopics, keys: SigningKeys | None, now: float) -> tuple[list[Letter], int]:
        """The letters, and the number of older records that are not in the index. `keys` are the app's; other keys
        than before make all letters be read again, because they prove others. `now` is the store's time. Raises
        SystemNotReady."""
        if keys != self._keys:
            self._keys, self._ends = keys, {}
            self._letters.clear()
            self._order.clear()
        mac = None if keys is None else keys.mac(self._app.name, now)
        bounds = topics.bounds(topics.places(self._topics))
        limit = max(LEAST, MOST // max(1, len(bounds)))
        firsts = {place: max(low, high - limit) for place, (low, high) in bounds.items()}
        for place in [*self._ends]:
            if self._ends[place] > bounds.get(place, (0, -1))[1]:  # the topic was created anew, or deleted
                self._forget(place, None)
                del self._ends[place]
        parts = {place: (max(first, self._ends.get(place, 0)), bounds[place][1]) for place, first in firsts.items()}
        for record in topics.read({place: (first, end) for place, (first, end) in parts.items() if first < end}):
            self._add(record, mac)
        for place, first in firsts.items():
            self._ends[place] = bounds[place][1]
            self._forget(place, first)
        older = sum(firsts[place] - low for place, (low, _) in bounds.items())
        return [letter for letter, _, _ in self._letters.values()], older

    def _add(self, record: Record, mac: Mac | None) -> None:
        place = record.topic(), record.partition()
        for letter in letters((record,), self._app.name, self._agents, mac):
            name = letter.id, letter.proven
            known = self._letters.get(name)  # the record is a copy, which may stay longer in its topic
            self._letters[name] = self._short(letter) if known is None else known[0], place, record.offset()
            self._order.setdefault(place, deque()).append((record.offset(), name))

    def _short(self, letter: Letter) -> Letter:
        """The letter without its content."""
        return letter._replace(
            agent=intern(letter.agent),
            topic=intern(letter.topic),
            stage=intern(letter.stage),
            reason=intern(letter.reason),
            error=intern(letter.error[:LONGEST_ERROR]),
            key=None if letter.key is None else letter.key[:LONGEST_KEY],
            value=None,
            headers=[header for header in letter.headers if header[0] in KEPT_HEADERS],
        )

    def _forget(self, place: TopicPartition, first: int | None) -> None:
        """Removes the letters below this offset of the partition (None: all)."""
        order = self._order.get(place, deque())
        while order and (first is None or order[0][0] < first):
            offset, name = order.popleft()
            known = self._letters.get(name)
            if known is not None and known[1:] == (place, offset):
                del self._letters[name]

    def whole(self, topics: LetterTopics, mac: Mac | None, wanted: Sequence[Letter]) -> list[Letter]:
        """These letters with their contents, in any order, without those that are gone from their topic. Raises
        SystemNotReady."""
        offsets: dict[TopicPartition, set[int]] = {}
        for letter in wanted:
            if (known := self._letters.get((letter.id, letter.proven))) is not None:
                offsets.setdefault(known[1], set()).add(known[2])
        made: list[Letter] = []
        for parts in _rounds({place: _spans(sorted(numbers)) for place, numbers in offsets.items()}):
            bounds = topics.bounds([*parts])
            there = {
                place: (max(first, bounds[place][0]), min(end, bounds[place][1]))
                for place, (first, end) in parts.items()
                if place in bounds
            }
            records = topics.read({place: (first, end) for place, (first, end) in there.items() if first < end})
            chosen = (record for record in records if record.offset() in offsets[record.topic(), record.partition()])
            made += letters(chosen, self._app.name, self._agents, mac)
        return made


def _spans(offsets: Sequence[int]) -> list[OffsetRange]:
    """Ranges that have all the offsets, with gaps of at most GAP records."""
    spans: list[OffsetRange] = []
    for offset in offsets:
        if spans and offset <= spans[-1][1] + GAP:
            spans[-1] = spans[-1][0], offset + 1
        else:
            spans.append((offset, offset + 1))
    return spans


def _rounds(spans: Mapping[TopicPartition, Sequence[OffsetRange]]) -> Iterator[dict[TopicPartition, OffsetRange]]:
    """One span of each partition after the other."""
    for number in range(max(map(len, spans.values()), default=0)):
        yield {place: ranges[number] for place, ranges in spans.items() if number < len(ranges)}
