"""Handlers with a session of SQL in tests: a SQLite file of the test's own, its tables, and a death at every place."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.sql.sqlite import Sqlite
from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.testing import stores
from sluicegate.streams.testing.deaths import Deaths, MortalStore
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import CaseVerdict, Failure, play, play_with_crashes

FILE = """\
app: shop
kafka: {bootstrap.servers: "${BROKER}"}
store: STORE
agents:
  orders:
    from: orders
    handler: sqlshop:enter
    session: true
    retry: {attempts: 1}
    to: {topic: invoices}
tests:
  it:
"""
FIRST = FILE.count("\n") + 1
MODULE = """\
def enter(value, session, send):
    session.connection.exec_driver_sql("insert into orders values (?, ?)", (value["id"], value["amount"]))
    send(value["id"])


def of_mongodb(session):
    session.database.orders.insert_one({}, session=session.client_session)


def of_redis(session):
    session.pipeline.incr(session.key("orders"))
"""
LATER = """\
def enter(value, session, schedule, send):
    if value == "again":
        send("late")
    else:
        schedule("again", after=60)
"""
TABLE = "create table orders (id text primary key, amount integer);"
STEPS = """\
- setup: orders.sql
- send: {topic: orders, key: a, value: {id: a, amount: 3}}
- expect: {topic: invoices, value: a}
- send: {topic: orders, key: b, value: {id: b, amount: 4}}
- expect: {topic: invoices, value: b}
- expect_rows: {sql: "select id, amount from orders order by id", rows: [{id: a, amount: 3}, {id: b}]}
"""


class Shop:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, steps: str = STEPS, store: str = "${STORE}", **renamed: str) -> Path:
        text = FILE.replace("STORE", store, 1) if store != "${STORE}" else FILE.replace("STORE", "${STORE}", 1)
        for old, new in renamed.items():
            text = text.replace(old, new)
        (self.folder / "shop.yaml").write_text(text + "".join(f"    {line}\n" for line in steps.splitlines()))
        return self.folder / "shop.yaml"

    def play(self, steps: str = STEPS, store: str = "${STORE}", **renamed: str) -> Failure | None:
        file = loaded(self.write(steps, store, **renamed))
        assert file.app is not None, file.problems
        return play(file.app, file.cases[0])

    def crashed(self) -> CaseVerdict:
        file = loaded(self.write())
        assert file.app is not None, file.problems
        return play_with_crashes(file.app, file.cases[0], lambda done, total: None)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for name in ("BROKER", "STORE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "sqlshop.py").write_text(MODULE)
    (tmp_path / "orders.sql").write_text(TABLE)
    yield Shop(tmp_path)
    sys.modules.pop("sqlshop", None)


@pytest.mark.parametrize(
    "store",
    ["${STORE}", "sqlite:///state.db", "postgresql://db/shop", "mysql://db/shop", "mariadb://db/shop", "memory://"],
)
def test_a_setup_gives_the_test_a_sqlite_file_whatever_the_store_is(store: str, shop: Shop) -> None:
    assert shop.play(store=store) is None
    assert not list(shop.folder.glob("*.db*"))


def test_each_test_has_a_file_of_its_own_that_is_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    assert [shop.play(), shop.play()] == [None, None]
    assert list(places.iterdir()) == []


def test_a_death_at_every_place_leaves_both_the_rows_and_the_offset_or_neither(shop: Shop) -> None:
    verdict = shop.crashed()
    assert verdict.failure is None, verdict
    assert verdict.deaths > 20
    assert verdict.lost > 10


def test_the_twin_whose_session_is_committed_apart_fails_at_a_death(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apart(self: SqlStore, claim: Any, work: Callable[[Any], Any]) -> Any:
        with self.transaction() as session:
            changes = work(session)
        return self.commit(claim, changes)

    monkeypatch.setattr(SqlStore, "commit_with", apart)
    die_between(monkeypatch)
    assert shop.play() is None
    verdict = shop.crashed()
    assert verdict.failure is not None
    assert "commit-asked" in str(verdict.place)


def die_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two transactions of the twin is a place for a death, too."""
    current: list[Deaths] = []
    plain, made = SqlStore.commit, MortalStore.__init__

    def between(self: SqlStore, claim: Any, changes: Any) -> Any:
        current[-1].reach("commit-asked")
        return plain(self, claim, changes)

    def remembering(self: MortalStore, store: Store, deaths: Deaths, clock: Any) -> None:
        current.append(deaths)
        made(self, store, deaths, clock)

    monkeypatch.setattr(MortalStore, "__init__", remembering)
    monkeypatch.setattr(SqlStore, "commit", between)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("[{id: a}]", "expected 1 row; 2 rows came: [{"),
        ("[{id: a}, {id: c}]", 'expected row 2 to be {"id":"c"}; id differs: {"id":"b","amount":4}'),
        ("[{id: a}, {price: 4}]", "price differs"),
    ],
)
def test_rows_that_are_others_are_named(rows: str, text: str, shop: Shop) -> None:
    failure = shop.play(STEPS.replace("[{id: a, amount: 3}, {id: b}]", rows))
    assert failure is not None
    assert failure.line == FIRST + 5
    assert text in failure.text


