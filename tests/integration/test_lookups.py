"""`lookup:` with `lock: share`, on a real broker and a real store: accounts are closed under load, workers are killed.

A writer closes one account after the other, and notes in its own transaction how many payments the account has. A
payment is booked only from an open account, so afterwards no account has a payment more than was noted.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from sqlalchemy import Engine, create_engine, text

from tests.bench.load import create
from tests.contracts.given import opened
from tests.integration.supervised.run import Run
from tests.mutation import twins
from tests.waiting import wait_until

ACCOUNTS, PAYMENTS = 120, 12_000
DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql", "mysql": "mysql+pymysql"}
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
agents:
  limit:
    from: NS-in
    handler: nsbank:pay
    session: true
    lookup: {account: {table: NS_accounts, column: id, key: account, fields: [open], missing: dead-letter, lock: share}}
"""
HANDLER = """\
import time

from sqlalchemy import text

INSERT = text("insert into NS_paid (id, account) values (:id, :account)")


def insert_all(rows, session):
    time.sleep(0.05)  # seconds between the look-up and the commit, in which accounts are closed if nothing holds them
    session.connection.execute(INSERT, rows)


def pay(value, lookups, together):
    if lookups["account"]["open"]:
        together(insert_all, {"id": value["id"], "account": value["account"]})
"""


class Bank:
    """The tables of one test, and the file of the app."""

    def __init__(self, url: str, kafka: str, ns: str, folder: Path) -> None:
        self.ns, self.tables = ns, ns.replace("-", "_")
        scheme, _, rest = url.partition("://")
        self.store = opened(url)
        self.engine: Engine = create_engine(f"{DRIVERS[scheme]}://{rest}")
        self.path = folder / "bank.yaml"
        spec = FILE.replace("NS_accounts", f"{self.tables}_accounts").replace("nsbank", f"bank_{self.tables}")
        self.path.write_text(spec.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url))
        (folder / f"bank_{self.tables}.py").write_text(HANDLER.replace("NS", self.tables))
        self.run("create table NS_accounts (id varchar(20) primary key, open integer)")
        self.run("create table NS_paid (id integer primary key, account varchar(20))")
        self.run("create table NS_closed (id varchar(20) primary key, payments integer)")
        for number in range(ACCOUNTS):
            self.run("insert into NS_accounts values (:id, 1)", id=f"a-{number}")

    def run(self, sql: str, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(sql.replace("NS", self.tables)), values)

    def ask(self, sql: str) -> list[Any]:
        with self.engine.begin() as connection:
            return list(connection.execute(text(sql.replace("NS", self.tables))))

    def close(self, account: str) -> None:
        """Closes the account and notes its payments, in one transaction."""
        count = "(select count(*) from NS_paid p where p.account = a.id)"
        with self.engine.begin() as connection:
            for sql in (
                "update NS_accounts set open = 0 where id = :id",
                f"insert into NS_closed select a.id, {count} from NS_accounts a where a.id = :id",
            ):
                connection.execute(text(sql.replace("NS", self.tables)), {"id": account})

    @property
    def late(self) -> list[Any]:
        """The accounts with payments after they were closed."""
        count = "(select count(*) from NS_paid p where p.account = c.id)"
        return self.ask(f"select c.id, c.payments, {count} from NS_closed c where c.payments <> {count}")

    @property
    def read(self) -> int:
        """The number of records that were committed."""
        views = [self.store.read(partition) for partition in self.store.partitions(self.ns)]
        return sum(max(0, view.claim.offset) for view in views if view is not None)

    def drop(self) -> None:
        for table in ("accounts", "paid", "closed"):
            self.run(f"drop table if exists NS_{table}")
        self.engine.dispose()
        self.store.close()


@pytest.fixture
def bank(request: pytest.FixtureRequest, kafka: str, ns: str, tmp_path: Path) -> Iterator[Bank]:
    url = request.getfixturevalue(getattr(request, "param", "postgres_url"))
    create(kafka, *(f"{ns}-{name}" for name in ("in", "dead")))
    made = Bank(url, kafka, ns, tmp_path)
    feed = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    chosen = random.Random(19)
    for number in range(PAYMENTS):
        value = {"id": number, "account": f"a-{chosen.randrange(ACCOUNTS)}"}
        feed.produce(f"{ns}-in", json.dumps(value).encode(), b"k%d" % (number % 50))
        feed.poll(0)
    assert feed.flush(30) == 0
    yield made
    made.drop()


def closed_under_load(bank: Bank, kills: int) -> list[int]:
    """Closes the accounts while payments are read and workers are killed. Returns the processes that ran."""
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(bank.path))
    killed = 0
    try:
        wait_until(lambda: bank.ask("select count(*) from NS_paid")[0][0], 60, "the first payments")
        for number in range(ACCOUNTS):
            bank.close(f"a-{number}")
            if number % (ACCOUNTS // 4) == 10 and killed < kills:
                killed += 1
                os.kill(run.pids(killed)[-1], signal.SIGKILL)
        wait_until(lambda: bank.read == PAYMENTS, 120, "the end of the input")
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
    finally:
        run.close()
        print(*run.lines[-10:], *run.noise[-10:], sep="\n")
    return [run.process.pid, *(line["pid"] for line in run.events("worker.started"))]


@pytest.mark.parametrize("bank", ["postgres_url", "mariadb_url"], indirect=True)
def test_no_account_has_a_payment_after_it_was_closed(bank: Bank) -> None:
    closed_under_load(bank, kills=3)
    assert bank.late == []
    assert len(bank.ask("select id from NS_closed")) == ACCOUNTS
    assert 0 < bank.ask("select count(*) from NS_paid")[0][0] < PAYMENTS


def test_twin_that_reads_outside_of_the_transaction_pays_from_closed_accounts(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "twin"
    for name, value in twins.environment("lookup-inside", log).items():
        monkeypatch.setenv(name, value)
    pids = closed_under_load(bank, kills=0)
    assert bank.late != []
    twins.check("lookup-inside", log, pids)
