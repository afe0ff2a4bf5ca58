"""Rows of `lookup:` on every store: read in the transaction of the commit, and never under a lost claim."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from sluicegate.connectors.sessions import MemorySession
from sluicegate.connectors.sql.database import Database
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import Fenced, LookupFailed, PersistenceError
from tests.contracts.given import claimed, opened

SQL = ("sqlite", "postgresql", "mariadb")
KINDS = {**dict.fromkeys((*SQL, "memory"), "table"), "mongodb": "collection", "redis": "hash"}
TEXT, NUMBER = {"postgresql": "text", "mariadb": "varchar(100)"}, {"postgresql": "integer", "mariadb": "int"}
WIDE = "0" * 7 + "1"  # a number with zeros in front of it is another text


@pytest.fixture(params=[*SQL, "mongodb", "redis", "memory"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def people(ns: str) -> str:
    """The table's name."""
    return f"people_{ns.replace('-', '_')}"


@pytest.fixture
def lookup(store: Store, backend: str, people: str) -> Iterator[Lookup]:
    """Rows with the keys `ann` and `bob`, and names of text."""
    source = people + ":{key}" if backend == "redis" else people
    column = "" if backend == "redis" else "id"
    made = Lookup("who", KINDS[backend], source, "id", ("name", "tier"), column)  # type: ignore[arg-type]
    if backend in SQL:
        text = TEXT.get(backend, "text")
        run(store, f"create table {people} (id {text} primary key, name {text}, tier integer)")
    put(store, made, "ann", name="Ann", tier=1)
    put(store, made, "bob", name="Bob", tier=2)
    yield made
    if backend in SQL:
        with suppress(PersistenceError):
            run(store, f"drop table if exists {people}")


def run(store: Store, sql: str) -> None:
    """Outside of any transaction."""
    database: Database = store._database  # type: ignore[attr-defined]
    database.run(lambda db: db.run(sql))


def put(store: Store, lookup: Lookup, key: Any, **fields: Any) -> None:
    """Add a row, or replace it."""
    with store.transaction() as session:
        if lookup.kind == "collection":
            asked = {lookup.column: key}
            rows = session.database[lookup.source]
            rows.replace_one(asked, asked | fields, upsert=True, session=session.client_session)
        elif lookup.kind == "hash":
            session.pipeline.hset(lookup.source.replace("{key}", str(key)), mapping=fields)
        elif isinstance(session, MemorySession):
            session.values[lookup.source] = {**session.values.get(lookup.source, {}), key: fields}
        else:
            row = {lookup.column: key, **fields}
            mark = "?" if session.connection.dialect.name == "sqlite" else "%s"
            marks = ", ".join([mark] * len(row))
            session.connection.exec_driver_sql(f"delete from {lookup.source} where {lookup.column} = {mark}", (key,))
            names = ", ".join(row)
            session.connection.exec_driver_sql(
                f"insert into {lookup.source} ({names}) values ({marks})", tuple(row.values())
            )


def found(store: Store, partition: Partition, lookup: Lookup, *keys: Any) -> Any:
    """What a commit finds."""
    got: list[Any] = []

    def work(session: Any) -> Changes:
        got.append(store.look_up(session, lookup, keys))
        return Changes(5)

    store.commit_with(claimed(store, partition), work)
    return got[-1]


def number(backend: str, value: int) -> Any:
    """As the store shows it: all values of a Redis hash are text."""
    return str(value) if backend == "redis" else value


def test_the_rows_of_the_keys(store: Store, partition: Partition, lookup: Lookup, backend: str) -> None:
    ann = {"name": "Ann", "tier": number(backend, 1)}
    assert found(store, partition, lookup, "ann", "eve") == {"ann": ann}
    assert [*ann] == [*found(store, partition, lookup, "ann")["ann"]]


def test_more_keys_than_one_query_takes(store: Store, partition: Partition, lookup: Lookup) -> None:
    keys = [f"nobody-{n}" for n in range(2_500)]
    assert [*found(store, partition, lookup, *keys[:1_300], "bob", *keys[1_300:], "ann")] == ["bob", "ann"]


STRANGE = ("'; drop table x; --", "", "%s", "?", '"', "a\0b", "\ud83d", 10**30, -1, WIDE, "ANN", "ann ", "ünï")


@pytest.mark.parametrize("key", STRANGE, ids=ascii)
def test_a_key_that_no_row_has_is_missing(store: Store, partition: Partition, lookup: Lookup, key: Any) -> None:
    if key != "\ud83d":  # JSON cannot bring it
        assert [*found(store, partition, lookup, key, "ann")] == ["ann"]


