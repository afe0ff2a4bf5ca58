"""What happens to a completed group of a correlation is what becomes of any: it gets rows that are looked up, stands in
the history, and reaches a handler in the transaction of the store."""

from pathlib import Path

import pytest

from sluicegate.streams.config.checking import values
from sluicegate.streams.config.loading import Loaded
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import Failure, play, play_with_crashes
from tests.unit.config.files import lines

CLOCKS = ("{after: 2s, idle: 1s}", "{after: 2s, clock: wall}")
FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: sqlite:///state.db
dead_letters: shop.dead
agents:
  settle:
    correlate:
      legs: {order: {from: orders, key: id}, payment: {from: payments, key: order_id}}
      timeout: TIMEOUT
    MORE
    to: {topic: settled}
tests:
  case:
"""
TABLES = """\
create table customers (id text primary key, tier text);
create table settled (id text primary key, paid integer);
"""
MEET = """\
    - send: {topic: orders, key: x, value: {id: o-1, customer: c-1}}
    - send: {topic: payments, key: y, value: {order_id: o-1, amount: 3}}
"""


def written(folder: Path, more: str, steps: str, timeout: str = CLOCKS[0]) -> Loaded:
    (folder / "shop.yaml").write_text(FILE.replace("MORE", more).replace("TIMEOUT", timeout) + steps)
    (folder / "tables.sql").write_text(TABLES)
    return loaded(folder / "shop.yaml")


def failure(result: Loaded) -> Failure | None:
    assert result.app is not None, result.problems
    return play(result.app, result.cases[0])


def played(result: Loaded, crashes: bool = False) -> None:
    """`crashes`: also with a death at every place."""
    assert result.app is not None, result.problems
    values.check(result.app)
    assert failure(result) is None
    if crashes:
        verdict = play_with_crashes(result.app, result.cases[0], lambda done, total: None)
        assert (verdict.failure, verdict.place) == (None, None)
        assert verdict.deaths > 5


# -- lookups -----------------------------------------------------------------------------------------------------------

CUSTOMER = "lookup: {customer: {SOURCE, key: order.customer, fields: [tier]MISSING}}"
TABLE = "table: customers, column: id"
REFUSES, WAITS = ", missing: dead-letter", ", missing: {wait: 1m}"


def customer(source: str = TABLE, missing: str = "") -> str:
    return CUSTOMER.replace("SOURCE", source).replace("MISSING", missing)


@pytest.mark.parametrize("timeout", CLOCKS)
def test_a_result_gets_the_row_that_a_leg_names(tmp_path: Path, timeout: str) -> None:
    row = "    - row: {table: customers, key: c-1, value: {tier: gold}}\n"
    result = "    - expect: {topic: settled, key: o-1, value: {order: {id: o-1}, customer: {tier: gold}}}\n"
    played(written(tmp_path, customer(), row + MEET + result, timeout))


@pytest.mark.parametrize("timeout", CLOCKS)
def test_a_result_gets_the_newest_record_of_a_topic(tmp_path: Path, timeout: str) -> None:
    row = "    - send: {topic: customers, key: c-1, value: {tier: gold}}\n"
    result = "    - expect: {topic: settled, key: o-1, value: {order: {id: o-1}, customer: {tier: gold}}}\n"
    played(written(tmp_path, customer("topic: customers"), row + MEET + result, timeout))


@pytest.mark.parametrize("timeout", CLOCKS)
def test_without_a_row_the_group_is_a_dead_letter_and_its_key_has_ended(tmp_path: Path, timeout: str) -> None:
    steps = """\
    - expect: {topic: shop.dead, key: o-1, reason: lookup-missing}
    - send: {topic: payments, key: y, value: {order_id: o-1, amount: 3}}
    - expect: {topic: shop.dead, reason: late}
    - expect_nothing: settled
"""
    played(written(tmp_path, customer(missing=REFUSES), MEET + steps, timeout))


@pytest.mark.parametrize("timeout", CLOCKS)
def test_a_group_waits_for_its_row_and_its_key_has_ended_meanwhile(tmp_path: Path, timeout: str) -> None:
    steps = """\
    - send: {topic: payments, key: y, value: {order_id: o-1, amount: 4}}
    - advance: 1s
    - expect_nothing: settled
    - row: {table: customers, key: c-1, value: {tier: gold}}
    - advance: 3s
    - expect: {topic: settled, key: o-1, value: {customer: {tier: gold}, payment: {amount: 3}, reason: until}}
    - expect: {topic: shop.dead, reason: late}
