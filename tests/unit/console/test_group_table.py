"""The list of open groups of the console: in columns, bounded, and read without holding up other questions."""

import random
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams.agent import App
from sluicegate.streams.console import snapshot
from sluicegate.streams.console.group_table import ORDERS, GroupFilter, GroupTable
from sluicegate.streams.console.snapshot import taken
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.operations.groups.contents import contents_of, place_of
from sluicegate.streams.operations.groups.open_groups import OpenGroup, waits_for
from sluicegate.streams.windows.standing import OpenWindow
from tests.unit.console.desk import a_console, a_driver
from tests.unit.engine.scene import an_agent, feed
from tests.unit.engine.test_cold_groups import KEYS, Scene

AGENT = an_agent()
KEY_PARTS = (b"a", b"B", b"key", b"\xff", "É".encode(), "ß".encode(), b"\n", b"0", b"")


def a_group(rng: random.Random, number: int) -> OpenGroup:
    key = b"".join(rng.choices(KEY_PARTS, k=rng.randrange(5)))
    start = rng.choice((None, 60_000 * number))
    window = None if start is None else OpenWindow(key, start, start + 1, start, -1, 0.0, 0.0)
    partition = Partition("app", "sums", "in", number % 3)
    due = rng.choice((None, rng.uniform(-50, 50)))
    size = rng.randrange(9)
    return OpenGroup(
        partition, "m", key, rng.randrange(4), number, number, size, rng.uniform(0, 99), due, {}, window=window
    )


def naive(groups: Sequence[OpenGroup], wanted: GroupFilter, age: float) -> list[OpenGroup]:
    orders: dict[str, Any] = {
        "age": lambda group: group.age,
        "key": lambda group: group.key,
        "count": lambda group: group.records,
        "bytes": lambda group: group.bytes,
        "due": lambda group: (group.fires_in is None, group.fires_in or 0.0),
    }
    chosen = [
        group
        for group in groups
        if wanted.search in group.key.decode(errors="replace").casefold()
        and wanted.place in ("", place_of(group.partition))
        and wanted.waits in ("", waits_for(group, AGENT))
        and (not wanted.late or (group.fires_in is not None and group.fires_in < age))
        and group.age + age >= wanted.older
    ]
    return sorted(chosen, key=orders[wanted.order], reverse=wanted.descending)


@pytest.mark.parametrize("seed", range(20))
def test_a_selection_is_that_of_a_list_of_groups(seed: int) -> None:
    rng = random.Random(seed)
    groups = [a_group(rng, number) for number in range(rng.randrange(60))]
    table = GroupTable(AGENT)
    table.add(groups[:30])
    table.add(groups[30:])
    assert len(table) == len(groups)
    for _ in range(60):
        wanted = GroupFilter(
            rng.choice(("", "", "a", "ak", "é", "ss", "\n", "key0", "�", "bb")),
            rng.choice(("", "in/1", "in/7")),
            rng.choice(("", "timeout", "window", "count", "rereading")),
            rng.random() < 0.2,
            rng.choice((0, 0, 40)),
            rng.choice(ORDERS),
            rng.random() < 0.5,
        )
        age = rng.uniform(0, 60)
        rows = table.selected(wanted, age)
        expected = naive(groups, wanted, age)
        assert [table.group(row) for row in rows] == [group._replace(window=None) for group in expected]
        assert [table.window(row) for row in rows] == [group.window and group.window.start for group in expected]
        assert [table.waits_of(row) for row in rows] == [waits_for(group, AGENT) for group in expected]


def test_a_text_that_lies_across_two_keys_is_found_in_neither() -> None:
    table = GroupTable(AGENT)
    rng = random.Random(1)
    table.add(a_group(rng, number)._replace(key=key) for number, key in enumerate((b"ab", b"cd", b"", b"ABCD")))
    assert [table.group(row).key for row in table.selected(GroupFilter(search="bc"), 0.0)] == [b"ABCD"]


def test_cold_groups_are_listed_with_the_hot_ones() -> None:
    scene = Scene()
    assert (len(scene.cold), len(scene.owner.groups.newest.states)) == (16, 4)
    app = App("app", "memory://", (scene.agent,))
    table = taken(app, lambda: nullcontext(scene.store), {}).groups["sums"]
    rows = table.selected(GroupFilter(order="key", descending=False), 0.0)
    assert [table.group(row).key.decode() for row in rows] == KEYS


def test_more_groups_than_the_list_takes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, log = a_driver(tmp_path)
    feed(log, *((f"key-{number}", 1) for number in range(8)))
    driver.turns(20)
    monkeypatch.setattr(snapshot, "MOST_GROUPS", 7)
    with a_console(tmp_path) as client:
        answer = client.ask("groups?agent=a")
        assert (len(answer["groups"]), answer["found"], answer["open"], answer["unlisted"]) == (7, 7, 10, 3)
        [group] = client.ask("why?agent=a&place=in/0&key=key-7")["groups"]
        assert group["key"] == "key-7", "the store answers for a group that is not listed"


def test_a_partition_that_would_need_too_much_memory_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    monkeypatch.setattr(snapshot, "LARGEST_PARTITION", 19)
    many = {Partition("app", "sums", "in", 0): 20}

    def read(hot_groups: int) -> tuple[str, int, int]:
        assert scene.agent.aggregation is not None
        agent = replace(scene.agent, aggregation=replace(scene.agent.aggregation, hot_groups=hot_groups))
        made = taken(App("app", "memory://", (agent,)), lambda: nullcontext(scene.store), many)
        return made.partitions[0].note, len(made.groups["sums"]), made.groups["sums"].unlisted

    assert read(hot_groups=1000) == ("not read: it has 20 open groups", 0, 20)
    assert read(hot_groups=4) == ("", 20, 0)


def test_other_questions_are_answered_during_a_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_driver(tmp_path)
    reading, gate = threading.Event(), threading.Event()

    def slow(*args: Any) -> Any:
        reading.set()
        assert gate.wait(30)
        return contents_of(*args)

    monkeypatch.setattr(snapshot, "contents_of", slow)
    with a_console(tmp_path) as client:
        for question in ("groups?agent=a", "partitions", "audit", "progress"):
            status, answer, _ = client.send("GET", f"/console/{question}")
            assert (status, answer) == (202, {"reading": "The store is being read: 0 open groups in all."})
        assert reading.wait(30)
        try:
            assert client.ask("timeouts")["count"] == 0
            assert client.ask("outbox")["rows"] == []
        finally:
            gate.set()
        assert client.ask("groups?agent=a")["found"] == 2


def test_a_list_is_read_again_on_demand(tmp_path: Path) -> None:
    driver, log = a_driver(tmp_path)
    with a_console(tmp_path) as client:
        assert client.ask("groups?agent=a")["found"] == 2
        feed(log, ("another", 1))
        driver.turns(20)
        assert client.ask("groups?agent=a")["found"] == 2
        client.ask("groups?agent=a&fresh=yes")
        while client.ask("groups?agent=a")["found"] != 3:
            pass
