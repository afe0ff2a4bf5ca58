"""How the intake of the shared buffer takes records, what it inserts when others inserted before, and when it is time
to."""

from dataclasses import replace
from datetime import timedelta
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, OnError, Reducer
from sluicegate.streams.aggregation.events import Fire, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.leased_values import Gate, Pack, PositionMove
from sluicegate.streams.contracts.record import KeptRecord
from sluicegate.streams.engine import commits
from sluicegate.streams.engine.commits import Commits
from sluicegate.streams.errors import WatermarkMoved
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.shared.shared_intake import SharedIntake
from sluicegate.streams.shared.shared_leases import MOST
from sluicegate.streams.shared.shared_runs import Identified, Packing

PLACE, GATE = ("in", 3), Gate(9)

AGENT = Agent("a", ("in",), Aggregation(count=9, compute=(Reducer("n", "count"),)), Destination("out"), "dead")


class Buffer:
    """Takes packs of partition 3, of which it may have more already than whoever inserts knows."""

    def __init__(self, at_once: int = 5_000) -> None:
        self.at_once, self.stands, self.known = at_once, 0, 0
        self.taken: list[tuple[int, int, list[int]]] = []

    def position(self, name: str, topic_id: str, partition: int) -> int:
        return self.known

    def insert_packs(self, name: str, packs: list[Pack], gate: Gate, progress: PositionMove) -> list[Any]:
        if progress.expected != self.stands:
            raise WatermarkMoved("moved", self.stands)
        self.taken.append((progress.expected, progress.next, [pack.items for pack in packs]))
        self.stands = progress.next
        return []


def record(offset: int, value: bytes = b"{}") -> KeptRecord:
    return KeptRecord(("in", 3, offset), b"k", value, [], (1, 5))


def intake_of(buffer: Any, gate: Gate = GATE) -> SharedIntake:
    leases = SimpleNamespace(take=lambda batches: None)
    fires: Any = SimpleNamespace(halt=None, leases=leases)
    size: Any = None
    return SharedIntake(
        "b", gate.count or inf, buffer, Packing("b", gate, buffer, lambda: 1.5), fires, lambda place: "id", size
    )


@pytest.fixture
def groups() -> Groups:
    return Groups(Rule(AGENT, codec("json")))


def test_what_another_worker_inserted_meanwhile_is_left_out(groups: Groups) -> None:
    buffer = Buffer()
    intake, identify = intake_of(buffer), lambda offset: "id"
    items = [*intake.read(groups, [record(4), record(6)]), *intake.read(groups, [record(7), record(9)])]
    buffer.stands = 7
    assert intake.run(items, identify, None, PLACE) == []
    assert intake.run(intake.read(groups, [record(10), record(11)]), identify, None, PLACE) == []
    assert buffer.taken == [(7, 10, [2]), (10, 12, [2])]
    buffer.stands = buffer.known = 30
    assert intake.run(intake.read(groups, [record(12)]), lambda offset: "of another claim", None, PLACE) == []
    assert len(buffer.taken) == 2


def test_a_record_is_in_the_buffer_when_its_watermark_passed_it_whoever_did_that() -> None:
    buffer = Buffer()
    intake, identify = intake_of(buffer), lambda offset: "id"
    assert not intake.holds(PLACE, 4, identify)
    buffer.known = 5
    assert (intake.holds(PLACE, 4, identify), intake.holds(PLACE, 5, identify)) == (True, False)


def test_fires_that_wait_are_not_lost_with_a_record_that_is_refused(groups: Groups) -> None:
    fire = Fire(b"k", 1, "limit", 0, 0, 1.0, 1.0, None, {})
    groups.events.append(fire)
    items = intake_of(Buffer()).read(groups, [record(1, b"{"), record(2)])
    assert [item.value.offsets for item in items if not isinstance(item, Fire | Refused)] == [[2]]
    assert [type(event) for event in groups.drain()] == [Fire, Refused]


