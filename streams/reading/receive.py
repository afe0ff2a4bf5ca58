"""Drops repeats of other Sluicegate senders. A row is dropped only if its number was certainly seen (docs/protocol.md,
Receive).

The state of one input partition has, for each sender's shard, at least the last WINDOW numbers, in the order of
arrival. Rows of a shard arrive in the order of their numbers, except for repeats, so these are the highest numbers. A
number that is far too high, from another program, displaces none of them. The state is part of the partition's
changelog, so it is restored and rewound together with the state that it protects.

The numbers of a record without proof are counted under a separate name. So its exact repeats are dropped, and it can
never make a genuine record look like a repeat.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from sluicegate.streams.contracts.headers import NUMBER, SHARD, STATE
from sluicegate.streams.contracts.mac import PLACES, Mac, MacHeaders, read
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.topic_names import plain

WINDOW = 10_000
FORGET_AFTER = 7 * 24 * 3600.0  # seconds; a lineage that is silent for longer is forgotten
MOST_SENDERS = 50_000  # shards of one input partition, about 530 bytes each
MOST_UNPROVEN = 5_000  # shards without proof: any writer of the topic can use any name
UNPROVEN = "?"  # the prefix for shards whose records have no proof
TRUSTING = HeaderProof()
AT_SHARD, AT_NUMBER = PLACES[SHARD], PLACES[NUMBER]
MOST_NAMES = 1_000  # the number of cached shard names
LONGEST_NAME = 2_048  # bytes; the names of two topics, of an app and of an agent fit

Whole = list[Any]  # [last seen at, numbers in the order of their arrival]


class SenderShard:
    """The numbers seen from one sender's shard, in the order of their arrival."""

    __slots__ = ("at", "highest", "numbers")

    def __init__(self) -> None:
        self.at, self.highest, self.numbers = 0.0, 0, dict[int, None]()

    def note(self, number: int, at: float) -> None:
        self.numbers[number] = None
        self.at = at
        if number > self.highest:
            self.highest = number
        if len(self.numbers) > 2 * WINDOW:
            self.numbers = dict.fromkeys(islice(self.numbers, len(self.numbers) - WINDOW, None))


class ReceivedShards:
    """The numbers received from each sender's shard. `dropped` counts repeats. `late` counts numbers below the window;
    they are accepted, because they may be new. `forgotten` counts shards that were removed to make room: the shards
    that were silent for longest. Their repeats are accepted from then on."""

    __slots__ = ("_names", "dropped", "forgotten", "fresh", "late", "shards", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = plain(topic)
        self.shards: dict[str, SenderShard] = {}
        self.fresh: dict[str, list[int]] = {}
        self._names: dict[bytes, str] = {}
        self.dropped = self.late = self.forgotten = 0

    def note(self, shard: str, number: int, now: float) -> bool:
        """Note a number of a shard. Returns True if it is a repeat."""
        known = self.shards.get(shard) or self._known(shard)
        if number in known.numbers:
            return True
        if number <= known.highest - WINDOW:
            self.late += 1
        known.note(number, now)
        if (fresh := self.fresh.get(shard)) is None:
            fresh = self.fresh[shard] = []
        fresh.append(number)
        return False

    def _known(self, shard: str) -> SenderShard:
        known = self.shards.get(shard)
        if known is None:
            self._make_room(shard.startswith(UNPROVEN))
            known = self.shards[shard] = SenderShard()
        return known

    def _make_room(self, unproven: bool) -> None:
        """If there are too many shards, remove the tenth that was silent for longest. Shards without proof displace
        only each other."""
        most = MOST_UNPROVEN if unproven else MOST_SENDERS
        if len(self.shards) < most:
            return
        names = [name for name in self.shards if name.startswith(UNPROVEN) == unproven]
        if len(names) < most:
            return
        silent = sorted(names, key=lambda name: self.shards[name].at)[: most // 10]
        for name in silent:
            del self.shards[name]
            self.fresh.pop(name, None)
        self.forgotten += len(silent)

    def drop_repeats(self, records: Sequence[Record], now: float, proof: HeaderProof = TRUSTING) -> list[Record]:
        """Return the new records. Records without proof lose the headers that steer, and time marks without proof are
        dropped. The headers of each record are read, so this is called only for topics named in `receive`."""
        kept: list[Record] = []
        keys: Mac | None = None
        for record in records:
            if keys is None:  # offsets ascend: behind a record that needs a MAC, each one does
                keys = proof.keys(record)
            values = read(headers(record))
            sender = self._sender(record, values)
            if keys is not None and not keys.proves(record, values):
                kept += self._unproven(record, sender, now, proof)
            elif sender is None or not self.note(*sender, now):
                kept.append(record)
            else:
                self.dropped += 1
        return kept

    def _unproven(
        self, record: Record, sender: tuple[str, int] | None, now: float, proof: HeaderProof
    ) -> Sequence[Record]:
        """Treat the record as a record of any producer. Returns no record for a repeat and for a time mark."""
        if not (pairs := headers(record)):
            return (record,)
        shard, number = sender or ("", 0)
        believed = proof.refuse(record, shard)
        if record.value() is None and any(name == STATE for name, _ in pairs):
            return ()
        known = self.shards.get(shard)
        repeat = known is not None and number in known.numbers
        if sender is None or not (repeat or self.note(UNPROVEN + shard, number, now)):
            return (believed,)
        self.dropped += 1
        return ()

    def receipts(self) -> tuple[int, int, int]:
        """The numbers of dropped repeats, accepted late records and forgotten shards since the last call."""
        counts = self.dropped, self.late, self.forgotten
        self.dropped = self.late = self.forgotten = 0
        return counts

    def _sender(self, record: Record, values: MacHeaders) -> tuple[str, int] | None:
        """The shard and number of the record. None if they are missing, malformed, or belong to another topic."""
        shard, number = values[AT_SHARD] or b"", values[AT_NUMBER] or b""
        if not number.isdigit() or len(number) > 18 or record.error() is not None:
            return None
        if (name := self._names.get(shard)) is None:
            name = self._named(shard)
        return (name, int(number)) if name else None

    def _named(self, shard: bytes) -> str:
        """Decode the name of a shard that sends to this topic; empty for any other name. Cached if it is short."""
        if len(shard) > LONGEST_NAME:
            return ""
        text = shard.decode("ascii", "replace")
        _, arrow, target = text.rpartition(">")
        if not arrow or target.rpartition("#")[0] != self.topic or not text.isascii():
            text = ""
        if len(self._names) >= MOST_NAMES:
            self._names.clear()
        self._names[shard] = text
        return text

    def changes(self) -> dict[str, list[int]]:
        """The numbers seen since the last call."""
        fresh, self.fresh = self.fresh, {}
        return fresh

    def whole(self, now: float) -> dict[str, Whole]:
        """All remembered numbers. Forgets lineages that were silent for FORGET_AFTER."""
        self.shards = {name: shard for name, shard in self.shards.items() if now - shard.at < FORGET_AFTER}
        return {name: [shard.at, list(shard.numbers)] for name, shard in self.shards.items() if shard.numbers}

    def replay(self, fresh: dict[str, list[int]], whole: dict[str, Whole], at: float) -> None:
        """Apply one changelog entry."""
        for name, (seen_at, numbers) in whole.items():
            self.shards[name] = shard = SenderShard()
            for number in numbers:
                shard.note(number, seen_at)
        for name, numbers in fresh.items():
            shard = self._known(name)
            for number in numbers:
                shard.note(number, at)
