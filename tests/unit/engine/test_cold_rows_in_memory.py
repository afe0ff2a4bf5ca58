"""The rows of cold groups in the store in memory: in the order of their keys, and not slower with each row."""

import random
from collections.abc import Callable
from itertools import islice
from math import log2

import pytest

from sluicegate.connectors.memory import cold
from sluicegate.connectors.memory.cold import ColdRows, SortedKeys
from sluicegate.streams.contracts.values import ColdGroup

SLICE = 100  # rows that are read at once


class CountedKey(bytes):
    """A key that counts how often keys are compared."""

    compared = 0

    def __lt__(self, other: bytes) -> bool:
        CountedKey.compared += 1
        return bytes(self) < bytes(other)

    def __gt__(self, other: bytes) -> bool:
        CountedKey.compared += 1
        return bytes(self) > bytes(other)


def rows(many: int) -> ColdRows:
    names = [CountedKey(b"%07d" % number) for number in range(many)]
    random.Random(3).shuffle(names)
    made = ColdRows()
    made.apply([ColdGroup(name, None, b"") for name in names], ())
    return made


def closed(many: int) -> int:
    """End the groups of so many rows, the first names first, as a window that closes. Returns the comparisons."""
    made, names = rows(many), list[bytes]()
    CountedKey.compared = 0
    while groups := made.before(CountedKey(b"\xff"), SLICE):
        names += [group.key for group in groups]
        made.apply((), [group.key for group in groups])
    assert names == [b"%07d" % number for number in range(many)]
    return CountedKey.compared


def walked(many: int) -> int:
    """Read so many rows in pages. Returns the comparisons."""
    made, names = rows(many), list[bytes]()
    CountedKey.compared = 0
    after: bytes | None = None
    while groups := made.page(after, SLICE):
        after = groups[-1].key
        names += [group.key for group in groups]
    assert names == [b"%07d" % number for number in range(many)]
    return CountedKey.compared


@pytest.mark.parametrize("read", [closed, walked])
def test_rows_are_read_in_n_log_n_steps(read: Callable[[int], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "BLOCK", 64)
    for many in (1_000, 30_000):
        assert read(many) < 4 * many * log2(many)


def test_sorted_keys_are_those_of_a_sorted_set_after_any_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "BLOCK", 3)
    for seed in range(200):
        chance = random.Random(seed)
        keys, known = SortedKeys(), set[bytes]()
        for _ in range(120):
            key = b"%02d" % chance.randrange(60)
            if key in known and chance.random() < 0.7:
                known.remove(key)
                keys.remove(key)
            elif key not in known:
                known.add(key)
                keys.add(key)
            after = chance.choice([None, b"", b"%02d" % chance.randrange(61)])
            limit = chance.randrange(1, 9)
            wanted = sorted(name for name in known if after is None or name > after)
            assert list(islice(keys.after(after), limit)) == wanted[:limit]
