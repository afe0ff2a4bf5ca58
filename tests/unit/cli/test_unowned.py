"""Which partitions no worker reads, by the assignments of a consumer group."""

from dataclasses import replace

from sluicegate.streams.cli.workers.unowned import unread
from tests.unit.cli.test_status import AGENT

PLACES = [("in", 0), ("in", 1), ("in", 2)]


def test_a_partition_without_a_member_and_one_of_another_program() -> None:
    places = unread(AGENT, PLACES, [("sums-0-host-7", [("in", 0)]), ("debugging", [("in", 2), ("other", 0)])])
    assert places == {
        ("in", 1): "no worker is assigned; start one, or look at the log of its run",
        ("in", 2): "is assigned to debugging, which is not a worker of this agent; end that consumer",
    }


def test_workers_of_every_run_count_and_a_rebalance_tells_nothing() -> None:
    workers = [("sums-0-one-7", [("in", 0)]), ("sums-1-one-8", [("in", 1)]), ("sums-0-two-7", [("in", 2)])]
    assert unread(AGENT, PLACES, workers) == {}
    assert unread(AGENT, PLACES, None) == {}
    assert len(unread(replace(AGENT, name="sum"), PLACES, workers)) == 3
