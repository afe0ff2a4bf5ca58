"""The shadow of the rule that made the results: all is identical, and whatever the input does not give is found."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Deduplication, Destination, Reducer, Selected
from sluicegate.streams.operations.replaying.shadowing import ShadowRange
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import Scene, all_identical, figures

RULES = {
    "count": an_agent(count=3, since_first=None),
    "timeout": an_agent(count=None, since_first=2.0),
    "both": an_agent(count=4, since_first=2.5),
    "last": an_agent(count=5, since_first=None, since_last=1.5),
    "where": replace(an_agent(count=3, since_first=2.5), where="default(amount, 0) != 2"),
    "letters": replace(an_agent(count=3, since_first=2.5), to=None, routes=(Destination("out", where="total > 9"),)),
}
SILENT = {
    "discarded": an_agent(count=2, since_first=2.5, on_timeout="discard"),
    "having": replace(an_agent(count=3, since_first=2.5), having="total > 9"),
    "until": an_agent(count=9, since_first=2.5, until="amount == 10 && group.total > 12"),
    "routes": replace(
        an_agent(count=3, since_first=2.5),
        to=None,
        routes=(
            Destination("large", where="total >= 12", goes_on=True),
            Destination("out", where="reason == 'count'", select=(Selected("total"), Selected("twice", "total * 2"))),
        ),
        unrouted="drop",
    ),
}
"""Rules under which a group may end without a result: when it ended is not known."""


@pytest.mark.parametrize("lag", [0.0, 2.0])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_what_a_worker_published_is_identical_whatever_crashed(name: str, seed: int, lag: float) -> None:
    scene = Scene(RULES[name], partitions=2, seed=seed)
    scene.play(200, kill=0.3, lag=lag)
    scene.feed("open", {"amount": 1})
    scene.turn()
    comparison = scene.shadow()
    assert all_identical(comparison), comparison.document()
    assert comparison.records == sum(map(len, scene.log.topics["in"])) >= 200
    assert comparison.results.counts["identical"] > 20
    assert comparison.dead.counts["identical"] > 10
    assert comparison.open.counts["identical"] > 0


@pytest.mark.parametrize("lag", [0.0, 2.0])
@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("seed", range(3))
def test_where_groups_end_without_a_result_what_was_published_is_identical(name: str, seed: int, lag: float) -> None:
    scene = Scene(SILENT[name], partitions=2, seed=seed)
    scene.play(200, kill=0.3, lag=lag)
    comparison = scene.shadow()
    assert comparison.results.counts["identical"] == comparison.published > 5
    assert figures(comparison).keys() <= {"identical", "uncertain"}
    assert comparison.dead.counts["identical"] == sum(comparison.dead.counts.values()) > 10
    assert {name for name, number in comparison.open.counts.items() if number} <= {"identical", "uncertain"}


def test_repeats_that_dedupe_drops_are_in_no_group() -> None:
    """There are four amounts, so each partition takes four records."""
    agent = an_agent(count=1, since_first=None, dedupe=Deduplication("field", "amount", horizon=10_000.0))
    scene = Scene(agent, partitions=2)
    scene.play(200, kill=0.3)
    comparison = scene.shadow()
    assert all_identical(comparison)
    assert comparison.results.counts["identical"] == 8


def played(name: str = "both", seed: int = 7, records: int = 120) -> Scene:
    scene = Scene(RULES[name], seed=seed)
    scene.play(records)
    assert all_identical(scene.shadow())
    return scene


def of_reason(scene: Scene, reason: str) -> int:
    """The place in the topic of a result with this reason, from the middle of the topic."""
    places = [i for i, m in enumerate(scene.log.topics["out"][0]) if dict(m.h)["sluicegate-reason"] == reason.encode()]
    return places[len(places) // 2]


@pytest.mark.parametrize("reason", ["count", "timeout"])
def test_a_result_that_is_gone_is_missing_and_nothing_else_is_doubted(reason: str) -> None:
    scene = played()
    whole = figures(scene.shadow())["identical"]
    del scene.log.topics["out"][0][of_reason(scene, reason)]
    comparison = scene.shadow()
    assert figures(comparison) == {"identical": whole - 1, "missing": 1}
    [example] = comparison.results.examples["missing"]
    assert (example.live, example.key in "abcdef") == (None, True)


@pytest.mark.parametrize("name", ["total", "count", "key"])
def test_a_result_with_another_content_is_changed(name: str) -> None:
    scene = played()
    message = scene.log.topics["out"][0][of_reason(scene, "count")]
    document: dict[str, Any] = json.loads(message.v)
    document[name] = 99
    place = scene.log.topics["out"][0].index(message)
    scene.log.topics["out"][0][place] = replace(message, v=json.dumps(document).encode())
    comparison = scene.shadow()
    assert comparison.results.counts["changed"] == 1
    [example] = comparison.results.examples["changed"]
    assert example.differs == (name,)
    assert example.live == example.new


def test_a_result_that_the_input_does_not_give_is_extra() -> None:
    scene = played("count")
    whole = figures(scene.shadow())["identical"]
    message = scene.log.topics["out"][0][of_reason(scene, "count")]
    headers = dict(message.h)
    first = int(headers["sluicegate-first"].rpartition(b"/")[2]) + 1
    published = scene.shadow().published
    _say(scene, message, first)
    comparison = scene.shadow()
    assert figures(comparison) == {"identical": whole, "extra": 1}
    assert comparison.published == published + 1


def _say(scene: Scene, message: Any, first: int) -> None:
    """Publish the message again as the result of a group that begins at `first`."""
    from sluicegate.streams.contracts.ids import fire_ids, output_id
    from sluicegate.streams.contracts.values import Partition

    view = scene.store.read(Partition("app", "sums", "in", 0))
    assert view is not None
    assert view.claim.source is not None
    fire = fire_ids(view.claim.partition, view.claim.source.name)(first)
    new = {"fire": fire, "id": output_id(fire, 0), "first": f"in/0/{first}"}
    headers = [(name, new.get(name.removeprefix("sluicegate-"), value)) for name, value in message.h]
    scene.log.append("out", 0, message.k, message.v, [(n, v.encode() if isinstance(v, str) else v) for n, v in headers])


def test_two_messages_of_one_id_that_differ_are_changed_and_equal_repeats_are_not() -> None:
    scene = played("count")
    message = scene.log.topics["out"][0][of_reason(scene, "count")]
    scene.log.append("out", 0, message.k, message.v, message.h)
    assert all_identical(scene.shadow())
    scene.log.append("out", 0, message.k, message.v.replace(b"3", b"4"), message.h)
    comparison = scene.shadow()
    assert comparison.results.examples["changed"][0].differs == ("repeats of one id",)


def test_a_timeout_before_its_time_is_changed() -> None:
    scene = played("timeout")
    later = replace(scene.agent, aggregation=replace(scene.agent.aggregation, since_first=2.5))  # type: ignore[type-var]
    comparison = scene.shadow(rule=later, live=later)
    early = comparison.results.examples["changed"]
    assert {example.differs for example in early} == {("timeout before its time",)}
    assert scene.agent.aggregation is not None


@pytest.mark.parametrize("gone", [True, False])
def test_a_dead_letter_is_compared_by_its_record(gone: bool) -> None:
    scene = played()
    whole, letters = scene.shadow().dead.counts["identical"], scene.log.topics["dead"][0]
    if gone:
        del letters[3]
    else:
        headers = [(n, b"no-key" if n == "sluicegate-dead-reason" else v) for n, v in letters[3].h]
        letters[3] = replace(letters[3], h=headers)
    comparison = scene.shadow()
    verdict = "missing" if gone else "changed"
    assert (comparison.dead.counts["identical"], comparison.dead.counts[verdict]) == (whole - 1, 1)
    assert comparison.matches({"dead"}) == ["dead"]


def test_state_that_is_not_the_fold_of_the_input_is_found() -> None:
    scene = Scene(RULES["count"])
    for key in "aabbc":
        scene.feed(key, {"amount": 1})
    scene.settle()
    assert scene.shadow().open.counts["identical"] == 3
    row = next(iter(scene.store._rows.values()))
    from sluicegate.streams.aggregation.durable.entry import ChangelogEntry, packed

    number = row.claim.last + 1
    entry = ChangelogEntry(number, 1.0, {b"a": None, b"b": [2, 2, 3, 1.0, None, None, 0, 7, 1, 1]}, {}, {}, {}, {})
    row.entries[number] = packed(entry, False)
    import msgspec

    row.claim = msgspec.structs.replace(row.claim, last=number)
    comparison = scene.shadow()
    assert comparison.open.counts == {"identical": 1, "changed": 1, "missing": 1, "extra": 0, "uncertain": 0}
    assert comparison.open.examples["changed"][0].differs == ("total",)


@pytest.mark.parametrize("seed", range(4))
def test_a_range_within_the_history_is_identical_too(seed: int) -> None:
    scene = played(seed=seed, records=150)
    end = scene.log.high("in", 0)
    for begin, until in ((40, None), (end - 30, None), (20, 90), (0, 75)):
        comparison = scene.shadow(wanted=ShadowRange(since=begin, until=until))
        assert all_identical(comparison), (begin, until, comparison.document())
        assert comparison.records == (until or end) - begin


def test_only_one_key_is_judged() -> None:
    scene = played()
    every, one = scene.shadow(), scene.shadow(only=b"c")
    assert all_identical(one)
    assert 0 < one.results.counts["identical"] < every.results.counts["identical"] / 3


def test_rows_that_are_not_sent_count_as_published() -> None:
    scene = Scene(RULES["count"])
    for _ in range(2):
        scene.feed("a", {"amount": 1})
    scene.settle()
    scene.driver.producer.room = 0
    scene.feed("a", {"amount": 1})
    scene.turn()
    assert scene.log.topics["out"][0] == []
    assert figures(scene.shadow()) == {"identical": 1}


def test_an_added_field_needs_no_clock() -> None:
    scene = played()
    assert scene.agent.aggregation is not None
    compute = (*scene.agent.aggregation.compute, Reducer("most", "max", "amount"))
    comparison = scene.shadow(rule=replace(scene.agent, aggregation=replace(scene.agent.aggregation, compute=compute)))
    assert figures(comparison) == {"changed": comparison.published}
    assert comparison.results.examples["changed"][0].differs == ("most",)
