"""A store whose rows are not what was written: whoever reads gets what is there or one of our errors, and never another
one."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.leased_values import PACK, Entry, Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.values import Changes, CrashMark, OutboxRow, Partition, Source
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.shared.shared_records import Common, RecordRun, encode_item, packed, packs, unpacked
from tests.fuzz.mutations import Mutator
from tests.fuzz.records import Hostile
from tests.fuzz.seeds import TIMES, drawn, replayable

CELLS, DATA = 40, 10_000
PLACE = Partition("app", "a", "in", 0)
PLAIN = {"sqlite_sequence", "sluicegate_meta", "sluicegate_migration", "sluicegate_lock"}
"""Tables of the schema itself."""


def filled(url: str) -> None:
    store = open_store(url)
    store.migrate()
    claim = store.claim(PLACE, "token", "member")
    rows = [OutboxRow(n, "token", f"id{n}", "out", 0, b"k", b"v" * 50, [("h", b"x"), ("i", None)]) for n in (1, 2, 3)]
    trying, source = CrashMark(3, ("one", "two")), Source("id", 4, "[]", 4)
    store.commit(claim, Changes(5, 1, [b"\x00entry", b"\x01more"], None, rows, trying=trying, source=source))
    now = datetime.now(UTC)
    for _ in range(3):
        store.timeouts.insert(Timeout(uuid4(), "t", now - timedelta(days=1), b"k", b"v", [("h", b"x")], "owner"))
    store.buffer.insert(
        "b", [Entry(f"m{n}", f"c{n}", "json", b"{}", [("h", b"x"), ("i", None)], "g") for n in range(3)]
    )
    messages = [OutboxMessage("t", b"k", b"v" * 20, [("h", b"x"), ("i", None)], f"m{n}") for n in range(4)]
    store.outbox.add(None, messages, require_transaction=False)
    store.close()


def reads(url: str) -> Iterator[Callable[[], Any]]:
    """Everything that a worker, a dispatcher or a command reads; each one may find the damage."""
    store = open_store(url)
    yield lambda: list(store.restore(store.claim(PLACE, "other", "member")))
    yield lambda: store.pending(PLACE, 0, 10)
    yield lambda: store.dead(PLACE, 10)
    yield lambda: store.read(PLACE)
    yield lambda: store.partitions("app")
    yield lambda: list(store.buffer.get_data("b"))
    yield lambda: store.timeouts.find()
    yield lambda: store.timeouts.get_batch(10)
    yield lambda: store.outbox.find()
    yield lambda: [store.outbox.claim(lane, "token", 10) for lane in range(store.outbox.lanes())]
    yield lambda: [store.outbox.get(f"m{n}") for n in range(4)]
    yield store.close


def cells(path: Path) -> list[tuple[str, str, int]]:
    """(table, column, rowid) of all texts and bytes that are kept."""
    with closing(sqlite3.connect(path)) as db:
        tables = [
            name for (name,) in db.execute("select name from sqlite_master where type = 'table'") if name not in PLAIN
        ]
        findings = []
        for table in tables:
            names = [column[1] for column in db.execute(f"pragma table_info({table})")]
            with suppress(sqlite3.OperationalError):  # without rowid
                for number, *values in db.execute(f"select rowid, * from {table}"):
                    findings += [
                        (table, name, number)
                        for name, value in zip(names, values, strict=True)
                        if isinstance(value, str | bytes)
                    ]
        return findings


def damaged(random: Random, old: str | bytes) -> str | bytes:
    """Other bytes or letters. (Numbers have columns that take nothing else, but in SQLite.)"""
    bad = random.choice(
        [
            Mutator(random, [old.encode() if isinstance(old, str) else old]).one(),
            b"",
            b"\xff\x00",
            b"\xdd\xff\xff\xff\xff",
        ]
    )
    return bad.decode("utf-8", "replace").replace("\x00", "?") if isinstance(old, str) else bad


@pytest.fixture
def path(tmp_path: Path) -> Path:
    filled(f"sqlite:///{tmp_path}/good.db")
    return tmp_path / "good.db"


def test_a_stored_cell_of_another_value_is_read_or_is_one_of_our_errors(
    path: Path, fuzzed: Callable[[int], None]
) -> None:
    random, copy, errors, known = drawn("stored"), path.with_name("bad.db"), 0, cells(path)
    with closing(sqlite3.connect(path)) as good, replayable():
        for _ in range(TIMES * CELLS):
            table, column, number = random.choice(known)
            copy.unlink(missing_ok=True)
            with closing(sqlite3.connect(copy)) as bad:
                good.backup(bad)
                [old] = bad.execute(f"select {column} from {table} where rowid = ?", (number,)).fetchone()
                with suppress(sqlite3.IntegrityError):
                    bad.execute(f"update {table} set {column} = ? where rowid = ?", (damaged(random, old), number))
                bad.commit()
            for read in reads(f"sqlite:///{copy}"):
                try:
                    read()
                except SluicegateError:
                    errors += 1
                except Exception as error:
                    error.add_note(f"{table}.{column}")
                    raise
    assert errors > 0
    fuzzed(TIMES * CELLS)


def test_an_entry_of_a_shared_buffer_that_is_no_record_of_ours_is_one_of_our_errors(
    fuzzed: Callable[[int], None],
) -> None:
    good = [packed(Hostile(n, b"k", b'{"n":1}', [("h", b"x"), ("i", None)]), "topic-id", 1.0) for n in (1, 70_000)]
    items = [encode_item((n, b"k", b'{"n":1}', [("h", b"x"), ("i", None)], (1, n))) for n in (1, 70_000)]
    good += [
        pack.data for pack in packs(RecordRun([1, 70_000], ["g", "g"], items, [], []), Common("in", "topic-id", 0, 1.0))
    ]
    random, errors = drawn("shared"), 0
    mutator = Mutator(random, [*good, msgspec.msgpack.encode([1, 2]), b"text of an application"])
    with replayable():
        for _ in range(TIMES * DATA):
            try:
                unpacked([Entry("k", "c", random.choice(("", PACK)), mutator.one())])
            except SluicegateError:
                errors += 1
    assert errors > DATA // 4
    fuzzed(TIMES * DATA)
