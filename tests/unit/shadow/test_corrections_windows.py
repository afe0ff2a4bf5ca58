"""Corrections of windows: each published result is replaced, and each record is where the rule puts it."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from sluicegate.streams.agent import Agent, Reducer, Window
from sluicegate.streams.shadow import corrections
from tests.unit.shadow.scene import all_identical
from tests.unit.shadow.test_corrections import Corrector
from tests.unit.shadow.test_windows import RULES, Timed

MORE = Reducer("largest", "max", "n")


def changed(agent: Agent, **window: object) -> Agent:
    """With a further computed field, and this of its window."""
    rule = agent.aggregation
    assert rule is not None
    assert rule.window is not None
    made: Window = replace(rule.window, **window)  # type: ignore[arg-type]
    return replace(agent, aggregation=replace(rule, window=made, compute=(*rule.compute, MORE)))


def played(name: str, seed: int) -> Timed:
    scene = Timed(RULES[name], partitions=2, seed=seed)
    scene.play(120, kill=0.1)
    assert all_identical(scene.shadow())
    return scene


def published(scene: Timed) -> dict[str, dict[str, object]]:
    """By id, the documents in `out`."""
    topic = [message for part in scene.log.topics["out"] for message in part]
    return {dict(message.h)["sluicegate-id"].decode(): json.loads(message.v) for message in topic}


@pytest.mark.parametrize(
    "name", ["tumbling", "tumbling with count", "tumbling, late amend", "hopping", "overlapping with count", "sessions"]
)
@pytest.mark.parametrize("seed", range(3))
def test_under_a_rule_with_another_field_each_result_is_replaced_by_itself(name: str, seed: int) -> None:
    scene = played(name, seed)
    corrector = Corrector(scene, changed(RULES[name]))
    corrector.run()
    results, rest = published(scene), Counter[str]()
    for record in corrector.sent():
        headers, document = dict(record.headers()), json.loads(record.value())
        names = headers["sluicegate-replaces"].decode().split(",")
        rest.update(names)
        assert document.pop("largest") == max(document["all"])
        assert document in [results[name] for name in names]
    assert rest.keys() == results.keys()


def spread(scene: Timed, corrector: Corrector) -> list[int]:
    """The records of all corrections."""
    return sorted(number for record in corrector.sent() for number in json.loads(record.value()).get("all", ()))


@pytest.mark.parametrize("window", [{"size": 3.0}, {"size": 12.0}, {"grace": 4.0}])
@pytest.mark.parametrize("seed", range(3))
def test_under_other_windows_each_record_is_in_one_correction(window: dict[str, float], seed: int) -> None:
    scene = played("tumbling", seed)
    corrector = Corrector(scene, changed(RULES["tumbling"], **window))
    replay = corrector.run()
    results, rest = published(scene), set[str]()
    for record in corrector.sent():
        rest.update(dict(record.headers())["sluicegate-replaces"].decode().split(","))
    assert rest - {""} >= results.keys()
    numbers = spread(scene, corrector)
    assert len(numbers) == len(set(numbers))
    assert len(numbers) + sum(correction.refused for correction in replay.corrected) <= scene.count
    known = {number for result in results.values() for number in result["all"]}  # type: ignore[attr-defined]
    lost = known - set(numbers)
    assert len(lost) <= sum(correction.refused for correction in replay.corrected)


def test_twin_that_looks_at_offsets_alone_replaces_other_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "_overlap", lambda live, window: True)
    several = 0
    for seed in range(3):
        corrector = Corrector(played("tumbling", seed), changed(RULES["tumbling"]))
        corrector.run()
        several += sum(b"," in dict(message.headers())["sluicegate-replaces"] for message in corrector.sent())
    assert several > 0


def test_the_document_of_a_result_of_which_nothing_is_left_names_its_window() -> None:
    scene = played("hopping", 1)
    corrector = Corrector(scene, replace(changed(RULES["hopping"]), where="n < 60"))
    corrector.run()
    gone = [message for message in corrector.sent() if json.loads(message.value())["count"] == 0]
    results = published(scene)
    assert len(gone) > 5
    for record in gone:
        headers = dict(record.headers())
        window = results[headers["sluicegate-replaces"].decode()]["window"]
        assert isinstance(window, dict)
        assert headers["sluicegate-window"].decode() == f"{window['start']}/{window['end']}"
