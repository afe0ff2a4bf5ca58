"""Change events of a table through both halves of its agent: which rows groups have, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.schemas import codec
from sluicegate.schemas.options import SchemaOptions
from sluicegate.streams.config import loading
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead.dead_records import OF_A_TABLE, stray
from sluicegate.streams.operations.groups import group_changes
from sluicegate.streams.testing.driver import TestDriver
from tests.unit.engine.test_dead_records import a_letter

HEAD = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
http: false
dead_letters: dead
agents:
  totals:
    from: {topic: orders, envelope: debezium}
    key: customer
    repartition: by-customer
    aggregate: {AGGREGATEcompute: {n: count, spent: {sum: amount}, ids: {collect: id}}}
    emit: {on: change}
    to: {topic: totals}
"""


def driver(folder: Path, aggregate: str = "", more: str = "", partitions: int = 2) -> TestDriver:
    (folder / "app.yaml").write_text(HEAD.replace("AGGREGATE", aggregate) + more)
    return TestDriver(folder / "app.yaml", partitions=partitions)


def row(id: int, customer: Any, amount: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "customer": customer, "amount": amount, **more}


def change(op: str, after: Any, before: Any = None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"lsn": 1}, "ts_ms": 1}


def put(shop: TestDriver, op: str, id: int, customer: Any, amount: Any, **more: Any) -> None:
    shop.send("orders", change(op, row(id, customer, amount, **more)), str(id))


def newest(shop: TestDriver) -> dict[str, tuple[Any, ...]]:
    return {
        message.key: (message.value["n"], message.value["spent"], message.value["ids"])
        for message in shop.sent("totals")
    }


def reasons(shop: TestDriver) -> list[str]:
    return [letter.reason for letter in shop.dead_letters()]


def test_a_sum_of_doubles_leaves_no_rounding(tmp_path: Path) -> None:
    with driver(tmp_path) as shop:
        for id, amount in enumerate((0.1, 1e17, 0.2)):
            put(shop, "c", id, "a", amount)
        shop.send("orders", change("d", None), "1")
        assert newest(shop)["a"] == (2, 0.1 + 0.2, [0, 2])
        shop.send("orders", change("d", None), "2")
        put(shop, "u", 0, "a", 7)
        assert newest(shop)["a"] == (1, 7, [0])
        assert type(newest(shop)["a"][1]) is int


def test_an_update_in_its_group_is_one_result(tmp_path: Path) -> None:
    """No result is between the row that is taken back and the one that is added, and the group does not end."""
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3)
        put(shop, "u", 1, "a", 5)
        results = [
            (message.value["spent"], message.value["revision"], message.value["final"])
            for message in shop.sent("totals")
        ]
        assert results == [(3, 1, False), (5, 2, False)]


def test_a_repeated_change_writes_nothing(tmp_path: Path) -> None:
    with driver(tmp_path) as shop:
        for op in ("c", "c", "r"):
            put(shop, op, 1, "a", 3)
        assert sum(shop.offsets("totals.repartition").values()) == 3
        assert sum(shop.offsets("totals").values()) == 1


def test_a_row_that_lacks_a_field_is_in_no_group_until_it_has_it(tmp_path: Path) -> None:
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3)
        put(shop, "c", 2, "a", None)
        put(shop, "u", 2, "a", 4)
        assert (newest(shop), reasons(shop)) == ({"a": (2, 7, [1, 2])}, ["missing-field"])
        put(shop, "u", 2, "a", "text")
        assert (newest(shop), reasons(shop)) == ({"a": (1, 3, [1])}, ["wrong-type"])
        put(shop, "u", 2, None, 4)
        shop.send("orders", change("d", None), "2")
        assert (newest(shop), reasons(shop)) == ({"a": (1, 3, [1])}, ["missing-field"])


