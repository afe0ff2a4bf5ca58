"""`GET /agents/AGENT/groups/KEY`: committed state, of each key, from each process that reaches the store."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, App, Window
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe.http import HttpCalls
from sluicegate.streams.operations.groups.open_groups import open_groups
from sluicegate.streams.serving import calls, committed
from tests.unit.engine import test_cold_windows as cold_windows
from tests.unit.engine.driver import Driver, ManualClock, memory
from tests.unit.engine.scene import a_log, an_agent, feed, hooked
from tests.unit.engine.test_cold_groups import Scene
from tests.unit.serving.served import StateServer, a_state_server

X = "/agents/sums/groups/x"


@contextmanager
def served(store: MemoryStore, *agents: Agent, **settings: Any) -> Iterator[StateServer]:
    with a_state_server(App("app", "memory://", agents), lambda: store, **settings) as server:
        yield server


class Shop:
    """A worker of an agent with two partitions."""

    def __init__(self, agent: Agent | None = None) -> None:
        self.clock, self.log = ManualClock(), a_log(partitions=2)
        self.store, self.agent = memory(self.clock), agent or an_agent(key=None)
        self.driver = Driver(self.agent, self.store, self.log, self.clock).give(0, 1)

    def put(self, *pairs: tuple[str, Any], number: int = 0) -> "Shop":
        feed(self.log, *pairs, number=number)
        self.driver.turns()
        return self


@pytest.fixture
def shop() -> Shop:
    return Shop().put(("x", 5), ("x", 7)).put(("y", 1), number=1)


def test_a_key_is_answered_from_each_partition(shop: Shop) -> None:
    with served(shop.store, shop.agent) as server:
        answer = server.get(X)
        [group] = answer.content["groups"]
        assert (answer.status, answer.content["agent"], answer.content["next"]) == (200, "sums", None)
        assert (group["key"], group["count"], group["partition"], group["owner"]) == ("x", 2, 0, "member")
        assert group["values"] == {"total": 12}
        assert server.get("/agents/sums/groups/y").content["groups"][0]["partition"] == 1


def test_an_answer_is_of_what_was_committed_alone(shop: Shop) -> None:
    seen = list[tuple[int, bool]]()
    with served(shop.store, shop.agent) as server:

        def before(*_: Any) -> None:
            groups = shop.driver.worker._owners["in", 0].groups.newest
            seen.append((server.get("/agents/sums/groups/z", Cache_Control="no-cache").status, b"z" in groups.states))

        hooked(shop.store, before)
        shop.put(("z", 1))
        assert seen == [(404, True)]  # the worker had the group, and had not committed it
        assert server.get("/agents/sums/groups/z", Cache_Control="no-cache").values == [{"total": 1}]


def test_a_reading_answers_for_a_second_and_says_its_age(shop: Shop) -> None:
    with served(shop.store, shop.agent) as server:
        assert server.get(X).values == [{"total": 12}]
        shop.put(("w", 1))
        server.clock[0] = 0.9
        assert server.get("/agents/sums/groups/w").status == 404
        assert server.get(X).headers["Age"] == "0"
        server.clock[0] = committed.LEAST
        assert server.get("/agents/sums/groups/w").status == 200


def test_a_caller_may_ask_for_a_fresh_reading(shop: Shop) -> None:
    with served(shop.store, shop.agent) as server:
        server.get(X)
        shop.put(("w", 1))
        assert server.get("/agents/sums/groups/w", Cache_Control="no-cache").status == 200


def test_the_entity_tag_changes_with_the_state_alone(shop: Shop) -> None:
    with served(shop.store, shop.agent) as server:
        tag = server.get(X).headers["ETag"]
        shop.driver.later(5)
        server.clock[0] = 5
        again = server.get(X, If_None_Match=f'"other", {tag}')
        assert (again.status, again.content, again.headers["ETag"]) == (304, None, tag)
        assert server.get(X, If_None_Match='"other"').status == 200
        assert server.get("/agents/sums/groups/none", If_None_Match="*").status == 404


def test_the_entity_tag_of_another_state_is_another_one() -> None:
    shop = Shop(an_agent(key=None, count=10)).put(("x", 5))
    with served(shop.store, shop.agent) as server:
        tag = server.get(X).headers["ETag"]
        shop.put(("x", 0))
        answer = server.get(X, If_None_Match=tag, Cache_Control="no-cache")
        assert (answer.status, answer.values) == (200, [{"total": 5}])


KEYS = [b"a/b", b"\xff\x00", b"%", "grün".encode(), b"base64:eA==", b" +?#", b""]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_any_bytes(shop: Shop, key: bytes) -> None:
    shop.log.append("in", 0, key, b'{"amount": 3}')
    shop.driver.turns()
    with served(shop.store, shop.agent) as server:
        answer = server.get(f"/agents/sums/groups/{quote(key, safe='')}")
        assert answer.values == [{"total": 3}]


WRONG = [
    ("/agents/sums/groups/%zz", 400),
    ("/agents/sums/groups/%4", 400),
    ("/agents/sums/groups/x?first=-1", 400),
    ("/agents/sums/groups/x?window=today", 400),
    ("/agents/sums/groups/a/b", 404),
    ("/agents/sums/groups", 404),
    ("/agents/sums/others/x", 404),
    ("/agents/sums/groups/unknown", 404),
    ("/agents/", 404),
    ("/agents", 404),
]


@pytest.mark.parametrize(("path", "status"), WRONG)
def test_a_wrong_request_is_refused(shop: Shop, path: str, status: int) -> None:
    with served(shop.store, shop.agent) as server:
        answer = server.get(path)
        assert (answer.status, "error" in answer.content) == (status, True)


def test_an_unknown_agent_is_answered_with_the_names_of_all(shop: Shop) -> None:
    forwards = Agent("copies", ("in",), None, None, "dead")
    with served(shop.store, shop.agent, forwards) as server:
        for name in ("sum", "copies"):
            answer = server.get(f"/agents/{name}/groups/x")
            assert (answer.status, answer.content["agents"]) == (404, ["sums"])


def test_state_needs_the_token(shop: Shop) -> None:
    token = "0123456789abcdef"
    with served(shop.store, shop.agent, token=token) as server:
        assert server.get(X).status == 401
        assert server.get(X, Authorization="Bearer wrong").status == 401
        assert server.get(X, Authorization=f"Bearer {token}").status == 200


def test_a_store_that_does_not_answer_is_503_and_says_when_to_ask_again(shop: Shop) -> None:
    working = [False]

    def open_store() -> MemoryStore:
        if not working[0]:
            raise PersistenceError("no store at redis://user:secret@host")
        return shop.store

    with a_state_server(App("app", "memory://", (shop.agent,)), open_store) as server:
        answer = server.get(X)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert "secret" not in answer.content["error"]
        working[0] = True
        assert server.get(X).status == 200


def test_the_port_has_no_state_unless_the_file_says_so() -> None:
    assert HttpCalls().resources == {}
    from sluicegate.streams.cli.workers.run import _calls

    assert _calls(App("app", "memory://", ()), lambda app: app) is None


def windows(most: int = 3, **more: Any) -> Shop:
    """A key with a group in each of these many windows of a minute."""
    window = Window(60.0, time="at", unit="s", grace=1e6, max_ahead=1e12)
    shop = Shop(an_agent(key=None, count=None, since_first=None, window=window, **more))
    for number in range(most):
        content = json.dumps({"at": 1_767_225_600 + 60 * number, "amount": number})
        shop.log.append("in", number % 2, b"x", content.encode())
    shop.driver.turns(10)
    return shop


def test_each_open_window_of_a_key_is_a_group_by_its_begin() -> None:
    shop = windows()
    with served(shop.store, shop.agent) as server:
        groups = server.get(X).content["groups"]
        assert [(group["window"][14:16], group["values"]["total"]) for group in groups] == [
            ("00", 0),
            ("01", 1),
            ("02", 2),
        ]
        assert server.get(f"{X}?window=2026-01-01T00:01:00Z").values == [{"total": 1}]
        assert server.get(f"{X}?window=2026-01-01T00:07:00Z").status == 404


def paged(server: StateServer) -> list[int]:
    sizes, first = list[int](), 0
    while first is not None:
        content = server.get(f"{X}?first={first}").content
        sizes.append(len(content["groups"]))
        first = content["next"]
    return sizes


def test_many_windows_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = windows(7)
    with served(shop.store, shop.agent) as server:
        monkeypatch.setattr(calls, "PAGE", 3)
        assert paged(server) == [3, 3, 1]
        monkeypatch.setattr(calls, "PAGE_BYTES", 1)
        assert paged(server) == [1] * 7


def test_the_groups_of_a_shared_agent_are_read_from_its_buffer() -> None:
    shop = Shop(replace(an_agent(key=None), scope="shared")).put(("x", 5)).put(("x", 7), ("y", 1), number=1)
    with served(shop.store, shop.agent) as server:
        assert server.get(X).values == [{"total": 12}]
        assert server.get("/agents/sums/groups/none").status == 404


class Cold:
    """Twenty groups of which sixteen are rows of the store."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.asked = self.most = 0

    def between(self, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        """`act` happens behind the reading of the changelog, and before that of the row."""
        cold, self.most = self.scene.store.cold, most

        def asks(partition: Partition, keys: Any) -> Any:
            if self.asked < most:
                self.asked += 1
                act()
            return cold(partition, keys)

        monkeypatch.setattr(self.scene.store, "cold", asks)

    def put(self, *keys: str) -> None:
        """The worker, which asks for rows, too, takes a record of each key."""
        asked, self.asked = self.asked, self.most
        feed(self.scene.log, *((key, 100) for key in keys))
        self.scene.driver.turns(3)
        self.asked = asked


def test_cold_groups_are_answered() -> None:
    cold = Cold()
    with served(cold.scene.store, cold.scene.agent) as server:
        assert server.get("/agents/sums/groups/key-03").values == [{"total": 3}]
        assert server.get("/agents/sums/groups/none").status == 404


def test_a_group_that_becomes_hot_while_it_is_looked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was when the changelog was read, because its row stays."""
    cold = Cold()
    cold.between(lambda: cold.put("key-03"), monkeypatch, 1)
    with served(cold.scene.store, cold.scene.agent) as server:
        assert server.get("/agents/sums/groups/key-03").values == [{"total": 3}]
        assert server.get("/agents/sums/groups/key-03", Cache_Control="no-cache").values == [{"total": 103}]


def test_a_group_that_opens_while_it_is_looked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cold = Cold()
    cold.between(lambda: cold.put("new"), monkeypatch, 1)
    with served(cold.scene.store, cold.scene.agent) as server:
        assert server.get("/agents/sums/groups/new").values == [{"total": 100}]


def test_windows_of_a_key_are_answered_also_if_one_opens_while_they_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = cold_windows.Scene()
    cold, opens = scene.store.cold, iter([("new", 30, 7)])

    def asks(partition: Partition, keys: Any) -> Any:
        if (opened := next(opens, None)) is not None:
            scene.feed(opened)
        return cold(partition, keys)

    with served(scene.store, scene.agent) as server:
        assert server.get("/agents/sums/groups/key-03").values == [{"total": 3}]
        monkeypatch.setattr(scene.store, "cold", asks)
        assert server.get("/agents/sums/groups/new").values == [{"total": 7}]


def test_other_groups_may_change_while_one_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cold = Cold()
    cold.between(lambda: cold.put("another"), monkeypatch, 100)
    with served(cold.scene.store, cold.scene.agent) as server:
        assert (server.get("/agents/sums/groups/none").status, cold.asked) == (404, 1)


def test_a_group_that_opens_and_ends_each_time_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    cold = Cold()
    cold.between(lambda: cold.put("none", "none", "none"), monkeypatch, 100)
    with served(cold.scene.store, cold.scene.agent) as server:
        answer = server.get("/agents/sums/groups/none")
        assert (answer.status, answer.headers["Retry-After"], cold.asked) == (503, "1", committed.TRIES)


KINDS = {
    "tumbling": Window(60.0),
    "hopping": Window(180.0, kind="hopping", every=60.0),
    "overlapping": Window(180.0, kind="overlapping", every=60.0),
    "session": Window(60.0, kind="session"),
    "sliding": Window(600.0, kind="sliding"),
    "the last records": Window(0.0, kind="sliding", last=3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_groups_of_a_key_are_those_that_all_groups_have_of_it(kind: str) -> None:
    window = replace(KINDS[kind], time="at", unit="s", grace=600.0, max_ahead=1e12)
    shop = Shop(an_agent(key=None, count=None, since_first=None, window=window))
    for number, key in enumerate((b"x", b"y", b"xx", b"x", b"y", b"x")):
        content = json.dumps({"at": 1_767_225_600 + 70 * number, "amount": number})
        shop.log.append("in", number % 2, key, content.encode())
    shop.driver.turns(10)
    every = open_groups(shop.store, "app", shop.agent)
    assert {group.key for group in every} == {b"x", b"y", b"xx"}
    for key in (b"x", b"y", b"xx", b"none"):
        assert open_groups(shop.store, "app", shop.agent, key) == [group for group in every if group.key == key]
