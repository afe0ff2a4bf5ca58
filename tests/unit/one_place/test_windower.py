"""A kind of windows that one file and its entry add works in `check`, `test --crash`, Avro results, `plan`, the schema
of the file, Python, `replay --rebuild` and `--shadow`."""

import json

import pytest

from tests.unit.one_place.copy import Copy

FILE = "streams/windows/following.py"
GROUPS = '''
"""Following windows: one begins with each record of a key. It has the records behind it in the partition whose times
are less than the size after its own. With `count: N` it is a window of N records that follow each other."""

from typing import Any

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.accept import put
from sluicegate.streams.aggregation.layout import Bags, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.room import expected
from sluicegate.streams.windows.tumbling import Span, key_of, name

BEGIN = -1
"""The last slot of a state: the time of the first record, in milliseconds since 1970."""


class FollowingGroups(WindowGroups):
    """The name of a group is the offset of the record that opened it, and its key. `windows` are those of each key."""

    __slots__ = ("_at", "windows")

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, window, notes)
        self._at, self.windows = 0, dict[bytes, list[bytes]]()

    def _placed(self) -> None:
        """A record has several groups."""

    def span(self, group: bytes, state: GroupState) -> Span:
        return self._from(state[BEGIN])

    def _from(self, begin: int) -> Span:
        return Span(begin, begin + self.tumbling.size, self.tumbling.closes(begin))

    def named(self, key: bytes, first: int, start: int) -> bytes:
        return name(first, key)

    def groups_of(self, record: Record, key: bytes, time: int) -> tuple[bytes, ...]:
        spans = [(group, self.span(group, self.states[group])) for group in self.windows.get(key, ())]
        watermark = self.event.watermark
        joined = (group for group, span in spans if span.start <= time < span.end and span.closes > watermark)
        return (*joined, name(record.offset(), key))

    def count(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> bool:
        if self._from(time).closes <= self.event.watermark:
            self._late(record, self._from(time))
            return True
        names = self.groups_of(record, key, time)
        if not expected(self, names, record, self.event.watermark, read, items, now):
            return False
        self._at = time
        for group in names:
            put(self, group, record, read, items, now)
        return True

    def _opened(self, group: bytes, state: GroupState, now: float) -> None:
        state[BEGIN] = self._at
        names = self.windows.setdefault(key_of(group), [])
        if group not in names:
            names.append(group)

    def drop(self, key: bytes) -> tuple[GroupState, Bags]:
        self.windows[key_of(key)].remove(key)
        return super().drop(key)

    def rearm(self) -> None:
        super().rearm()
        self.windows.clear()
        for group in self.states:
            self.windows.setdefault(key_of(group), []).append(group)
'''
ENTRY = """_FOLLOWING = Windower(
    "following",
    "following:FollowingGroups",
    (WindowKey("following", "The size of a window. One begins with each record of a key.", "10m"),),
    "groups by windows of {size} of {time}, one from each record on",
    slots=1,
    overlaps=True,
    untaken=dict.fromkeys((AMEND, "new"), "does not go together with following: a late record begins a window itself"),
)
ENTRIES += (_FOLLOWING,)
"""
APP = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
http: false
dead_letters: dead
agents:
  log_ins:
    from: in
    aggregate:
      count: 3
      window: {following: 1m, grace: 5s, idle: never}
      compute: {total: {sum: n}, all: {collect: n}}
    to: {topic: out, format: avro}
tests:
  the last three records are a result, and time ends a window with fewer:
    - send: {topic: in, key: a, value: {n: 1}, at: +10s, partition: 0}
    - send: {topic: in, key: a, value: {n: 2}, at: +20s, partition: 0}
    - send: {topic: in, key: b, value: {n: 9}, at: +25s, partition: 0}
    - send: {topic: in, key: a, value: {n: 3}, at: +30s, partition: 0}
    - expect: {topic: out, key: a, value: {total: 6, all: [1, 2, 3], reason: count}}
    - send: {topic: in, key: a, value: {n: 4}, at: +75s, partition: 0}
    - expect: {topic: out, key: a, value: {total: 9, all: [2, 3, 4], reason: count}}
    - send: {topic: in, key: a, value: {n: 5}, at: +95s, partition: 0}
    - expect: {topic: out, key: b, value: {total: 9, reason: window}}
    - expect: {topic: out, key: a, value: {total: 7, all: [3, 4], reason: window}}
    - send: {topic: in, key: b, value: {n: 0}, at: +300s, partition: 0}
    - expect: {topic: out, key: a, value: {all: [4, 5], reason: window}}
    - expect: {topic: out, key: a, value: {all: [5], reason: window}}
"""
REPLAYS = """
import json
import random
from collections import Counter, defaultdict