def test_a_row_without_the_key_of_its_group_leaves_the_group_that_it_had(tmp_path: Path) -> None:
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3)
        put(shop, "u", 1, None, 3)
        assert (newest(shop), reasons(shop)) == ({"a": (0, 0, [])}, ["missing-field"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (change("t", None), "truncates the table"),
        (change("m", None), "is about no row"),
        ({"ts_ms": 1}, "it has no op"),
        ({"op": "x"}, "its op is none of"),
        ({"op": 7, "after": {}}, "its op is none of"),
        ([1], "it is not a JSON object"),
        (change("c", None), "after is not an object"),
        (change("u", [1]), "after is not an object"),
    ],
)
def test_what_changes_no_row_is_undecodable_and_changes_nothing(tmp_path: Path, value: Any, text: str) -> None:
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3)
        shop.send("orders", value, "1")
        [letter] = shop.dead_letters()
        assert letter.reason == "undecodable"
        assert text in letter.headers["sluicegate-dead-error"]
        put(shop, "u", 1, "a", 4)
        assert newest(shop) == {"a": (1, 4, [1])}


def test_a_truncate_has_no_key_and_is_undecodable(tmp_path: Path) -> None:
    """Debezium writes it without a key."""
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3)
        shop.send("orders", change("t", None))
        [letter] = shop.dead_letters()
        assert (letter.reason, newest(shop)) == ("undecodable", {"a": (1, 3, [1])})
        assert "does not tell which rows are gone" in letter.headers["sluicegate-dead-error"]


def test_a_truncate_halts_the_partition_if_the_file_says_so(tmp_path: Path) -> None:
    stops = "    on_error: {decode: stop}\n"
    with driver(tmp_path, more=stops) as shop:
        shop.send("orders", change("t", None))
        [halt] = shop.troubles()
        assert "does not tell which rows are gone" in halt
        assert shop.dead_letters() == []


def test_a_record_without_a_key_is_refused(tmp_path: Path) -> None:
    with driver(tmp_path) as shop:
        shop.send("orders", change("c", row(1, "a", 3)))
        assert reasons(shop) == ["no-key"]


def test_a_large_value_that_did_not_change_is_taken_from_the_known_row(tmp_path: Path) -> None:
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3, note="long")
        put(shop, "u", 1, "a", 4, note="__debezium_unavailable_value")
        put(shop, "u", 2, "a", 4, note="__debezium_unavailable_value")
        assert (newest(shop), reasons(shop)) == ({"a": (1, 4, [1])}, ["undecodable"])
        put(shop, "u", 1, "a", 4, note="__debezium_unavailable_value")
        assert [group.count for group in shop.groups("totals.repartition")] == [2]


def test_rows_beyond_the_bound_halt_the_partition(tmp_path: Path) -> None:
    with driver(tmp_path, "max_groups: 2, ", partitions=1) as shop:
        for id in range(2):
            put(shop, "c", id, "a", 1)
        assert newest(shop)["a"][0] == 2
        put(shop, "c", 2, "a", 1)
        assert newest(shop)["a"][0] == 2
        assert "max_groups 2 is reached" in "\n".join(shop.troubles())


@pytest.mark.parametrize("hot", [1, 3])
def test_rows_and_groups_that_are_not_in_memory_count(tmp_path: Path, hot: int) -> None:
    text = HEAD.replace("AGGREGATE", f"hot_groups: {hot}, ").replace(", ids: {collect: id}", "")
    (tmp_path / "app.yaml").write_text(text.replace("memory://", "sqlite:///s.db"))
    with TestDriver(tmp_path / "app.yaml", partitions=1) as shop:
        for id in range(12):
            put(shop, "c", id, f"c{id % 4}", id)
        shop.crash()
        for id in range(12):
            put(shop, "r", id, f"c{id % 4}", id)
        for id in range(0, 12, 2):
            put(shop, "u", id, "c1", id + 100)
        headers = {message.key: (message.value["n"], message.value["spent"]) for message in shop.sent("totals")}
        evens = sum(range(0, 12, 2))
        assert headers == {"c0": (0, 0), "c2": (0, 0), "c1": (9, 1 + 5 + 9 + evens + 600), "c3": (3, 3 + 7 + 11)}


