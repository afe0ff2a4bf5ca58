"""How the shared intake packs records, and what a batch's firing gets of them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from streams.engine.packing import SealedRecord
from streams.errors import PersistenceError
from streams.handlers.values import Message
from streams.leased import shared_intake, shared_records
from streams.leased.shared_fires import UNDER_WAY, SharedFires
from streams.leased.shared_firing import Made
from streams.leased.shared_intake import _parts
from streams.leased.shared_records import Origin, packed, packs, unpacked
from streams.leased.values import PACK, Entry, Gate, pack_data, pack_parts, singles


def message(offset: int, group: str, value: bytes | None = b"v") -> Message:
    return Message(group, SealedRecord(("in", 3, offset), b"k", value, [("h", b"x"), ("n", None)], (1, 5)))


def entries(made: Any) -> list[Entry]:
    return [Entry(each.first, each.first, PACK, each.data, (), each.group) for each in made]


def test_what_is_packed_comes_out_as_it_was_whole_or_one_by_one() -> None:
    made = packs([message(7, "a"), message(8, "b", None), message(9, "a", b"w")], "id", 1.5)
    assert [(each.group, each.first, each.items) for each in made] == [("a", "id/3/7", 2), ("b", "id/3/8", 1)]
    single = packed(message(11, "").record, "id", 1.5)
    for held in (entries(made), singles(made)):
        found = unpacked([*held, Entry("k", "c", "", single)])
        assert [each.origin for each in found] == [Origin("in", "id", 3, offset) for offset in (7, 9, 8, 11)]
        assert [(each.offset(), each.value(), each.taken_at) for each in found] == [
            (number, value, 1.5) for number, value in enumerate([b"v", b"w", None, b"v"])
        ]
        assert found[1].real == message(9, "a", b"w").record
    assert [each.idempotency_key for each in singles(made)] == ["id/3/7", "id/3/7+1", "id/3/8"]


def test_large_records_are_cut_into_packs_and_inserts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_records, "PACK_BYTES", 100)
    monkeypatch.setattr(shared_intake, "INSERT_BYTES", 100)
    messages = [message(offset, "a", b"v" * 60) for offset in range(7)]
    made = packs(messages, "id", 1.5)
    assert [each.items for each in made] == [2, 2, 2, 1]
    assert len({each.first for each in made}) == 4
    assert [each.origin.offset for each in unpacked(entries(made))] == list(range(7))
    assert [len(part) for part in _parts(messages, 5)] == [1] * 7
    assert [len(part) for part in _parts(messages[:1] * 0, 5)] == []
    monkeypatch.setattr(shared_intake, "INSERT_BYTES", 1000)
    assert [len(part) for part in _parts(messages, 5)] == [5, 2]


def test_what_is_cut_off_is_no_pack() -> None:
    with pytest.raises(ValueError, match="cut off"):
        pack_parts(pack_data(b"c", [b"item"])[:-1])


class Refusing:
    """A buffer that does not take the batch `bad`, nor anything together with it."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def complete_all(self, name: str, ends: Sequence[Any]) -> list[bool]:
        self.calls.append([batch.token for batch, _ in ends])
        if "bad" in self.calls[-1]:
            raise PersistenceError("too large")
        return [True] * len(ends)

    def due(self, *of: Any) -> list[Any]:
        return []


class AtOnce:
    """Calls that are over when they begin; `running` says how many others are not."""

    running = 0

    def begin(self, call: Any, then: Any, failed: Any) -> None:
        try:
            found = call()
        except PersistenceError as error:
            failed(error)
        else:
            then(found)

    def turn(self) -> int:
        return 0


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now=0.0)


def fires_of(buffer: Refusing, calls: AtOnce, clock: SimpleNamespace) -> SharedFires:
    firing = SimpleNamespace(made=lambda *of: Made([], []))
    backoff = SimpleNamespace(delay=lambda: 1.0, reset=lambda: None)
    meter = SimpleNamespace(count=lambda *of, **labels: None)
    parts: Any = ("b", Gate(2), buffer, firing, None, None, calls, calls, meter, lambda: clock.now, lambda: 0.0, backoff)
    return SharedFires(*parts)


def batches(*tokens: str) -> Any:
    return [SimpleNamespace(token=token, id=token) for token in tokens]


def test_what_is_sealed_while_the_store_is_busy_is_completed_together(clock: SimpleNamespace) -> None:
    buffer, calls = Refusing(), AtOnce()
    fires = fires_of(buffer, calls, clock)
    calls.running = UNDER_WAY
    for token in ("one", "two"):
        fires.take(batches(token))
        fires.turn(0.0)
    assert buffer.calls == []
    calls.running -= 1
    fires.take(batches("three"))
    fires.turn(0.0)
    assert buffer.calls == [["one", "two", "three"]]


def test_batches_are_completed_together_and_after_a_failure_alone(clock: SimpleNamespace) -> None:
    buffer = Refusing()
    fires = fires_of(buffer, AtOnce(), clock)
    fires.take(batches("one", "bad", "two"))
    fires.turn(0.0)
    assert (buffer.calls, fires.busy) == ([["one", "bad", "two"]], False)
    clock.now = 1.0
    fires.turn(1.0)
    assert buffer.calls[1:] == [["one"], ["bad"], ["two"]]
    clock.now = 2.0
    fires.turn(2.0)
    assert buffer.calls[4:] == [["bad"]]


def test_after_a_failure_of_many_fewer_are_tried_together_then_each_alone_and_then_more_again(clock: SimpleNamespace) -> None:
    buffer = Refusing()
    fires = fires_of(buffer, AtOnce(), clock)
    fires.take(batches("bad", *(f"b{number}" for number in range(39))))
    sizes = []
    for second in range(6):
        clock.now = float(second)
        fires.turn(clock.now)
        sizes.append([len(call) for call in buffer.calls])
        buffer.calls.clear()
    assert sizes == [[40], [10, 10], [8, 8], [1] * 8 + [14], [1], [1]]