def test_text_and_numbers_are_one_key_in_a_column_of_numbers(
    store: Store, partition: Partition, backend: str, people: str
) -> None:
    if backend not in SQL:
        pytest.skip("columns have types in SQL")
    run(
        store,
        f"create table {people} (id {NUMBER.get(backend, 'integer')} primary key, name {TEXT.get(backend, 'text')})",
    )
    numbered = Lookup("who", "table", people, "id", ("name",), "id")
    put(store, numbered, 42, name="Ann")
    assert found(store, partition, numbered, 42) == {42: {"name": "Ann"}}
    assert found(store, partition, numbered, "42") == {"42": {"name": "Ann"}}
    assert found(store, partition, numbered, "042", "42a", "x", "", 10**30, str(10**30), 43) == {}


def test_text_and_numbers_are_one_key_in_a_column_of_text(store: Store, partition: Partition, lookup: Lookup) -> None:
    put(store, lookup, "42", name="Eve", tier=3)
    if lookup.kind != "collection":  # MongoDB compares the type as well
        assert found(store, partition, lookup, 42)[42]["name"] == "Eve"


def test_values_are_those_of_json(store: Store, partition: Partition, backend: str, people: str) -> None:
    types = {
        "postgresql": ("uuid", "numeric(9, 2)", "timestamptz", "bytea", "boolean", "jsonb", "double precision"),
        "mariadb": ("varchar(36)", "decimal(9, 2)", "datetime(3)", "blob", "boolean", "text", "double"),
        "sqlite": ("text", "text", "text", "blob", "integer", "text", "real"),
    }
    if backend not in types:
        pytest.skip("columns have types in SQL")
    names = ("money", "at", "raw", "yes", "doc", "x")
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, types[backend][1:], strict=True))
    run(store, f"create table {people} (id {types[backend][0]} primary key, {columns})")
    key = str(UUID(int=7))
    time = "2026-01-02 03:04:05.500" + ("+00" if backend == "postgresql" else "")
    put(
        store,
        Lookup("who", "table", people, "id", names, "id"),
        key,
        money="1.50",
        at=time,
        raw=b"\xff",
        yes=True,
        x=1.5,
    )
    [row] = found(store, partition, Lookup("who", "table", people, "id", names, "id"), key, "no uuid").values()
    shown = {"postgresql": "2026-01-02T03:04:05.500000Z", "mariadb": "2026-01-02T03:04:05.500000"}
    assert row == {"money": "1.50", "at": shown.get(backend, time), "raw": "/w==", "yes": True, "doc": None, "x": 1.5}


# -- in the transaction ------------------------------------------------------------------------------------------------


def test_under_a_lost_claim_nothing_is_read(store: Store, partition: Partition, lookup: Lookup) -> None:
    late = claimed(store, partition)
    claimed(store, partition)
    looked: list[Any] = []

    def work(session: Any) -> Changes:
        looked.append(store.look_up(session, lookup, ["ann"]))
        return Changes(5)

    with pytest.raises(Fenced):
        store.commit_with(late, work)
    assert looked == []


def test_it_sees_what_the_same_transaction_wrote(
    store: Store, partition: Partition, lookup: Lookup, backend: str
) -> None:
    if backend in ("redis", "memory"):
        pytest.skip("what a session of this store writes is applied at the commit")
    seen: list[Any] = []

    def work(session: Any) -> Changes:
        if lookup.kind == "collection":
            asked = {"id": "ann"}, {"$set": {"tier": 9}}
            session.database[lookup.source].update_one(*asked, session=session.client_session)
        else:
            session.connection.exec_driver_sql(f"update {lookup.source} set tier = 9 where id = 'ann'")
        seen.append(store.look_up(session, lookup, ["ann"]))
        return Changes(5)

    store.commit_with(claimed(store, partition), work)
    assert seen[-1]["ann"]["tier"] == 9


def test_a_row_that_was_found_cannot_change_before_the_commit_under_a_lock(
    store: Store, store_url: str, partition: Partition, lookup: Lookup, backend: str
) -> None:
    if backend not in SQL:
        pytest.skip("a lock is for tables")
    locked, order, other = replace(lookup, lock=True), [], opened(store_url)

    def change() -> None:
        run(other, f"update {lookup.source} set tier = 9 where id = 'ann'")
        order.append("changed")

    writer = threading.Thread(target=change)

    def work(session: Any) -> Changes:
        row = store.look_up(session, locked, ["ann", "bob"])["ann"]
        writer.start()
        writer.join(0.5)
        order.append(row["tier"])
        return Changes(5)

    store.commit_with(claimed(store, partition), work)
    writer.join(10)
    assert order == [1, "changed"]
    assert found(store, Partition(partition.app, "b", "t", 0), lookup, "ann")["ann"]["tier"] == 9