AVRO = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Value",
                    "fields": [
                        {"name": "id", "type": "int"},
                        {"name": "customer", "type": ["null", "string"], "default": None},
                        {"name": "amount", "type": "double"},
                    ],
                },
            ],
            "default": None,
        },
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}


def test_events_in_avro(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text(json.dumps(AVRO))
    text = "    format: avro\n    schema: orders.avsc\n"
    written = codec("avro", SchemaOptions(json.dumps(AVRO)))
    with driver(tmp_path, more=text) as shop:
        for op, amount in (("c", 2.5), ("u", 3.5)):
            event = {"before": None, "after": row(1, "a", amount), "op": op}
            shop.send("orders", written.encode(event), "1")
        assert newest(shop) == {"a": (1, 3.5, [1])}
        shop.send("orders", written.encode({"before": row(1, "a", 0.0), "after": None, "op": "d"}), "1")
        assert (newest(shop), reasons(shop)) == ({"a": (0, 0, [])}, [])


def test_a_name_that_no_row_has_is_found_in_the_schema(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text(json.dumps(AVRO))
    text = HEAD.replace("AGGREGATE", "").replace("key: customer", "key: custommer")
    (tmp_path / "app.yaml").write_text(text + "    format: avro\n    schema: orders.avsc\n    where: ammount > 1\n")
    problems = "\n".join(problem.message for problem in loading.load(tmp_path / "app.yaml", {}).problems)
    assert "custommer" in problems
    assert "ammount" in problems


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("key: customer", "key: id"),
        ("emit:", "where: amount > 1\n    emit:"),
        ("spent: {sum: amount}", "spent: {sum: other}"),
        ("n: count, ", "n: count, least: {min: amount}, "),
    ],
)
def test_a_rule_that_the_rows_do_not_fit_is_refused(tmp_path: Path, old: str, new: str) -> None:
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3)
        text = HEAD.replace("AGGREGATE", "")
        assert old in text
        (tmp_path / "other.yaml").write_text(text.replace(old, new))
        for choice in (None, "flush", "drop", "finish"):
            with pytest.raises(ConfigurationError, match=r"rows of a table|does not suit"):
                shop.deploy(tmp_path / "other.yaml", choice)
        put(shop, "c", 2, "a", 4)
        assert newest(shop) == {"a": (2, 7, [1, 2])}


def test_a_rule_that_the_rows_fit_goes_on(tmp_path: Path) -> None:
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3)
        text = HEAD.replace("AGGREGATE", "").replace("n: count, ", "n: count, mean: {mean: amount}, ")
        (tmp_path / "other.yaml").write_text(text + "    having: mean > 0\n")
        shop.deploy(tmp_path / "other.yaml")
        put(shop, "u", 1, "a", 5)
        put(shop, "c", 2, "a", 6)
        assert [message.value.get("mean") for message in shop.sent("totals")][-2:] == [5.0, 5.5]


def test_no_person_ends_a_group_of_a_table(tmp_path: Path) -> None:
    with driver(tmp_path) as shop:
        put(shop, "c", 1, "a", 3)
        for agent in shop.app.agents:
            store, person = shop._store, Person("test", "", "why")
            [group] = group_changes.every("shop", agent, store, 0.0)
            with pytest.raises(ConfigurationError, match="rows of a table"):
                group_changes.fire(store, agent, group, "a", person)
            with pytest.raises(ConfigurationError, match="rows of a table"):
                group_changes.drop(store, agent, group, "a", person)
        put(shop, "c", 2, "a", 4)
        assert newest(shop) == {"a": (2, 7, [1, 2])}


