"""Changelog entries that are not what was written: a loud gap (ChangelogIncomplete), and never a state that ends the
worker."""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import msgspec
import pytest

from sluicegate.streams import formats
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.durable import entry as entries
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.errors import ChangelogIncomplete
from sluicegate.streams.handlers.sealed import Sealed
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.reading.receive import ReceivedShards
from tests.fuzz.mutations import Mutator
from tests.fuzz.records import KEYS, RULES, Hostile, agent
from tests.fuzz.seeds import TIMES, drawn, replayable

CASES = ("sum of a field", "values of any kind", "whole messages and values", "a reducer of the user's")
EACH, RESTORED = 10_000, 400
NOW = 1_700_000_000.0


def fresh(name: str) -> tuple[Groups, KnownIds, Sealed, Changelog]:
    about = agent(name)
    groups, seen, sealed = (
        Groups(Rule(about, formats.reads(about))),
        KnownIds("key:", 3600.0, 1000),
        Sealed(place=("in", 0)),
    )
    return groups, seen, sealed, Changelog(groups, 1, seen, sealed)


def log_of(name: str) -> list[bytes]:
    """A log with everything in it: groups, bags, senders, ids, sealed messages, amendments."""
    groups, seen, sealed, log = fresh(name)
    senders, blobs, good = ReceivedShards("in"), [], RULES[name][0]
    for at in range(12):
        accept(groups, [Hostile(at * 4 + i, KEYS[i], good[(at + i) % len(good)]) for i in range(4)], NOW + at)
        groups.events.clear()
        senders.note(f"app/a/t/{at % 3}>in#x", at, NOW)
        seen.note([b"%d" % at], NOW + at)
        sealed.seal(Message(None, Hostile(at, b"k%d" % (at % 2), good[0], [("h", b"v")])))
        blobs += log.entries(senders.changes(), dict, NOW + at)[0]
    extra = entries.ChangelogEntry(log.last + 1, NOW, {}, {}, {}, {}, {"app/a/t/0>in#x": [NOW, [1, 2]]})
    extra.amended = [entries.Amendment(NOW, "me@here", "drop", "k", "why")]
    return [*blobs, entries.packed(extra, False)]


def restored(name: str, blobs: list[bytes]) -> tuple[Groups, Sealed]:
    """As an owner does it."""
    groups, _, sealed, log = fresh(name)
    log.replay(blobs, 1, len(blobs), ReceivedShards("in"))
    for key, reason in groups.judge():
        groups.fire(key, reason, NOW)
    sealed.settle(True)
    return groups, sealed


def unpacked(blobs: list[bytes]) -> None:
    """Each of them, and no more."""
    for blob in blobs:
        entries.unpacked(blob)


def bodies(blobs: list[bytes]) -> Iterator[bytes]:
    """The fields of each, as msgpack: what a checksum does not protect is shaped by this."""
    for blob in blobs:
        yield msgspec.msgpack.encode(entries.unpacked(blob))


def reshaped(random: Random, value: object) -> object:
    """The same value with something else in one place."""
    others = [None, -1, 2**63 - 1, "x", b"x", [], {}, 1.5, float("nan"), float("inf"), True, [[]], {"a": 1}, "9" * 30]
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(list(value))
        return {**value, key: reshaped(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.9:
        at = random.randrange(len(value))
        return [*value[:at], reshaped(random, value[at]), *value[at + 1 :]]
    return random.choice(others)


@pytest.mark.parametrize("name", CASES)
def test_an_entry_of_other_bytes_is_a_loud_gap(name: str, fuzzed: Callable[[int], None]) -> None:
    random, blobs = drawn(f"entries/{name}"), log_of(name)
    mutator = Mutator(random, blobs)
    restored(name, blobs)
    with replayable():
        for turn in range(TIMES * EACH):
            at = random.randrange(len(blobs))
            bad = mutator.changed(blobs[at])
            if bad in (blobs[at], blobs[at][5:]):  # the latter is one without a checksum, as older ones are
                continue
            read = partial(restored, name) if bad in blobs or turn < RESTORED else unpacked
            with pytest.raises(ChangelogIncomplete):
                read([*blobs[:at], bad, *blobs[at + 1 :]])
    fuzzed(TIMES * EACH)


def test_without_its_checksum_such_an_entry_would_often_be_read() -> None:
    random, name = drawn("unchecked"), CASES[0]
    blobs = log_of(name)
    mutator, read = Mutator(random, [blob[5:] for blob in blobs]), 0
    for _ in range(1000):
        bad = mutator.changed(blobs[0][5:])
        try:
            read += entries.unpacked(bad) != entries.unpacked(blobs[0])
        except ChangelogIncomplete:
            continue
    assert read > 100


@pytest.mark.parametrize("name", CASES)
def test_an_entry_of_another_shape_is_a_loud_gap_or_is_taken(name: str, fuzzed: Callable[[int], None]) -> None:
    """Written as ours are, by a version or a hand that meant something else."""
    random, blobs = drawn(f"shapes/{name}"), log_of(name)
    trees = [msgspec.msgpack.decode(body) for body in bodies(blobs)]
    gaps = 0
    with replayable():
        for _ in range(TIMES * RESTORED):
            at = random.randrange(len(blobs))
            body = msgspec.msgpack.encode(reshaped(random, trees[at]))
            try:
                restored(name, [*blobs[:at], entries.framed(entries.PLAIN + body), *blobs[at + 1 :]])
            except ChangelogIncomplete:
                gaps += 1
    assert gaps > 0
    fuzzed(TIMES * RESTORED)