def test_on_redis_a_row_that_changes_before_the_commit_undoes_it(
    store: Store, store_url: str, partition: Partition, lookup: Lookup, backend: str
) -> None:
    if backend != "redis":
        pytest.skip("only Redis has no locks")
    other, claim = opened(store_url), claimed(store, partition)

    def work(session: Any) -> Changes:
        store.look_up(session, lookup, ["ann"])
        put(other, lookup, "ann", name="Ann", tier=9)
        return Changes(5)

    with pytest.raises(Fenced):
        store.commit_with(claim, work)
    view = store.read(partition)
    assert view is not None
    assert view.claim.offset == -1


# -- what a lookup cannot read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"source": "no_such_table"}, {"fields": ("nome",)}, {"column": "nome"}])
def test_a_table_or_a_column_that_is_not_there(
    store: Store, partition: Partition, lookup: Lookup, backend: str, wrong: Any
) -> None:
    if backend not in SQL:
        pytest.skip("MongoDB and Redis have no schema")
    with pytest.raises(LookupFailed, match=r"lookup-failed: who \(table \w+\): "):
        found(store, partition, replace(lookup, **wrong), "ann")
    assert "ann" in found(store, partition, lookup, "ann")  # the connection can be used again


def test_two_rows_with_one_key(store: Store, partition: Partition, lookup: Lookup, backend: str) -> None:
    if backend not in (*SQL, "mongodb"):
        pytest.skip("a key has one row")
    by_name = replace(lookup, column="name", fields=("tier",))
    put(store, lookup, "anna", name="Ann", tier=3)
    with pytest.raises(LookupFailed, match="two rows have the same name"):
        found(store, partition, by_name, "Ann")


def test_a_column_whose_type_is_no_key(store: Store, partition: Partition, backend: str, people: str) -> None:
    if backend != "postgresql":
        pytest.skip("only PostgreSQL refuses to compare them")
    run(store, f"create table {people} (id timestamptz primary key, name text)")
    with pytest.raises(LookupFailed, match="id is of a type that is no key"):
        found(store, partition, Lookup("who", "table", people, "id", ("name",), "id"), "ann")


def test_a_value_that_is_no_hash_is_no_row(store: Store, lookup: Lookup, backend: str) -> None:
    """The record chooses the key, so it may name any key of the prefix."""
    if backend != "redis":
        pytest.skip("only Redis has other kinds of values")
    with store.transaction() as session:
        session.pipeline.set(lookup.source.replace("{key}", "list"), "x")
        session.pipeline.rpush(lookup.source.replace("{key}", "queue"), "x")
    with store.transaction() as session:
        assert store.look_up(session, lookup, ["list", "ann", "queue"]).keys() == {"ann"}


def test_without_keys_the_table_is_asked_all_the_same(
    store: Store, partition: Partition, lookup: Lookup, backend: str
) -> None:
    """For `check --connect`."""
    assert found(store, partition, lookup) == {}
    if backend in SQL:
        with pytest.raises(LookupFailed):
            found(store, partition, replace(lookup, fields=("nome",)))


@pytest.mark.parametrize("charset", ["latin1", "ascii", "utf8mb3"])
def test_a_key_that_the_character_set_of_the_column_lacks_has_no_row(
    store: Store, backend: str, lookup: Lookup, people: str, charset: str
) -> None:
    if backend == "mariadb":
        run(store, f"alter table {people} modify id varchar(50) character set {charset}")
    keys = ["ann", "Ł\U0001f600dź", *(f"\U0001f600{n}" for n in range(5)), "bob"]
    with store.transaction() as session:
        assert store.look_up(session, lookup, keys).keys() == {"ann", "bob"}
        assert store.look_up(session, lookup, keys[1:2]) == {}


TIMES = {
    "timestamptz": ["infinity", "-infinity", "20000-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC"],
    "timestamp": ["infinity", "20000-01-01 00:00:00"],
    "date": ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC"],
    "time": ["24:00:00"],
    "timetz": ["24:00:00+00"],
}


@pytest.mark.parametrize("kind", TIMES)
def test_a_time_that_python_does_not_have_is_the_text_of_the_server(
    store: Store, backend: str, lookup: Lookup, people: str, kind: str
) -> None:
    if backend != "postgresql":
        pytest.skip("only PostgreSQL has such times")
    run(store, f"alter table {people} add column until {kind}")
    lookup = replace(lookup, fields=("name", "until"))
    for number, text in enumerate(TIMES[kind]):
        put(store, lookup, f"t{number}", name=text, until=text)
    with store.transaction() as session:
        rows = store.look_up(session, lookup, [f"t{number}" for number in range(len(TIMES[kind]))])
    assert [row["until"] for row in rows.values()] == TIMES[kind]
