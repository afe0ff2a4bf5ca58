"""Windows over a re-keyed topic whose groups are rows of the store: the least time of the input partitions closes
them."""

from dataclasses import replace

import pytest

from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.operations.groups.open_groups import open_groups, why
from tests.unit.engine.scene import dead
from tests.unit.engine.test_origins import OWN, SECOND, Scene

PLACES = [Partition("app", "a", "keyed", number) for number in (0, 1)]
KEYS = [f"key-{number:02}" for number in range(20)]


def scene_of(kind: str, clock: object, store: object) -> Scene:
    assert SECOND.aggregation is not None
    rule = replace(SECOND.aggregation, window=replace(OWN, kind=kind), hot_groups=2)
    scene = Scene(clock, store, second=replace(SECOND, aggregation=rule))  # type: ignore[arg-type]
    for at, key in enumerate(KEYS):
        scene.put(at % 2, (key, at, 1 + at))
        scene.run(1)
    return scene


def rows(scene: Scene) -> int:
    return sum(bool(row.state) for place in PLACES for row in scene.store.keys(place, None, 100))


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_the_least_time_of_the_input_partitions_closes_cold_groups(kind: str, clock: object, store: object) -> None:
    scene = scene_of(kind, clock, store)
    assert rows(scene) >= 12
    scene.put(0, *[(key, 300, 0) for key in KEYS])
    scene.run(3, 0)
    assert scene.results == []
    scene.put(1, ("z", 59, 100))  # it is not late, and its origin holds the watermark back
    scene.run()
    assert (scene.results, dead(scene.log)) == ([], [])
    scene.put(1, ("z", 300, 0))
    scene.run(6)
    begins = {key: at for at, key in enumerate(KEYS)} if kind == "session" else dict.fromkeys(KEYS, 0)
    ended = [(key, begins[key], 1 + at, "event") for at, key in enumerate(KEYS)]
    assert sorted(scene.results)[:-1] == sorted(ended)
    assert sorted(scene.results)[-1][::2] == ("z", 100)
    assert dead(scene.log) == []


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_idle_origins_close_cold_groups_by_silence(kind: str, clock: object, store: object) -> None:
    scene = scene_of(kind, clock, store)
    scene.run(150)
    assert [(key, total, by) for key, _, total, by in sorted(scene.results)] == [
        (key, 1 + at, "idle") for at, key in enumerate(KEYS)
    ]
    assert rows(scene) == 0


def test_why_names_the_origin_that_holds_a_cold_group_back(clock: object, store: object) -> None:
    scene = scene_of("tumbling", clock, store)
    scene.put(0, ("key-00", 200, 0))
    scene.run(1, 0)
    agent = scene.second.agent
    group = next(iter(open_groups(scene.store, "app", agent, b"key-05")))
    assert "held back by in/1 (a.repartition said at " in why(group, agent)
