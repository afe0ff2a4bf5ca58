"""What is handed over, heard and sent again of a lane's batch."""

from collections.abc import Callable, Sequence

import pytest

from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.stores import BatchReports
from sluicegate.streams.contracts.values import DeadRow, OutboxRow
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.lane_run import LaneRun, near
from sluicegate.streams.outbox.sender import Sender
from sluicegate.streams.testing.log import one_by_one
from tests.mutation.twins import without


def rows(*numbers: int) -> list[OutboxRow]:
    return [OutboxRow(number, "", f"id-{number}", "t", 0, b"k", b"v", []) for number in numbers]


class Broker:
    """A producer that takes `room` rows at a time; the test says what became of them."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.sent: list[int] = []
        self.open: dict[int, BatchReports] = {}
        self.room = room
        self.replaced = self.told = 0

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        taken = list(rows)[: self.room - len(self.open)]
        self.sent += [row.number for row in taken]
        self.open.update((row.number, reports) for row in taken)
        return len(taken)

    def send_now(self) -> None:
        self.told += 1

    def delivered(self, *numbers: int) -> None:
        together: dict[BatchReports, list[int]] = {}
        for number in numbers:
            together.setdefault(self.open.pop(number), []).append(number)
        for reports, reported in together.items():
            reports.delivered(reported)

    def refused(self, number: int, outcome: str) -> None:
        self.open.pop(number).refused(number, outcome, "MSG_SIZE_TOO_LARGE")

    def poll(self) -> int:
        return len(self.open)

    def replace(self) -> None:
        self.open.clear()
        self.replaced += 1


class Sending:
    def __init__(self, *numbers: int, room: int = 1 << 30) -> None:
        self.broker, self.meter, self.now = Broker(room), Meter(), 100.0
        self.sender = Sender(self.broker, self.meter, Backoff(1.0, 1.0, lambda: 0.5))
        self.run = LaneRun(rows(*numbers))

    def turn(self, seconds: float = 0.0, more: bool = False) -> list[int]:
        """What was handed over since the last one."""
        self.now += seconds
        self.broker.sent.clear()
        self.sender.turn([self.run], self.now, more)
        return list(self.broker.sent)

    @property
    def arrived(self) -> list[int]:
        return sorted(self.run._reports.delivered)

    def count(self, outcome: str) -> float:
        return sum(
            value
            for name, labels, value in self.meter.snapshot()
            if name == "dispatch_attempts" and labels == (outcome,)
        )


def test_as_many_rows_as_there_is_room_for_are_handed_over_in_order() -> None:
    it = Sending(1, 2, 3, 4, room=3)
    assert it.turn() == [1, 2, 3]
    assert (len(it.run.out), it.run.unsent) == (3, 4)
    it.broker.delivered(2)
    assert it.turn() == [4]
    it.broker.delivered(1, 3, 4)
    it.turn()
    assert (len(it.run.out), it.run.unsent, it.arrived, it.count("success")) == (0, 0, [1, 2, 3, 4], 4)


def test_rows_wait_for_others_while_more_are_to_come_and_no_longer() -> None:
    it = Sending(1, 2)
    assert (it.turn(more=True), it.broker.told) == ([1, 2], 0)
    it.turn(more=True)
    assert it.broker.told == 0
    it.turn()
    it.turn()
    assert it.broker.told == 1


def test_rows_that_fill_the_producer_wait_for_nothing() -> None:
    it = Sending(1, 2, 3, room=2)
    assert (it.turn(more=True), it.broker.told) == ([1, 2], 1)
    it.turn(more=True)
    assert it.broker.told == 1


def failed_in_between() -> tuple[Sending, list[int]]:
    """Of five, the second failed; what was handed over afterwards."""
    it = Sending(1, 2, 3, 4, 5, room=3)
    it.turn()
    it.broker.delivered(1)
    it.broker.refused(2, "failed")
    after = it.turn()
    it.broker.delivered(3)
    return it, after


def test_nothing_is_handed_over_past_a_failure_and_only_what_has_no_report_is_sent_again() -> None:
    it, after = failed_in_between()
    assert after == []
    it.turn()
    assert it.broker.replaced == 1
    assert it.turn() == []
    assert it.turn(2.0) == [2, 4, 5]
    assert (it.arrived, it.run.unsent, it.count("transient")) == ([1, 3], 3, 1)


def test_without_it_newer_rows_pass_one_that_failed() -> None:
    with without("relay-order"):
        _, after = failed_in_between()
    assert after == [4, 5]


def test_a_report_that_never_comes_is_given_up_with_its_producer() -> None:
    it = Sending(1, 2)
    it.turn()
    it.broker.refused(1, "failed")
    it.turn(4.0)
    assert it.broker.replaced == 0
    it.turn(2.0)
    assert it.broker.replaced == 1
    assert it.turn(2.0) == [1, 2]


def test_a_row_that_its_topic_does_not_take_stops_what_waits_behind_it() -> None:
    it = Sending(1, 2, 3, 4, room=3)
    it.turn()
    it.broker.refused(2, "denied")
    assert it.turn() == []
    it.broker.delivered(1, 3)
    assert (it.run.refusals, it.run.unsent, it.arrived) == ({2: "MSG_SIZE_TOO_LARGE"}, 0, [1, 3])


def test_a_row_that_is_rejected_is_dead_and_others_go_on() -> None:
    it = Sending(1, 2, 3, room=2)
    it.turn()
    it.broker.refused(1, "rejected")
    assert it.turn() == [3]
    it.broker.delivered(2, 3)
    assert (it.run._reports.dead, it.run.unsent, it.count("rejected")) == (
        {1: ("id-1", DeadRow(1, "MSG_SIZE_TOO_LARGE", 1))},
        0,
        1,
    )


def reported_late(replaced: bool) -> Sending:
    """The producer may be replaced between the hand-over of two rows and their reports."""
    it = Sending(1, 2)
    it.turn()
    reports = it.broker.open[1]
    if replaced:
        it.run.send_again()
    reports.delivered([1])
    reports.refused(2, "failed", "")
    it.turn(6.0)
    return it


def test_reports_of_rows_that_went_back_change_nothing() -> None:
    it = reported_late(replaced=True)
    assert (it.arrived, it.broker.replaced, it.count("transient")) == ([], 0, 0)


def test_of_rows_that_did_not_they_do() -> None:
    it = reported_late(replaced=False)
    assert (it.arrived, it.broker.replaced, it.count("transient")) == ([1], 1, 1)


def test_the_time_of_each_report_counts_from_its_own_hand_over() -> None:
    it = Sending(1, 2, 3, room=2)
    it.turn()
    it.broker.delivered(1)
    it.turn(20.0)
    it.broker.delivered(2, 3)
    it.turn(2.0)
    [counts] = [value for name, _, value in it.meter.snapshot() if name == "dispatch_seconds"]
    assert isinstance(counts, list)
    assert counts[-1] == pytest.approx(20 + 22 + 2)


def test_a_batch_reaches_as_far_as_receivers_remember() -> None:
    assert [row.number for row in near(rows(5, 7, 10_004, 10_005, 20_000))] == [5, 7, 10_004]
    assert near([]) == []


def test_rows_go_one_by_one_where_the_producer_has_no_other_way() -> None:
    handed, reports = list[int](), list[object]()

    class Single:
        def produce(self, row: OutboxRow, report: Callable[[str, str], None]) -> bool:
            if len(handed) == 2:
                return False
            handed.append(row.number)
            report("delivered" if row.number == 1 else "denied", "why")
            return True

        def poll(self) -> int:
            return 0

        def replace(self) -> None: ...

    class Told:
        def delivered(self, numbers: Sequence[int]) -> None:
            reports.extend(numbers)

        def refused(self, number: int, outcome: str, text: str) -> None:
            reports.append((number, outcome, text))

    assert one_by_one(Single().produce, rows(1, 2, 3), Told()) == 2
    assert (handed, reports) == ([1, 2], [1, (2, "denied", "why")])
