"""A row may hold any value that its store has: each is shown as JSON, and none stops the partition. Random rows of
values that drivers do not read, or that JSON does not have."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument

from sluicegate.connectors.mongodb import lookups as of_mongodb
from sluicegate.connectors.sql import postgresql, sqlite
from sluicegate.connectors.sql.database import Product
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition
from tests.contracts.test_lookups import KINDS, found, run
from tests.selection import today

ROWS = 12
DIGITS = "9" * 5_000
OF_POSTGRESQL = {
    "timestamptz": ["infinity", "294276-12-31", "4714-11-24 00:00:00+00 BC"],
    "date": ["infinity", "5874897-12-31"],
    "timetz": ["24:00:00+15:59"],
    "interval": ["178000000 years", "-1 mons", "1 mon 3 days", "infinity"],
    "numeric": ["NaN", "Infinity", f"1e{1_000}"],
    "float8": ["NaN", "-Infinity", "1e308"],
    "json": ['"\\ud800"', '{"a":1e999}', DIGITS, "[" * 2_000 + "]" * 2_000, '{"\\ud800":1}', "1e400"],
    "jsonb": [f'{{"a":1{"0" * 500}}}', "[1e400]"],
    "bytea": ["\\xff00"],
    "inet": ["::1", "1.2.3.4/24"],
    "int4range": ["[1,5)", "empty"],
    "tstzrange": ["[-infinity,infinity]"],
    "int4multirange": ["{[1,3)}"],
    "timestamptz[]": ["{infinity}"],
    "interval[]": ["{178000000 years}"],
    "json[]": ['{"1e999","\\"\\\\ud800\\""}'],
    "bit(3)": ["101"],
    "money": ["12.34"],
    '"char"': ["a"],
}
OF_MARIADB = {
    "datetime": ["0000-00-00 00:00:00", "9999-12-31 23:59:59"],
    "date": ["0000-00-00", "2026-00-00"],
    "time": ["838:59:59", "-838:59:59"],
    "year": ["0000"],
    "bit(8)": ["5"],
    "json": ['{"a":1e999}'],
    "blob": ["x"],
    "set('a','b')": ["a,b"],
    "bigint unsigned": ["18446744073709551615"],
    "inet6": ["::1"],
}
OF_SQLITE = [
    "cast(x'ff' as text)",
    "cast(x'eda080' as text)",
    "x'ff'",
    "9e999",
    "-9e999",
    "'a'||char(0)||'b'",
    "9223372036854775807",
    "null",
]
OF_MONGODB: list[Any] = [
    *(DatetimeMS(2**62), DatetimeMS(-(2**62)), {"a": [DatetimeMS(2**60)]}),
    *(Decimal128("NaN"), Decimal128("1E+6000"), Int64(2**62), float("nan"), float("inf")),
    *(ObjectId(), Regex("a"), Code("x"), Timestamp(1, 1), MinKey(), MaxKey(), DBRef("a", 1), Binary(b"\xff", 4)),
    RawBSONDocument(b"\x10\x00\x00\x00\x02a\x00\x04\x00\x00\x00\xff\xfea\x00\x00"),
]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb", "mongodb", "redis"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def literals(backend: str, random: Random) -> tuple[str, str]:
    """The type of a column, and a value of it as SQL."""
    if backend == "sqlite":
        return "", random.choice(OF_SQLITE)
    types = OF_POSTGRESQL if backend == "postgresql" else OF_MARIADB
    kind = random.choice(list(types))
    return kind, f"'{random.choice(types[kind])}'"


def written(store: Store, backend: str, name: str, random: Random) -> None:
    """A table, or the like, with one row `ann` of three random values."""
    if backend == "mongodb":
        with store.transaction() as session:
            document = {"id": "ann", **{field: random.choice(OF_MONGODB) for field in "abc"}}
            session.database[name].insert_one(document, session=session.client_session)
    elif backend == "redis":
        with store.transaction() as session:
            session.pipeline.hset(f"{name}:ann", mapping={field: random.randbytes(9) for field in "abc"})
    else:
        columns = {field: literals(backend, random) for field in "abc"}
        typed = ", ".join(f"{field} {kind} null" for field, (kind, _) in columns.items())
        run(store, f"create table {name} (id varchar(9), {typed})")
        mode = "set statement sql_mode='' for " if backend == "mariadb" else ""
        values = ", ".join(value for _, value in columns.values())
        run(store, f"{mode}insert into {name} values ('ann', {values})")


def lookup(backend: str, name: str) -> Lookup:
    source, column = (f"{name}:{{key}}", "") if backend == "redis" else (name, "id")
    return Lookup("who", KINDS[backend], source, "id", ("a", "b", "c"), column)  # type: ignore[arg-type]


def shown(store: Store, partition: Partition, backend: str, ns: str, seed: object, rows: int = ROWS) -> list[Any]:
    """The rows as a lookup has them, after a way through JSON."""
    random, made = Random(f"{seed} {backend}"), []
    for number in range(rows):
        name = f"values_{ns.replace('-', '_')}_{number}"
        written(store, backend, name, random)
        place = Partition(partition.app, f"{partition.agent}{number}", partition.topic, partition.number)
        made.append(found(store, place, lookup(backend, name), "ann")["ann"])
        if backend in ("sqlite", "postgresql", "mariadb"):
            run(store, f"drop table {name}")
    return [msgspec.json.decode(msgspec.json.encode(row)) for row in made]


@pytest.mark.parametrize("seed", ["fixed", today()])
def test_every_value_of_a_row_is_shown_as_json(
    store: Store, partition: Partition, backend: str, ns: str, seed: object
) -> None:
    assert [*map(len, shown(store, partition, backend, ns, seed))] == [3] * ROWS


TWINS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "sqlite": lambda patch: patch.setattr(sqlite.Sqlite, "reading_any_value", Product.reading_any_value),
    "postgresql": lambda patch: patch.setattr(postgresql, "_LOADERS", {}),
    "mongodb": lambda patch: patch.setattr(of_mongodb, "_reading_any_value", lambda collection: collection),
}


def test_twin_that_reads_what_python_has_stops_at_some_row(
    store: Store, partition: Partition, backend: str, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend not in TWINS:
        pytest.skip("its driver reads every value")
    TWINS[backend](monkeypatch)
    with pytest.raises(Exception, match=r".+"):
        shown(store, partition, backend, ns, "fixed", 3 * ROWS)