@pytest.mark.parametrize(
    ("setup", "sql", "text"),
    [
        ("nothing.sql", TABLE, "nothing.sql cannot be read"),
        ("orders.sql", "creat table", 'orders.sql: SQLite says: near "creat": syntax error'),
    ],
)
def test_a_setup_that_cannot_be_had_is_named(setup: str, sql: str, text: str, shop: Shop) -> None:
    (shop.folder / "orders.sql").write_text(sql)
    failure = shop.play(STEPS.replace("orders.sql", setup))
    assert failure is not None
    assert (failure.line, text in failure.text) == (FIRST, True), failure.text


def test_a_setup_stands_first(shop: Shop) -> None:
    file = loaded(shop.write("- advance: 1s\n- setup: orders.sql\n"))
    assert [str(problem).partition(": ")[2] for problem in file.problems] == [
        "tests.it[1].setup: comes after another step; begin the test with it"
    ]


@pytest.mark.parametrize(
    ("function", "store", "text"),
    [
        ("enter", "${STORE}", "a test of it begins with a step `setup: FILE.sql`"),
        (
            "of_mongodb",
            "mongodb://db/shop",
            "MongoDB's has; a test of it needs a real server: TestDriver(app, store=open_store(URL))",
        ),
        (
            "of_redis",
            "redis://db",
            "Redis' has; a test of it needs a real server: TestDriver(app, store=open_store(URL))",
        ),
    ],
)
def test_a_session_that_a_test_does_not_have_says_what_is_possible(
    function: str, store: str, text: str, shop: Shop
) -> None:
    file = loaded(shop.write("- send: {topic: orders, value: {id: a, amount: 3}}\n", store, enter=function))
    assert file.app is not None, file.problems
    with TestDriver(file.app) as driver:
        driver.send("orders", {"id": "a", "amount": 3})
        [letter] = driver.dead_letters()
    assert text in str(letter.headers["sluicegate-dead-error"])
    assert str(letter.headers["sluicegate-dead-where"]).startswith("sqlshop.py:")


def test_a_driver_has_a_setup_by_function_and_shows_rows(shop: Shop) -> None:
    def tables(connection: Any) -> None:
        connection.exec_driver_sql(TABLE)
        connection.exec_driver_sql("insert into orders values ('z', 9)")

    with TestDriver(shop.write(), setup=tables) as driver:
        driver.crash("commit-answered")
        driver.send("orders", {"id": "a", "amount": 3}, key="a")
        assert driver.rows("select * from orders order by id") == [{"id": "a", "amount": 3}, {"id": "z", "amount": 9}]
        with pytest.raises(ConfigurationError, match="the query failed: no such table: absent"):
            driver.rows("select * from absent")


def test_the_clock_of_the_test_is_that_of_the_sqlite_file(shop: Shop) -> None:
    (shop.folder / "sqlshop.py").write_text(LATER)
    with TestDriver(shop.write(), setup="orders.sql") as driver:
        driver.send("orders", "now", key="a")
        driver.advance("59s")
        assert driver.read("invoices") == []
        driver.advance("2s")
        assert [output.value for output in driver.read("invoices")] == ["late"]


def test_a_store_of_the_callers_and_a_setup_exclude_each_other(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="leave out setup, or store"):
        TestDriver(shop.write(), store=SqlStore(Sqlite(tmp_path / "own.db")), setup="orders.sql")


def test_rows_of_a_test_without_tables(shop: Shop) -> None:
    with TestDriver(shop.write()) as driver, pytest.raises(ConfigurationError, match="begin it with a setup"):
        driver.rows("select 1")


def test_the_twin_that_plays_in_memory_has_no_table(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "on_sqlite", lambda app, setup: False)
    assert shop.play() is not None


def test_the_fixture_of_the_guide(shop: Shop) -> None:
    """As docs/testing.md has it, in a pytest of its own."""
    guide = (Path(__file__).parents[3] / "docs" / "testing.md").read_text(encoding="utf-8")
    [code] = [block.partition("```")[0] for block in guide.split("```python\n")[1:] if "def shop(" in block]
    shop.write()
    (shop.folder / "test_shop.py").write_text("import pytest\n\n\n" + code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    result = subprocess.run(command, cwd=shop.folder, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout
