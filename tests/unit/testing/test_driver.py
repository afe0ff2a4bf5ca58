"""The test driver: what goes in, what comes out, when, and how it dies."""

import sys
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.connectors.sql.sqlite import Sqlite
from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.agent import App, Reducer
from sluicegate.streams.errors import ConfigurationError, PersistenceError, SystemNotReady
from sluicegate.streams.testing.deaths import AROUND, ENGINE, PLACES, REPLIES, Death, DeathKind
from sluicegate.streams.testing.driver import TestDriver
from tests.chaos import matrix
from tests.mutation.twins import without
from tests.unit.engine import scene
from tests.unit.testing.apps import a_chain, an_app, sums


def totals(driver: TestDriver, topic: str = "out") -> list[tuple[Any, ...]]:
    return [(o.key, o.value["reason"], o.value["count"], o.value["total"]) for o in driver.read(topic)]


def test_a_full_group_comes_out_once_and_decoded() -> None:
    driver = TestDriver(an_app())
    driver.send("in", {"amount": 2}, key="a", times=3)
    (output,) = driver.read("out")
    assert (output.topic, output.key, output.value["total"], output.reason) == ("out", "a", 6, "count")
    assert output.value["opened_at"] == "2026-01-01T00:00:00.000Z"
    assert output.id == output.headers["sluicegate-id"]
    assert output.raw is not None
    assert output.raw.startswith(b'{"key":"a"')
    assert driver.read("out") == []
    assert [message.id for message in driver.sent("out")] == [output.id]


def test_a_group_fires_at_its_deadline_and_not_before() -> None:
    driver = TestDriver(an_app())
    driver.advance(0.3)
    driver.send("in", {"amount": 1}, key="a")
    driver.advance(29.999)
    assert driver.read("out") == []
    driver.advance("1ms")
    assert totals(driver) == [("a", "timeout", 1, 1)]


def test_deadlines_fire_one_after_the_other_each_with_what_follows_from_it() -> None:
    """The pair opens when the first group times out, at 30 s, so it times out at 90 s; in one jump it would have opened
    at 100 s."""
    driver = TestDriver(a_chain())
    driver.send("in", {"amount": 5}, key="a")
    driver.advance(100)
    (pair,) = driver.read("pairs")
    assert (pair.value["opened_at"], pair.value["closed_at"]) == (
        "2026-01-01T00:00:30.000Z",
        "2026-01-01T00:01:30.000Z",
    )


def test_agents_that_read_each_other_are_all_done_when_a_call_returns() -> None:
    driver = TestDriver(a_chain(), workers=2)
    driver.send("in", {"amount": 1}, key="a", times=6)
    assert totals(driver, "pairs") == [("a", "count", 2, 6)]


def test_a_key_lies_where_a_broker_would_have_it_unless_the_test_says_where() -> None:
    driver = TestDriver(an_app())
    driver.send("in", {"amount": 1}, key="a")  # Java: murmur2("a") is in partition 0 of 4
    driver.send("in", {"amount": 1}, key=b"a", partition=3)
    assert driver.offsets("sums") == {("in", 0): 1, ("in", 3): 1}


def test_open_groups_show_what_they_hold_and_when_they_are_due() -> None:
    driver = TestDriver(an_app())
    driver.send("in", {"amount": 4}, key="a")
    driver.advance(10)
    (group,) = driver.groups("sums")
    assert (group.key, group.count, group.values, group.opened_at) == ("a", 1, {"total": 4}, "2026-01-01T00:00:00.000Z")
    assert group.due_in == 20.0
    driver.send("in", {"amount": 4}, key="a", times=2)
    assert driver.groups("sums") == []


def test_dead_letters_have_their_reason_and_their_bytes() -> None:
    driver = TestDriver(an_app())
    driver.send("in", b"{", key="a")
    driver.send("in", {"other": 1}, key="a", headers={"trace": "x"})
    driver.send("in", None, key="a", timestamp=0.25)
    letters = driver.dead_letters()
    assert [letter.reason for letter in letters] == ["undecodable", "missing-field", "null-value"]
    assert [letter.value for letter in letters] == [b"{", {"other": 1}, None]
    assert letters[1].headers["trace"] == "x"
    assert letters[2].headers["sluicegate-dead-timestamp"] == "1970-01-01T00:00:00.250Z"
    assert driver.dead_letters("dead") == []


def test_values_are_written_in_the_format_of_their_reader() -> None:
    raw = sums("raw", ("texts",), "bags", format="raw", compute=(Reducer("all", "collect"),), count=2)
    driver = TestDriver(an_app(raw))
    driver.send("texts", "hé", key="a")
    driver.send("texts", b"\xff", key="a")
    (output,) = driver.read("bags")
    assert output.value["all"] == ["aMOp", "/w=="]


def test_every_call_that_names_what_is_not_there_says_what_is() -> None:
    driver = TestDriver(an_app())
    with pytest.raises(ConfigurationError, match="no agent reads 'im'; known here: in"):
        driver.send("im", {})
    with pytest.raises(ConfigurationError, match="no agent writes 'outt'; did you mean out"):
        driver.read("outt")
    with pytest.raises(ConfigurationError, match="no agent 'sum'; did you mean sums"):
        driver.groups("sum")
    with pytest.raises(ConfigurationError, match="no place 'before' for a crash"):
        driver.crash("before")
    with pytest.raises(
        ConfigurationError, match="no place 'after-poll' for a crash of kind lost; there are claim-asked"
    ):
        driver.crash("after-poll", kind="lost")
    with pytest.raises(ConfigurationError, match="has 4 partitions"):
        driver.send("in", {}, partition=4)
    with pytest.raises(ConfigurationError, match="'30' is not a time"):
        driver.advance("30")


def test_a_file_is_driven_although_the_variables_of_its_systems_are_not_set(tmp_path: Path) -> None:
    text = (
        "app: shop\nkafka: {bootstrap.servers: '${BROKER}'}\nstore: ${STORE}\n"
        "agents:\n  a:\n    from: in\n    aggregate: {count: COUNT, compute: {n: {reduce: 'beside:add'}}}\n    to: "
        "{topic: out}\n"
    )
    (tmp_path / "beside.py").write_text("def add(n, message):\n    return (n or 0) + message\n")
    (tmp_path / "shop.yaml").write_text(text.replace("COUNT", "2"))
    with TestDriver(tmp_path / "shop.yaml") as driver:
        driver.send("in", 20, key="a", times=2)
        assert [output.value["n"] for output in driver.read("out")] == [40]
        assert str(tmp_path) in sys.path
    assert str(tmp_path) not in sys.path
    (tmp_path / "shop.yaml").write_text(text.replace("COUNT", "'${N}'"))
    with pytest.raises(ConfigurationError, match=r"shop.yaml:7:\d+: agents.a.aggregate.count: \$\{N\} is not set"):
        TestDriver(tmp_path / "shop.yaml")


# -- crashes
# -------------------------------------------------------------------------------------------------------------


def crashed_at(
    place: str, kind: DeathKind = "kill", app: App | None = None
) -> tuple[list[tuple[Any, ...]], TestDriver]:
    """A group that fires and one that times out, with one crash at `place` on the way."""
    driver = TestDriver(app or an_app())
    driver.send("in", {"amount": 1}, key="a", times=2)
    driver.crash(place, kind)
    if place in ("after-claim", "claim-asked", "claim-answered", "in-restore", "after-restore"):
        driver.crash()
    driver.send("in", {"amount": 1}, key="a")
    driver.send("in", {"amount": 7}, key="b")
    driver.advance("30s")
    driver.crash()
    return totals(driver), driver


@pytest.mark.parametrize(
    ("place", "kind"), [*((place, "kill") for place in (*ENGINE, *AROUND)), *((place, "lost") for place in REPLIES)]
)
def test_whatever_fails_wherever_each_result_comes_out_once(place: str, kind: DeathKind) -> None:
    results, driver = crashed_at(place, kind)
    assert results == [("a", "count", 3, 3), ("b", "timeout", 1, 7)]
    assert driver.deaths.done == [place]
    driver.close()


def test_a_row_that_was_sent_before_its_report_is_sent_again_and_read_once() -> None:
    results, driver = crashed_at("produced-not-acked")
    assert len(results) == 2
    copies = driver.sent("out")
    assert len(copies) > 2
    assert len({(copy.id, copy.raw) for copy in copies}) == 2


@pytest.mark.parametrize(("protection", "place"), [("output-commit", "commit-asked"), ("seek", "commit-asked")])
def test_without_a_protection_a_store_that_does_not_answer_shows_in_the_results(protection: str, place: str) -> None:
    with without(protection):
        assert crashed_at(place, "lost")[0] != [("a", "count", 3, 3), ("b", "timeout", 1, 7)]


def chained(place: str) -> list[tuple[Any, ...]]:
    driver = TestDriver(a_chain())
    driver.send("in", {"amount": 1}, key="a", times=2)
    driver.crash(place)
    driver.send("in", {"amount": 1}, key="a", times=1)
    assert driver.deaths.done == [place]
    driver.send("in", {"amount": 1}, key="b", times=3)
    driver.advance("60s")
    return totals(driver, "pairs")


def test_a_repeat_does_not_reach_the_next_agent() -> None:
    assert chained("produced-not-acked") == [("a", "timeout", 1, 3), ("b", "timeout", 1, 3)]


def test_without_dropping_repeats_it_does() -> None:
    with without("receive"):
        assert chained("produced-not-acked") != [("a", "timeout", 1, 3), ("b", "timeout", 1, 3)]


def deaths_of(most: int) -> tuple[list[str | None], int]:
    """A reducer that ends the process: the reasons of the dead letters, and how often it died."""
    died = []

    def dies(message: Any) -> bool:
        if message["amount"] == 13 and len(died) < most:
            died.append(message)
            raise Death("in a reducer")
        return False

    scene.deadly["now"] = dies
    driver = TestDriver(an_app(sums(count=1, compute=(scene.DIES,))))
    driver.send("in", {"amount": 13}, key="a")
    scene.deadly.clear()
    return [letter.reason for letter in driver.dead_letters()], len(died)


def test_a_record_that_ends_the_process_three_times_is_a_dead_letter_since_a_death_leaves_its_mark() -> None:
    assert deaths_of(most=9) == (["crash"], 3)


def test_without_crash_marks_it_is_never_given_up() -> None:
    with without("crash-marks"):
        assert deaths_of(most=9) == ([], 9)


def test_a_crash_that_never_happened_is_a_failure() -> None:
    driver = TestDriver(an_app())
    driver.crash("expire-selected")
    with pytest.raises(AssertionError, match="at expire-selected, which was never reached"):
        driver.close()
    with pytest.raises(AssertionError, match="never reached"), TestDriver(an_app()) as other:
        other.crash("expire-selected")


def test_the_places_of_a_death_are_those_that_the_product_has() -> None:
    of_programs = {*matrix.PROGRAMS}  # operator commands and the Faust sink: the driver runs none of them
    assert matrix.in_the_code() - of_programs == {*PLACES} - {*AROUND}


def test_another_store_is_driven_by_the_same_clock(tmp_path: Path) -> None:
    store = SqlStore(Sqlite(tmp_path / "state.db"))
    store.migrate()
    driver = TestDriver(an_app(), store=store)
    driver.send("in", {"amount": 7}, key="b")
    driver.advance("15s")
    driver.crash()
    driver.advance("14s")
    assert totals(driver) == []
    driver.advance("1s")
    assert totals(driver) == [("b", "timeout", 1, 7)]


def test_a_partition_that_stops_says_why() -> None:
    driver = TestDriver(an_app(sums(max_groups=1, on_full="stop")))
    driver.send("in", {"amount": 1}, key="a")
    assert driver.troubles() == []
    driver.send("in", {"amount": 1}, key="z", partition=0)
    (line,) = driver.troubles()
    assert line.startswith("in/0 stopped: buffer-full: max_groups 1 is reached")


def test_agents_that_feed_one_another_for_ever_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.streams.testing.workers.MOST_ROUNDS", 50)
    ring = an_app(sums(count=1, compute=()), sums("back", ("out",), "in", count=1, compute=()))
    with pytest.raises(SystemNotReady, match="still working after 50 rounds"):
        TestDriver(ring).send("in", {"amount": 1}, key="a")


def test_a_store_that_does_not_answer_is_tried_again_as_the_clock_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    claim, away = MemoryStore.claim, [True]

    def refuse(self: MemoryStore, *what: Any) -> Any:
        if away:
            raise PersistenceError("away")
        return claim(self, *what)

    monkeypatch.setattr(MemoryStore, "claim", refuse)
    driver = TestDriver(an_app(), partitions=1)
    assert driver.troubles() == ["waiting to claim in/0: away"]
    driver.advance(5)
    driver.send("in", {"amount": 1}, key="a", times=3)
    assert driver.read("out") == []
    away.clear()
    driver.advance(2)
    assert driver.troubles() == []
    assert totals(driver) == [("a", "count", 3, 3)]
