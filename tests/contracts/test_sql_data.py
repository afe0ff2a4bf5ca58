"""The data in PostgreSQL and MariaDB: wiped, swapped, migrated; and what may be said of a URL."""

import sys

import pytest

from sluicegate.connectors import open_store
from sluicegate.connectors.sql import tables
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError, Fenced, PersistenceError, SystemNotReady
from tests.contracts.given import claimed, opened, rows, seen
from tests.contracts.sql import database, execute


@pytest.fixture(params=["postgres_url", "mariadb_url"])
def url(request: pytest.FixtureRequest, ns: str) -> str:
    """A database of the test's own on the run's server."""
    return database(request.getfixturevalue(request.param), ns)


def test_emptied_tables_fence_and_get_another_name(url: str, partition: Partition) -> None:
    store = opened(url)
    name = store.incarnation
    claim = store.commit(claimed(store, partition), Changes(5, entries=[b"e"], outbox=rows(1)))
    execute(url, *(f"delete from sluicegate_{table}" for table in ("meta", "claim", "changelog", "outbox", "dead")))
    with pytest.raises(Fenced):
        store.commit(claim, Changes(6, entries=[b"late"], outbox=rows(2)))
    claim = claimed(store, partition)
    assert (claim.offset, claim.last, list(store.pending(partition, 0, 9))) == (-1, 0, [])
    assert claim.incarnation == store.incarnation != name


def test_237_dropped_tables_fence_and_say_what_to_run(url: str, partition: Partition) -> None:
    store = opened(url)
    claim = claimed(store, partition)
    execute(
        url, *(f"drop table sluicegate_{table}" for table in ("meta", "claim", "changelog", "outbox", "dead", "step"))
    )
    with pytest.raises(Fenced):
        store.commit(claim, Changes(6))
    with pytest.raises(SystemNotReady, match="sluicegate migrate"):
        claimed(store, partition)


def test_a_row_keeps_the_name_of_the_data_it_was_made_in(url: str, partition: Partition) -> None:
    store = opened(url)
    name = claimed(store, partition).incarnation
    execute(url, "update sluicegate_meta set value = 'another'")
    assert (claimed(store, partition).incarnation, store.incarnation) == (name, "another")
    assert claimed(store, partition._replace(number=4)).incarnation == "another"


def test_a_migration_killed_between_two_statements_is_finished_by_the_next(
    url: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tables.texts
    with monkeypatch.context() as patched:
        patched.setattr(tables, "texts", lambda step, dialect: [*whole(step, dialect)[:2], "nonsense"])
        with pytest.raises(PersistenceError):
            open_store(url).migrate()
    steps = [name for name, *_ in tables.STEPS]
    assert open_store(url).migrate(dry_run=True) == steps
    store = open_store(url)
    assert store.migrate() == steps
    assert store.commit(claimed(store, partition), Changes(1)).offset == 1


def test_a_later_step_keeps_the_data_of_the_earlier_ones(
    url: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(url)
    store.commit(claimed(store, partition), Changes(7, entries=[b"e"]))
    extra = tables.Table("sluicegate_more", [tables.Column("x", "count")], ["x"])
    monkeypatch.setattr(tables, "STEPS", (*tables.STEPS, tables.Step("more", (extra,), {})))
    assert (store.migrate(dry_run=True), store.migrate(), store.migrate()) == (["more"], ["more"], [])
    assert (claimed(store, partition).offset, seen(store, partition).entries) == (7, [b"e"])
    monkeypatch.undo()
    with pytest.raises(SystemNotReady, match="use a newer one"):
        store.migrate()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hush@h:port/db?nonsense=1",
        "mysql://u:hush@h",
        "mariadb://u:hush@h/db?nonsense=1",
        "mysql://u:hush@h:x/db",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="URL cannot be read") as caught:
        open_store(url)
    assert "hush" not in str(caught.value)


def test_errors_say_neither_passwords_nor_payloads(url: str, partition: Partition) -> None:
    scheme, _, rest = url.partition("://")
    with pytest.raises(PersistenceError) as refused:
        open_store(f"{scheme}://nobody:hush@{rest.partition('@')[2]}-hushed").migrate()
    store = opened(url)
    claim = claimed(store, partition)
    execute(
        url,
        "drop table sluicegate_changelog",
        "create table sluicegate_changelog (partition_key integer, number integer, entry integer)",
    )
    with pytest.raises(PersistenceError) as failed:
        store.commit(claim, Changes(1, entries=[b"hush-entry"]))
    assert "hush@" not in str(refused.value)
    assert "hush-entry" not in str(failed.value) + repr(failed.value.__cause__)
    assert b"hush-entry".hex() not in str(failed.value)


@pytest.mark.parametrize(
    ("scheme", "driver", "text"),
    [
        ("postgresql", "psycopg", 'the PostgreSQL driver is not installed: pip install "sluicegate[postgresql]"'),
        ("mysql", "pymysql", 'the MySQL driver is not installed: pip install "sluicegate[mysql]"'),
        ("mariadb", "sqlalchemy", 'the MySQL driver is not installed: pip install "sluicegate[mysql]"'),
    ],
)
def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch, scheme: str, driver: str, text: str) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigurationError) as caught:
        open_store(f"{scheme}://user:hush@host/db")
    assert str(caught.value) == text