from sluicegate.streams.agent import Window
from tests.unit.engine.test_rebuild_windows import Windows
from tests.unit.shadow.scene import all_identical, figures
from tests.unit.shadow.test_windows import Timed, windows

FOLLOWING = Window(6.0, time="at", unit="ms", grace=1.0, idle=None, kind="following")
agent = windows(FOLLOWING, count=3)


def recounted(records):
    # by the definition alone: the windows that are complete, and those that time has closed
    opened, results, watermark = defaultdict(list), Counter(), -1
    for key, number, at in records:
        watermark = max(watermark, at)
        for window in [each for of_key in opened.values() for each in of_key if each[0] + 7000 <= watermark]:
            opened[window[2]].remove(window)
            results[tuple(window[1])] += 1
        if at + 7000 <= watermark:
            continue
        for window in opened[key]:
            if window[0] <= at < window[0] + 6000:
                window[1].append(number)
        opened[key].append((at, [number], key))
        for window in [each for each in opened[key] if len(each[1]) == 3]:
            opened[key].remove(window)
            results[tuple(window[1])] += 1
    return results


shadows = []
for seed in range(4):
    scene = Timed(agent, partitions=1, seed=seed)
    scene.play(150, kill=0.2)
    verdicts = scene.shadow()
    assert all_identical(verdicts), verdicts.document()
    refused = {int(dict(record.h)["sluicegate-dead-offset"]) for record in scene.log.topics["dead"][0]}
    taken = [record for record in scene.log.topics["in"][0] if record.o not in refused]
    assert 0 < len(refused) < 75
    expected = recounted([(record.k, (value := json.loads(record.v))["n"], value["at"]) for record in taken])
    sent = {dict(record.h)["sluicegate-id"]: record for record in scene.log.topics["out"][0]}  # some are sent twice
    results = Counter(tuple(json.loads(record.v)["all"]) for record in sent.values())
    assert results == expected, (results - expected, expected - results)
    shadows += figures(verdicts)

rebuilt = 0
for seed in range(6):
    chance = random.Random(seed)
    world = Windows(agent)
    for _ in range(12):
        behind = [(chance.choice("abc"), chance.choice([0.0, 0.0, 0.7, 2.0, 6.0])) for _ in range(5)]
        world.step("work", behind)
        world.step("later", chance.choice([0.5, 2.0, 6.0]))
        if chance.random() < 0.4:
            world.step("lose", None)
            rebuilt += 1
print(json.dumps([shadows, rebuilt]))
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("product"))
    copy.write(FILE, GROUPS)
    copy.put("streams/windowers.py", "WINDOWERS = {", ENTRY)
    copy.write("shop.yaml", APP)
    return copy


def test_check_says_how_it_groups(product: Copy) -> None:
    assert "groups by windows of 1 min of the record's timestamp, one from each record on" in product.command(
        "check", "shop.yaml"
    )


def test_its_tests_pass_with_a_death_at_every_place(product: Copy) -> None:
    assert "1 test" in product.command("test", "shop.yaml", "--crash")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("following: 1m", "following: 1m, tumbling: 1m", "names tumbling and following: a window is of one kind"),
        (
            "following: 1m",
            "following: 1m, every: 10s",
            "every: does not go together with following; leave it out, or write",
        ),
        ("following: 1m", "following: 1m, offset: 10s", "offset: does not go together with following"),
        (
            "following: 1m",
            "following: 1m, late: {amend: 1h}",
            "late: does not go together with following: a late record",
        ),
        ("following: 1m", "folowing: 1m", "did you mean following?"),
        ("following: 1m", "following: soon", "window.following: is not a duration"),
    ],
)
def test_check_names_what_is_wrong(product: Copy, before: str, after: str, problem: str) -> None:
    product.write("wrong.yaml", APP.replace(before, after))
    assert problem in product.command("check", "wrong.yaml", code=2)


def test_the_schema_of_the_file_has_it(product: Copy) -> None:
    window = json.loads(product.command("schema"))["$defs"]["WindowModel"]
    assert window["properties"]["following"]["description"].startswith("The size of a window.")
    assert {"required": ["following"]} in window["oneOf"]


def test_a_changed_size_is_a_change_of_how_the_input_is_read(product: Copy) -> None:
    product.write("after.yaml", APP.replace("following: 1m", "following: 2m"))
    planned = product.command("plan", "after.yaml", "--against", "shop.yaml", "--no-replay", code=4)
    assert "aggregate.window.following 60 -> 120" in planned
    assert "class: how the input is read" in planned


def test_its_results_are_a_recount_and_a_replay_finds_and_rebuilds_them(product: Copy) -> None:
    shadows, rebuilt = json.loads(product.program(REPLAYS).splitlines()[-1])
    assert set(shadows) == {"identical"}
    assert rebuilt > 10
