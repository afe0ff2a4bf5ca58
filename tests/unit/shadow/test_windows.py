"""The shadow of windows: whatever crashed, and wherever the log is cut, what was published is what the input gives."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Destination, Reducer, Selected, Window
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.replaying.shadowing import ShadowRange
from sluicegate.streams.shadow import stops
from sluicegate.streams.windows.replayed import ReplayedGroups
from tests.unit.engine.rebuilding import EPOCH
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import Scene, all_identical, figures

COMPUTE = (Reducer("total", "sum", "n"), Reducer("all", "collect", "n"))
TUMBLING = Window(6.0, time="at", unit="ms", grace=1.0, idle=3.0)
HOPPING = replace(TUMBLING, kind="hopping", size=6.0, every=2.0)
SESSION = replace(TUMBLING, kind="session", size=2.0)
SLIDING = replace(TUMBLING, kind="sliding", size=3.0, grace=3.0)
OVERLAPPING = replace(HOPPING, kind="overlapping")


def windows(window: Window, **keys: Any) -> Agent:
    return an_agent(**{"count": None, "since_first": None, "compute": COMPUTE, "window": window} | keys)


RULES = {
    "tumbling": windows(TUMBLING),
    "tumbling that is never idle": windows(replace(TUMBLING, idle=None)),
    "tumbling with at_most": windows(replace(TUMBLING, idle=None, at_most=8.0)),
    "tumbling with count": windows(TUMBLING, count=3),
    "tumbling with until": windows(TUMBLING, until="group.total >= 20"),
    "tumbling with where": replace(windows(TUMBLING), where="n % 3 != 1"),
    "tumbling with a limit": windows(TUMBLING, max_items=2),
    "tumbling with few groups": windows(TUMBLING, max_groups=2),
    "tumbling with one hot group": windows(TUMBLING, hot_groups=1),
    "tumbling with one hot group and at_most": windows(replace(TUMBLING, idle=None, at_most=8.0), hot_groups=1),
    "tumbling that refuses": windows(TUMBLING, max_groups=2, on_full="dead-letter"),
    "tumbling, late skip": windows(replace(TUMBLING, late="skip")),
    "tumbling, late new": windows(replace(TUMBLING, late="new", gather=2.0)),
    "tumbling, late amend": windows(replace(TUMBLING, late="amend", gather=2.0, keep=20.0)),
    "late amend with one hot group": windows(replace(TUMBLING, late="amend", gather=2.0, keep=20.0), hot_groups=1),
    "tumbling with routes": replace(
        windows(TUMBLING),
        to=None,
        routes=(
            Destination("large", where="total >= 30", goes_on=True),
            Destination("out", select=(Selected("total"), Selected("twice", "total * 2"))),
        ),
    ),
    "tumbling with having": replace(windows(TUMBLING), having="count > 1"),
    "hopping": windows(HOPPING),
    "hopping with at_most": windows(replace(HOPPING, idle=None, at_most=8.0)),
    "hopping with few groups": windows(HOPPING, max_groups=3),
    "overlapping with count": windows(OVERLAPPING, count=3),
    "overlapping with count and one hot group": windows(OVERLAPPING, count=3, hot_groups=1),
    "overlapping, late amend": windows(replace(OVERLAPPING, late="amend", gather=2.0, keep=20.0)),
    "sliding": windows(SLIDING),
    "the last records": windows(replace(SLIDING, size=0.0, last=3)),
    "the last records in a time": windows(replace(SLIDING, last=2)),
    "sliding, late skip": windows(replace(SLIDING, late="skip")),
    "sliding that refuses": windows(SLIDING, max_groups=3, on_full="dead-letter"),
    "sliding with few items": windows(SLIDING, max_items=2, on_full="dead-letter"),
    "sliding with having": replace(windows(SLIDING), having="count > 1"),
    "sessions": windows(SESSION),
    "sessions with at_most": windows(replace(SESSION, idle=None, at_most=4.0)),
    "sessions with count": windows(SESSION, count=3),
    "sessions with one hot group": windows(SESSION, hot_groups=1),
    "sessions with one hot group and at_most": windows(replace(SESSION, idle=None, at_most=4.0), hot_groups=1),
    "sessions, late new": windows(replace(SESSION, late="new", gather=2.0)),
    "sessions, late new with one hot group": windows(replace(SESSION, late="new", gather=2.0), hot_groups=1),
}


class Timed(Scene):
    """As Scene: each record has a number, and a time that is some seconds behind."""

    count = 0

    def record(self) -> None:
        behind = self.random.choice([0.0, 0.0, 0.0, 0.0, 0.4, 1.1, 2.0, 5.0, 9.0, 16.0, -4000.0])
        at = round(1000 * (self.clock.now + EPOCH - behind))
        value: Any = b"{" if self.random.random() < 0.03 else {"n": self.count, "at": at}
        self.count += 1
        self.feed(self.random.choice("abc"), value, self.random.randrange(self.partitions))

    def play(self, records: int, *_: Any, kill: float = 0.0, most: float = 3.0, **__: Any) -> None:
        while self.count < records:
            for _ in range(self.random.randint(1, 7)):
                self.record()
            self.turn()
            self.driver.later(round(self.random.choice([0.1, 0.5, most, 2 * most]), 3))
            self.turn()
            if self.random.random() < kill:
                self.start()
                self.turn(6)
        self.driver.later(0.6)
        self.turn()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(4))
def test_what_a_worker_published_of_windows_is_identical_whatever_crashed(name: str, seed: int) -> None:
    scene = Timed(RULES[name], partitions=2, seed=seed)
    scene.play(random.Random(seed).randint(120, 200), kill=0.2)
    comparison = scene.shadow()
    comparison.open.counts["uncertain"] -= comparison.open.counts["uncertain"] if "having" in name else 0
    assert all_identical(comparison), json.dumps(comparison.document(), indent=1)
    assert comparison.results.counts["identical"] > 10
    assert comparison.records == sum(map(len, scene.log.topics["in"]))


FEW = {"few groups": {"max_groups": 2}, "few items": {"max_items": 2}}


@pytest.mark.parametrize("kind", ["overlapping with count", "sessions", "tumbling", "hopping"])
@pytest.mark.parametrize("few", FEW)
def test_limits_end_windows_where_they_did(kind: str, few: str) -> None:
    rule = RULES[kind]
    assert rule.aggregation is not None
    scene = Timed(replace(rule, aggregation=replace(rule.aggregation, **FEW[few])), seed=31)
    scene.play(200, kill=0.2)
    comparison = scene.shadow()
    assert all_identical(comparison), json.dumps(comparison.document(), indent=1)


@pytest.mark.parametrize("name", ["silence", "limits", "late results"])
def test_twin_without_what_is_known_of_the_clock_differs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "silence":
        monkeypatch.setattr(ReplayedGroups, "silence", lambda self, to, at, now: None)
    else:
        monkeypatch.setattr(stops, "cuts", lambda published, begin, live: ())
    rule = {"limits": "tumbling with few groups", "late results": "tumbling, late amend", "silence": "hopping"}[name]
    all_identicals = []
    for seed in range(4):
        scene = Timed(RULES[rule], partitions=2, seed=seed)
        scene.play(150)
        all_identicals.append(all_identical(scene.shadow()))
    assert not all(all_identicals)


def test_a_range_that_does_not_begin_with_the_agent_is_refused() -> None:
    scene = Timed(RULES["tumbling"], seed=1)
    scene.play(60)
    with pytest.raises(ConfigurationError, match="with windows a shadow must begin where the agent began"):
        scene.shadow(wanted=ShadowRange(since=5))
    assert all_identical(scene.shadow(wanted=ShadowRange()))


@pytest.mark.parametrize("name", ["tumbling with where", "hopping", "sessions with count", "tumbling, late amend"])
def test_wherever_the_range_ends_what_lies_in_it_is_identical(name: str) -> None:
    scene = Timed(RULES[name], seed=5)
    scene.play(90)
    for end in range(0, scene.log.high("in", 0), 3):
        comparison = scene.shadow(wanted=ShadowRange(since=0, until=end))
        assert comparison.results.counts["changed"] == comparison.results.counts["extra"] == 0, (
            end,
            comparison.document(),
        )


def test_a_result_that_is_gone_or_has_another_content_is_found() -> None:
    scene = Timed(RULES["hopping"], seed=3)
    scene.play(120)
    results = scene.log.topics["out"][0]
    whole = scene.shadow().results.counts["identical"]
    place = len(results) // 2
    message = results[place]
    results[place] = replace(message, v=json.dumps(json.loads(message.v) | {"total": -1}).encode())
    outputs = scene.shadow().results
    assert (outputs.counts["identical"], outputs.counts["changed"]) == (whole - 1, 1)
    assert outputs.examples["changed"][0].differs == ("total",)
    del results[place]
    assert scene.shadow().results.counts["missing"] == 1


def test_a_record_that_a_limit_refused_moved_no_watermark() -> None:
    scene = Timed(windows(replace(TUMBLING, grace=0.0, idle=None), max_groups=1, on_full="dead-letter"))
    for key, second in (("a", 10.0), ("b", 11.5), ("a", 10.1)):
        scene.feed(key, {"n": 1, "at": round(1000 * (EPOCH + second))})
    scene.turn()
    scene.settle()
    assert [dict(letter.h)["sluicegate-dead-reason"] for letter in scene.log.topics["dead"][0]] == [b"limit"]
    assert all_identical(scene.shadow())


@pytest.mark.parametrize("name", ["hopping", "sessions", "tumbling with at_most", "tumbling, late new"])
def test_where_windows_may_have_closed_without_a_word_what_differs_is_uncertain(name: str) -> None:
    scene = Timed(replace(RULES[name], having="count > 2"), seed=9)
    scene.play(150, kill=0.2)
    comparison = scene.shadow()
    assert comparison.results.counts["identical"] > 5
    assert (
        comparison.results.counts["missing"]
        == comparison.results.counts["extra"]
        == comparison.results.counts["changed"]
        == 0
    )


@pytest.mark.parametrize("kind", ["tumbling", "tumbling that is never idle"])
@pytest.mark.parametrize("seed", range(5))
def test_where_a_limit_may_have_ended_a_window_without_a_result_what_differs_is_uncertain(kind: str, seed: int) -> None:
    comparison = limited(kind, 2, "count > 1", seed).shadow()
    for part in (comparison.results, comparison.dead, comparison.open):
        assert part.counts["missing"] == part.counts["extra"] == part.counts["changed"] == 0
    assert comparison.results.counts["identical"] > 5
    assert comparison.results.counts["uncertain"] > 0


@pytest.mark.parametrize(("most", "having"), [(50, "count > 1"), (2, "count > 0"), (1, "count > 0")])
def test_where_no_limit_is_reached_or_each_end_has_a_result_all_results_are_certain(most: int, having: str) -> None:
    scene = limited("tumbling", most, having, seed=2)
    assert list(figures(scene.shadow())) == ["identical"]
    results = scene.log.topics["out"][0]
    closed = [place for place, result in enumerate(results) if ("sluicegate-closed", b"event") in result.h]
    del results[closed[-1]]
    assert figures(scene.shadow())["missing"] == 1
    assert "uncertain" not in figures(scene.shadow())


def limited(kind: str, most: int, having: str, seed: int) -> Timed:
    """A scene of a rule that may have this many open groups and omits results."""
    rule = RULES[kind]
    assert rule.aggregation is not None
    scene = Timed(replace(rule, having=having, aggregation=replace(rule.aggregation, max_groups=most)), seed=seed)
    scene.play(100)
    return scene
