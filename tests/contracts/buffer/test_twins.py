"""Each protection has a twin: the same scenario, with the protection taken out, must fail by its own verdict."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete

from sluicegate.connectors.memory import buffered
from sluicegate.connectors.memory.buffer import MemoryBuffer
from sluicegate.connectors.sql.leased import buffer_rows
from sluicegate.connectors.sql.leased.leased_tables import BUFFER_ROW
from sluicegate.streams.contracts.leased_values import PositionMove
from sluicegate.streams.errors import WatermarkMoved
from tests.contracts.buffer.given import HOUR, all_keys, entries

Patch = pytest.MonkeyPatch

BACKENDS = pytest.mark.parametrize("backend", ["memory", "sqlite"], indirect=True)


def a_row_is_leased_once(buffer: Any, name: str) -> None:
    buffer.insert(name, entries(1, 2))
    first, second = buffer.get_snapshot(name), buffer.get_snapshot(name)
    assert not set(first.ids) & set(second.ids)


def a_removed_key_stays_known(buffer: Any, name: str) -> None:
    buffer.insert(name, entries(1), keep_keys=HOUR)
    buffer.remove_all(name)
    assert buffer.insert(name, entries(1), keep_keys=HOUR).stored == 0


def a_batch_of_the_source_is_inserted_once(buffer: Any, name: str) -> None:
    for number in (1, 2):
        try:
            buffer.insert(name, entries(number), PositionMove("topic", 0, 0, 7))
        except WatermarkMoved:
            continue
    assert all_keys(buffer, name) == ["m1"]


def everything_is_free(patch: Patch) -> None:
    patch.setattr(buffered.BufferRow, "free", lambda self, now: True)
    locked = buffer_rows.locked

    def unlocked(*values: Any) -> Any:
        at = locked(*values)
        return at and replace(at, free=at.open)

    patch.setattr(buffer_rows, "locked", unlocked)


def keys_go_with_their_rows(patch: Patch) -> None:
    dropped = buffered.Buffered.drop

    def drop(self: buffered.Buffered, rows: Any, now: int) -> int:
        count = dropped(self, rows, now)
        self.removed.clear()
        return count

    patch.setattr(buffered.Buffered, "drop", drop)
    patch.setattr(
        buffer_rows,
        "drop",
        lambda at, *those: at.connection.execute(delete(BUFFER_ROW).where(*at.rows(*those))).rowcount,
    )


def no_watermark(patch: Patch) -> None:
    patch.setattr(buffer_rows, "move", lambda at, progress: None)
    insert = MemoryBuffer._insert
    patch.setattr(
        MemoryBuffer,
        "_insert",
        lambda self, name, source, progress, keep, now: insert(self, name, source, None, keep, now),
    )


TWINS = [
    (a_row_is_leased_once, everything_is_free),
    (a_removed_key_stays_known, keys_go_with_their_rows),
    (a_batch_of_the_source_is_inserted_once, no_watermark),
]


@pytest.mark.parametrize("scenario", [scenario for scenario, _ in TWINS])
def test_it_holds_with_its_protection(buffer: Any, ns: str, scenario: Callable[..., None]) -> None:
    scenario(buffer, ns)


@BACKENDS
@pytest.mark.parametrize(("scenario", "protection"), TWINS)
def test_without_its_protection_it_does_not_hold(
    buffer: Any, ns: str, scenario: Callable[..., None], protection: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    protection(monkeypatch)
    with pytest.raises(AssertionError):
        scenario(buffer, ns)
