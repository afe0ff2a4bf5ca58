"""What an agent over a table published is what its input gives, and a lost store comes back from the topics."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Emit
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.replaying.rewinding import NO_END, uncorrectable
from sluicegate.streams.operations.replaying.shadowing import ShadowRange
from tests.unit.engine.rebuilding import emitted_twice
from tests.unit.shadow.scene import all_identical, figures
from tests.unit.tables.database import answers, in_order
from tests.unit.tables.working import Working

SEEDS = range(8)
EMITS = {"change": Emit(on="change"), "every": Emit(every=2.0), "count": Emit(count=3, final=False)}
HAVING = "spent > 2"


def played(seed: int, emit: str = "change", having: str = "") -> Working:
    working = Working(seed, EMITS[emit], having)
    working.play()
    return working


def expected(working: Working) -> dict[str, dict[str, Any]]:
    return {key: in_order(values) for key, values in answers(working.database.rows.values()).items()}


def is_grouped(row: dict[str, Any]) -> bool:
    return row["customer"] is not None and row["status"] != "cancelled"


@pytest.mark.parametrize("having", ["", HAVING])
@pytest.mark.parametrize("emit", EMITS)
def test_what_both_halves_wrote_is_identical(emit: str, having: str) -> None:
    many = [0, 0]
    for seed in SEEDS:
        working = played(seed, emit, having)
        for number, half in enumerate(working.halves):
            comparison = working.shadow(half)
            assert all_identical(comparison), (seed, half.name, comparison.document())
            many[number] += comparison.results.counts["identical"]
    assert min(many) > 10


@pytest.mark.parametrize(("half", "topic"), [(0, "by-customer"), (1, "totals")])
def test_a_message_that_is_gone_or_another_one_is_found(half: int, topic: str) -> None:
    """A row that moves is two messages, so its change may lack one."""
    working = played(1)
    messages = max(working.log.topics[topic], key=len)
    first = messages[1]
    other = (first.v or b"").replace(b'"amount":', b'"amount":1').replace(b'"spent":', b'"spent":1')
    assert other != first.v
    messages[1] = replace(first, v=other)
    assert figures(working.shadow(working.halves[half]))["changed"] == 1
    messages[1] = first
    del messages[-1]
    assert len(figures(working.shadow(working.halves[half])).keys() & {"missing", "changed"}) == 1


def test_another_statistic_changes_the_results_and_no_end() -> None:
    working = played(2)
    rule = working.halves[1]
    assert rule.aggregation is not None
    fewer = replace(rule, aggregation=replace(rule.aggregation, compute=rule.aggregation.compute[:3]))
    comparison = working.shadow(rule, fewer)
    assert figures(comparison) == {"changed": figures(working.shadow(rule))["identical"]}


@pytest.mark.parametrize("half", [0, 1])
def test_a_part_of_the_topic_does_not_tell_the_rows(half: int) -> None:
    working = played(3)
    with pytest.raises(ConfigurationError, match="over a table a shadow must begin where the agent began"):
        working.shadow(working.halves[half], wanted=ShadowRange(since=5))


def test_no_replay_corrects_a_group_that_goes_on() -> None:
    for half in Working(0, EMITS["change"]).halves:
        assert uncorrectable(half, calls=False) == NO_END


@pytest.mark.parametrize("having", ["", HAVING])
@pytest.mark.parametrize("emit", EMITS)
def test_a_rebuilt_store_is_the_lost_one_and_goes_on(emit: str, having: str) -> None:
    """Half of the logs lose changes or results that were decided and not sent."""
    unsent = 0
    for seed in SEEDS:
        working = played(seed, emit, having)
        if seed % 2:
            working.lose_rows(seed // 2 % 2)
            working.play(10)
        rows = working.rows()
        working.lose()
        for half in working.halves:
            unsent += sum(len(plan.built.decided) for plan in working.rebuild(half))
        assert working.rows() == rows == {key for key, row in working.database.rows.items() if is_grouped(row)}, seed
        working.start()
        working.play()
        assert emitted_twice(working.sent()) == [], seed
        assert emit != "change" or having or working.newest() == expected(working), seed
    assert unsent > 0