"""
    played(written(tmp_path, customer(missing=WAITS), MEET + steps, timeout))


def test_a_lookup_may_have_the_name_of_a_field_of_a_leg_and_not_of_a_leg(tmp_path: Path) -> None:
    row = "{table: customers, column: id, key: order.customer, fields: [tier]}"
    result = written(tmp_path, f"lookup: {{payment: {row}}}", MEET)
    assert any("lookup.payment: has the name of a leg" in line for line in lines(result.problems, tmp_path))
    assert written(tmp_path, f"where: default(customer, 1) != 2\n    lookup: {{customer: {row}}}", MEET).app is not None


@pytest.mark.parametrize(
    ("key", "line"),
    [("amount", "names amount, which is not a field of the result"), ("order.", "lookup.customer.key: ")],
)
def test_a_key_that_no_result_has_is_found(tmp_path: Path, key: str, line: str) -> None:
    result = written(tmp_path, customer().replace("order.customer", key), MEET)
    assert any(line in problem for problem in lines(result.problems, tmp_path))


@pytest.mark.parametrize("timeout", CLOCKS)
def test_a_handler_gets_the_row_of_the_group(tmp_path: Path, timeout: str) -> None:
    row = "    - row: {table: customers, key: c-1, value: {tier: gold}}\n"
    more = f"handler: tests.unit.correlation.handlers:tier_of\n    {customer()}"
    played(
        written(tmp_path, more, row + MEET + "    - expect: {topic: settled, key: o-1, value: {tier: gold}}\n", timeout)
    )


# -- history -----------------------------------------------------------------------------------------------------------

LEFT_OUT = """\
    - send: {topic: orders, key: x, value: {id: o-2}}
    - advance: 7s
    - expect_nothing: settled
    - expect: {topic: ended, key: o-2, value: {count: 1, reason: timeout}}
"""


@pytest.mark.parametrize("timeout", CLOCKS)
def test_the_history_tells_of_groups_without_a_result(tmp_path: Path, timeout: str) -> None:
    result = "    - expect: {topic: settled, key: o-1}\n    - expect_nothing: ended\n"
    played(written(tmp_path, 'history: ended\n    having: reason == "until"', MEET + result + LEFT_OUT, timeout))


def test_twin_without_a_history_nothing_tells(tmp_path: Path) -> None:
    result = written(tmp_path, 'having: reason == "until"', LEFT_OUT.replace("ended", "shop.dead"))
    assert failure(result) is not None


def test_only_the_groups_have_a_history(tmp_path: Path) -> None:
    app = written(tmp_path, "history: ended", MEET).app
    assert app is not None
    assert [agent.history for agent in app.agents] == ["", "", "ended"]


def test_the_history_is_no_topic_that_the_legs_go_through(tmp_path: Path) -> None:
    for more, timeout in (("history: shop.settle.legs", "5s"), ("history: mine", "5s\n      through: mine")):
        result = written(tmp_path, more, MEET, timeout)
        complaints = lines(result.problems, tmp_path)
        assert any(
            "correlate: is " in line and "which agent settle writes its history to" in line for line in complaints
        )


# -- handlers with a session -------------------------------------------------------------------------------------------

SESSION = "handler: tests.unit.correlation.handlers:enter\n    session: true"


@pytest.mark.parametrize("timeout", CLOCKS)
def test_a_handler_writes_rows_of_its_own_with_the_end_of_the_group(tmp_path: Path, timeout: str) -> None:
    steps = """\
    - send: {topic: orders, key: x, value: {id: o-2}}
    - expect: {topic: settled, key: o-1, value: {paid: true}}
    - advance: 7s
    - expect: {topic: settled, key: o-2, value: {paid: false}}
    - expect_rows: {sql: select * from settled order by id, rows: [{id: o-1, paid: 1}, {id: o-2, paid: 0}]}
"""
    played(written(tmp_path, SESSION, "    - setup: tables.sql\n" + MEET + steps, timeout))


def test_a_group_that_the_handler_refuses_leaves_no_row(tmp_path: Path) -> None:
    more = SESSION.replace("enter", "refuse") + "\n    retry: {attempts: 1}"
    steps = """\
    - expect: {topic: shop.dead, key: o-1, reason: handler-failed}
    - expect_rows: {sql: select id from settled, rows: []}
"""
    played(written(tmp_path, more, "    - setup: tables.sql\n" + MEET + steps))


# -- all of it, with a death at every place ----------------------------------------------------------------------------

EVERYTHING = f"{SESSION}\n    history: ended\n    {customer(missing=WAITS)}"
ROW = "    - row: {table: customers, key: c-1, value: {tier: gold}}\n"
LATER = "    - expect_nothing: settled\n" + ROW + "    - advance: 3s\n"


@pytest.mark.timeout(280)
@pytest.mark.parametrize(("timeout", "steps"), [(CLOCKS[0], ROW + MEET), (CLOCKS[1], MEET + LATER)])
def test_a_death_at_any_place_loses_and_repeats_nothing(tmp_path: Path, timeout: str, steps: str) -> None:
    """By event time a second of silence has hundreds of places, with the marks of each partition of each leg: there the
    row is there at once."""
    ends = """\
    - expect: {topic: settled, key: o-1, value: {paid: true}}
    - expect: {topic: ended, key: o-1, value: {reason: until}}
    - expect_rows: {sql: select * from settled, rows: [{id: o-1, paid: 1}]}
"""
    played(written(tmp_path, EVERYTHING, "    - setup: tables.sql\n" + steps + ends, timeout), crashes=True)
