"""Records of any bytes: each ends in a group, or as a dead letter with its bytes and without a word of them; nothing is
lost, and the state that is left goes through the changelog."""

import json
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from sluicegate.streams import formats
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.durable.changelog import ENTRY_LIMIT, Changelog
from sluicegate.streams.aggregation.events import Fire, Refused, Unhandled
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.testing.log import Log, LogProducer
from tests.fuzz.mutations import Mutator
from tests.fuzz.records import CANARY, KEYS, RULES, Hostile, agent
from tests.fuzz.seeds import TIMES, drawn, replayable

BATCH, COMMIT = 250, 2_500
SLOW = ("avro", "avro by a field", "avro with a frame", "a codec of the user's", "a reducer of the user's", "no room")
EACH, PARTS = 20_000, 6  # the others in so many parts, each a test of its own: more than a million in all
RUNS = [(name, part) for name in RULES for part in range(1 if name in SLOW else PARTS)]
PLACE = Partition("app", "fuzz", "in", 0)
REASONS = {
    "decode": {"null-value", "too-large", "missing-field", "undecodable", "wrong-type"},
    "key": {"no-key", "too-large"},
    "aggregate": {"too-large", "limit", "reducer"},
}


class Checked:
    """The groups of one partition, as an owner has them, and the books of what went in and came out."""

    def __init__(self, name: str) -> None:
        self._agent = agent(name)
        self._codec = formats.reads(self._agent)
        self.groups = Groups(Rule(self._agent, self._codec))
        self.log = Changelog(self.groups, 1)
        log = Log(partitions=2)
        self.rows = Rows(PLACE, self._agent, formats.writes(self._agent), LogProducer(log), 1_000_000)
        self.kept: list[tuple[int, bytes]] = []
        self.given = self.out = 0
        self.refused: Counter[str] = Counter()

    def take(self, batch: Sequence[Hostile], now: float) -> None:
        accept(self.groups, batch, now)
        self.given += len(batch)

    def commit(self, now: float) -> None:
        """As the owner does: events, rows, changelog; and what must be true of them."""
        events = list(self.groups.drain())
        rows = self.rows.make(events)
        entries, keep_from = self.log.entries({}, dict, now)
        assert all(len(entry) <= ENTRY_LIMIT for entry in entries)
        self.kept += zip(range(self.log.last - len(entries) + 1, self.log.last + 1), entries, strict=True)
        self.kept = [entry for entry in self.kept if keep_from is None or entry[0] >= keep_from]
        for event, row in zip(events, rows, strict=True):
            if isinstance(event, Refused):
                self._refusal(event, row)
            elif isinstance(event, Unhandled):
                assert (event.reason, row.topic) == ("overflow", "dead")
                self.out += event.fire.count
            else:
                assert isinstance(event, Fire)
                self.out += event.count
                self._result(event, row)

    def _refusal(self, event: Refused, row: OutboxRow) -> None:
        assert event.reason in REASONS[event.stage]
        assert CANARY not in event.error
        assert (row.key, row.value) == (event.record.key(), event.record.value())
        self.refused[event.reason] += 1

    def _result(self, event: Fire, row: OutboxRow) -> None:
        if row.topic == "out":
            assert row.value is not None
            assert json.loads(row.value, parse_int=str)["reason"] == event.reason

    def balanced(self) -> None:
        """Nothing is lost and nothing counted twice; what was committed gives the same groups."""
        inside = sum(state[COUNT] for state in self.groups.states.values())
        assert inside + self.out + self.refused.total() + self.groups.counts["skipped"] == self.given
        again = Groups(Rule(self._agent, self._codec))
        first = self.kept[0][0] if self.kept else self.log.last + 1
        Changelog(again, first).replay((entry for _, entry in self.kept), first, self.log.last, ReceivedShards("in"))
        assert again.states == self.groups.states
        assert again.bags == self.groups.bags


@pytest.mark.parametrize(("name", "part"), RUNS)
def test_a_record_of_any_bytes_is_taken_or_becomes_a_dead_letter_with_all_of_them(
    name: str, part: int, fuzzed: Callable[[int], None]
) -> None:
    random = drawn(f"{name}/{part}")
    mutator, bits = Mutator(random, RULES[name][0]), random.getrandbits
    one, checked = mutator.one, Checked(name)
    with replayable():
        for begin in range(0, TIMES * EACH, COMMIT):
            now = 1_700_000_000.0 + begin / 1000
            for offset in range(begin, begin + COMMIT, BATCH):
                batch = [Hostile(at, KEYS[bits(8) % len(KEYS)], one()) for at in range(offset, offset + BATCH)]
                batch[bits(7)].v, batch[bits(7)].k = None, None
                checked.take(batch, now)
            checked.groups.expire(now, 1_000)
            checked.commit(now)
        checked.balanced()
    assert checked.refused.total() > 0
    assert checked.out > 0
    fuzzed(checked.given)


def test_there_are_more_than_a_million_in_every_run() -> None:
    assert len(RUNS) * EACH > 1_000_000
    assert set(SLOW) <= set(RULES)