@pytest.mark.parametrize("dedupe", [None, Deduplication("header", "id")])
def test_a_record_without_a_key_is_a_dead_letter_whatever_until_answers(dedupe: Deduplication | None) -> None:
    """As with `scope: partition`: without a key, `message.key` has no answer, and `on_error` would leave it out."""
    rule = replace(AGENT.aggregation or Aggregation(), until='message.key == "end"')
    groups = Groups(Rule(replace(AGENT, aggregation=rule, on_error=OnError(expression="skip")), codec("json")))
    runs: Any = Packing("b", GATE, Buffer(), lambda: 1.5)  # type: ignore[arg-type]
    if dedupe is not None:
        ids = IdRule(replace(AGENT, dedupe=dedupe), codec("json"))
        runs = Identified("b", GATE, Buffer(), ids, Meter(), lambda: 1.5)  # type: ignore[arg-type]
    run = runs.read(groups, [KeptRecord((*PLACE, 4), None, b"{}", [("id", b"1")], (1, 5))])
    assert (run.items, [event.reason for event in groups.drain() if isinstance(event, Refused)]) == ([], ["no-key"])


# -- when
#
#
#
#
# ----------------------------------------------------------------------------------------------------


@pytest.fixture
def turns() -> Any:
    """`due(seconds since the last commit, behind)` with a record pending, for an intake that packs."""
    now, intake = [100.0], intake_of(Buffer())
    setting: Any = SimpleNamespace(store=None, processor=intake, agent=AGENT)
    claims: Any = SimpleNamespace(owners={}, retries=SimpleNamespace(backoffs={}))
    made = Commits(setting, claims, None, lambda: now[0], lambda owner, error: None)  # type: ignore[arg-type]
    made.all(now[0])
    made.pending = 1

    def due(passed: float, behind: bool) -> bool:
        made.turned(behind)
        return made.due(now[0] + passed, False)

    return SimpleNamespace(due=due, commits=made, intake=intake)


def test_while_more_waits_than_is_read_records_gather_longer(turns: Any) -> None:
    assert not turns.due(commits.SHARED_EVERY + 0.1, True)
    assert turns.due(commits.SHARED_BEHIND, True)
    assert turns.commits.due(100.0, True)


def test_one_turn_that_read_less_than_a_full_batch_ends_the_longer_wait(turns: Any) -> None:
    assert not turns.due(commits.SHARED_EVERY - 0.1, False)
    assert turns.due(commits.SHARED_EVERY, True)
    turns.commits.all(100.0)
    turns.commits.pending = 1
    assert not turns.due(commits.SHARED_EVERY + 0.1, True)


def test_records_and_bytes_in_hand_are_bounded(turns: Any) -> None:
    turns.commits.pending = turns.intake.most - 1
    assert not turns.due(0.0, True)
    turns.commits.pending += 1
    assert turns.due(0.0, True)
    turns.commits.all(100.0)
    turns.commits.pending, turns.intake.read_bytes = 1, commits.SHARED_BYTES
    assert turns.due(0.0, True)
    turns.commits.all(100.0)
    turns.commits.pending = 1
    assert (turns.intake.read_bytes, turns.due(0.0, True)) == (0, False)


@pytest.mark.parametrize(("count", "most"), [(1, MOST), (2, 2 * MOST), (100, 10_000), (None, 10_000)])
def test_a_commit_completes_no_more_batches_than_may_be_in_hand(count: int | None, most: int) -> None:
    assert intake_of(Buffer(), Gate(count, timedelta(seconds=9))).most == most


def test_bytes_in_hand_are_those_that_were_read(groups: Groups) -> None:
    intake = intake_of(Buffer())
    intake.read(groups, [record(1, b'{"n":"%s"}' % (b"x" * 1000)), record(2)])
    assert 1000 < intake.read_bytes < 1200