@pytest.mark.parametrize(("agent", "topic"), [("totals.repartition", "orders"), ("totals", "by-customer")])
def test_a_dead_letter_of_a_row_is_not_retried(tmp_path: Path, agent: str, topic: str) -> None:
    """A newer change of the row may be known."""
    with driver(tmp_path) as shop:
        assert stray(shop.app, a_letter(topic, agent=agent)) == OF_A_TABLE
        assert stray(shop.app, a_letter(topic, agent=agent, whole=True)) is None


def test_with_every_a_change_is_told_later_and_a_group_that_comes_again_is_another_one(tmp_path: Path) -> None:
    text = HEAD.replace("AGGREGATE", "").replace("{on: change}", "{every: 10s}")
    (tmp_path / "app.yaml").write_text(text)
    with TestDriver(tmp_path / "app.yaml") as shop:
        put(shop, "c", 1, "a", 3)
        put(shop, "u", 1, "a", 4)
        assert shop.sent("totals") == []
        shop.advance(10)
        put(shop, "u", 1, "a", 5)
        shop.advance(10)
        shop.advance(60)
        shop.send("orders", change("d", None), "1")
        put(shop, "c", 1, "a", 6)
        shop.advance(10)
        names = ("n", "spent", "revision", "final", "reason")
        assert [tuple(message.value[name] for name in names) for message in shop.sent("totals")] == [
            (1, 4, 1, False, "early"),
            (1, 5, 2, False, "early"),
            (0, 0, 3, True, "empty"),
            (1, 6, 1, False, "early"),
        ]


def test_with_count_each_so_many_changes_are_told(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(HEAD.replace("AGGREGATE", "").replace("{on: change}", "{count: 2}"))
    with TestDriver(tmp_path / "app.yaml") as shop:
        for amount in (1, 2, 3, 4, 5):
            put(shop, "u", 1, "a", amount)
        assert [(message.value["count"], message.value["spent"]) for message in shop.sent("totals")] == [(1, 2), (1, 4)]


def test_a_handler_gets_each_result_and_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "table_handlers.py").write_text(
        "def told(value, key, send):\n    send({'key': key, 'n': value['n'], 'final': value['final']})\n"
    )
    with driver(tmp_path, more="    handler: table_handlers:told\n") as shop:
        put(shop, "c", 1, "a", 3)
        put(shop, "u", 1, "b", 3)
        sent = sorted(
            (message.value["key"], message.value["n"], message.value["final"]) for message in shop.sent("totals")
        )
        assert sent == [("a", 0, True), ("a", 1, False), ("b", 1, False)]


def test_rows_are_added_to_results(tmp_path: Path) -> None:
    more = "    lookup: {owner: {topic: owners, key: key, fields: [name]}}\n"
    with driver(tmp_path, more=more) as shop:
        shop.send("owners", {"name": "Ann"}, "a")
        put(shop, "c", 1, "a", 3)
        shop.send("orders", change("d", None), "1")
        assert [(message.value["n"], message.value["owner"]) for message in shop.sent("totals")] == [
            (1, {"name": "Ann"}),
            (0, {"name": "Ann"}),
        ]


def test_on_missing_ignore_counts_a_row_without_its_number(tmp_path: Path) -> None:
    text = HEAD.replace("AGGREGATE", "on_missing: ignore, ").replace("ids: {collect: id}", "ids: {collect: amount}")
    (tmp_path / "app.yaml").write_text(text.replace("n: count", "n: count, mean: {mean: amount}, low: {min: amount}"))
    with TestDriver(tmp_path / "app.yaml") as shop:
        put(shop, "c", 1, "a", None)
        put(shop, "c", 2, "a", 4)
        put(shop, "c", 3, "a", True)
        put(shop, "c", 4, "a", 1)
        put(shop, "u", 4, "a", None)
        shop.send("orders", change("d", None), "1")
        value = shop.sent("totals")[-1].value
        assert {name: value[name] for name in ("n", "spent", "mean", "low")} == {
            "n": 3,
            "spent": 4,
            "mean": 4,
            "low": 4,
        }
        assert reasons(shop) == []
