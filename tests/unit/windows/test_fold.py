"""The hot loop and the careful way give the same windows, the same dead letters and the same watermark."""

import random
from collections.abc import Collection
from typing import Any, Literal

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Destination, Emit, Reducer, Until, Window
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows import groups as groups_module
from sluicegate.streams.windows import placing
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.marks import is_mark
from sluicegate.streams.windows.opening import groups_of
from sluicegate.streams.windows.sliding import placing as sliding
from tests.unit.windows.turning import an_agent, record

STATS = (Reducer("n", "count"), Reducer("total", "sum", "amount"), Reducer("most", "max", "amount"))
MIXED = (*STATS, Reducer("first", "first", "at"), Reducer("ids", "distinct", "at"))
RULES: dict[str, dict[str, Any]] = {
    "inline": {"compute": STATS},
    "count": {"compute": STATS, "count": 3},
    "until": {"compute": STATS, "until": Until("amount", 5)},
    "first": {"compute": MIXED[:4]},
    "distinct": {"compute": MIXED},
    "key": {"compute": STATS, "key": "at"},
    "few groups": {"compute": STATS, "max_groups": 2},
    "skip": {"compute": STATS, "on_missing": "skip"},
    "few groups, dead letters": {"compute": STATS, "max_groups": 2, "on_full": "dead-letter"},
    "changes": {"compute": STATS[2:], "emit": Emit(on="change")},
    "changes, mixed": {"compute": MIXED, "emit": Emit(on="change", final=False)},
    "changes, count": {"compute": STATS, "emit": Emit(on="change"), "count": 3},
    "full groups": {"compute": STATS, "max_items": 4, "on_full": "dead-letter"},
}
WINDOWS = {
    "timestamp": Window(2.0, 0.5, grace=1.0, at_most=100.0, max_ahead=20.0),
    "ms": Window(2.0, time="at", unit="ms", at_most=100.0, max_ahead=20.0),
    "s": Window(2.0, time="at", unit="s", at_most=100.0, max_ahead=20.0, late="skip"),
    "rfc3339": Window(2.0, time="text", at_most=100.0, max_ahead=20.0),
    "hopping": Window(2.0, 0.25, grace=1.0, at_most=100.0, max_ahead=20.0, kind="hopping", every=0.5),
    "amend": Window(2.0, 0.5, at_most=3.0, max_ahead=20.0, late="amend", keep=4.0, gather=0.5),
    "new": Window(2.0, 0.5, at_most=100.0, max_ahead=20.0, late="new", gather=0.5),
    "new session": Window(0.3, grace=1.0, at_most=100.0, max_ahead=20.0, kind="session", late="new", gather=0.5),
    "session": Window(0.3, grace=1.0, at_most=100.0, max_ahead=20.0, kind="session"),
    "merged": Window(2.0, 0.5, grace=1.0, idle=2.0, at_most=100.0, origins=("re/phones",)),
    "merged hopping": Window(
        2.0, grace=1.0, idle=2.0, at_most=100.0, origins=("re/phones",), kind="hopping", every=0.5
    ),
    "merged amend": Window(2.0, 0.5, at_most=3.0, late="amend", keep=4.0, gather=0.5, origins=("re/phones",)),
    "merged session": Window(0.3, grace=1.0, at_most=100.0, origins=("re/phones",), kind="session"),
    "sliding": Window(0.6, grace=0.5, max_ahead=20.0, kind="sliding"),
    "merged sliding": Window(0.6, grace=0.5, origins=("re/phones",), kind="sliding"),
    "merged last": Window(0.0, grace=0.5, origins=("re/phones",), kind="sliding", last=3),
}
ORIGINS = [f"re/phones/{number}" for number in range(3)]

SLIDING = {"sliding", "merged sliding", "merged last"}
WHOLE = {"amend", "session", "new session", "merged amend", "merged session", *SLIDING}
PARTS = {"count", "until", "changes, count"}  # rules that do not go together with WHOLE
PANES = {"hopping", "merged hopping", *SLIDING}
"""With early results, hopping windows are kept one by one, and sliding windows have none."""


def a_record(chance: random.Random, offset: int) -> LogRecord:
    at = (
        chance.choice([offset * 40, offset * 40 - 1_500, offset * 40 - 5_000, offset * 40 + 500, -1, 10**15, 10**25])
        if chance.random() < 0.5
        else 0
    )
    at = at or offset * 40
    amount = chance.choice(["1", "5", "2.5", "-3", str(2**70)])
    value = f'{{"amount":{amount},"at":{at},"text":"1970-01-01T00:00:{max(0, at) // 1000 % 60:02d}Z"}}'.encode()
    value = (
        chance.choice([b"{", b"[]", b'{"amount":"x"}', value[:-1] + b',"pad":"' + b"x" * 300 + b'"}'])
        if chance.random() < 0.1
        else value
    )
    key = chance.choice([b"a", b"b", b"c", b"", None]) if chance.random() < 0.9 else b"k" * 300_000
    return LogRecord("in", 0, offset, key, None if chance.random() < 0.02 else value, at=at)


def stamped(chance: random.Random, record: LogRecord) -> LogRecord:
    """As a re-keying agent writes it, or nearly; or a time mark in its place."""
    topic = chance.choice(["phones", "phones", "phones", "gone"]) if chance.random() < 0.1 else "phones"
    number = chance.choice([0, 0, 0, 1, 2, 3])
    at = max(0, record.offset() * 40 - 1_000 * number + chance.choice([0, 0, 0, 0, 0, 0, -3_000, 200, 5_000_000]))
    document = {"agent": b"re", "origin": b"%s/%d/%d" % (topic.encode(), number, record.offset()), "time": b"%d" % at}
    if chance.random() < 0.05:
        document |= chance.choice(
            [
                {"time": b"x"},
                {"time": None},
                {"origin": b"\xff/1/1"},
                {"origin": b"phones/1/\xff"},
                {"agent": None},
                {"time": b"-7"},
            ]
        )
    key, value = record.key(), record.value()
    if chance.random() < 0.1:
        key = value = None
        document["state"] = b"%s/%d" % (chance.choice([b"behind", b"at-end", b"idle"]), at)
    headers = [(f"sluicegate-{name}", text) for name, text in document.items()]
    return LogRecord("in", 0, record.offset(), key, value, headers, at=at)


def taken(groups: WindowGroups, chance: random.Random, records: list[LogRecord], now: float) -> None:
    """Some of the records are left out by `where`, or time marks."""
    if groups.merged is not None:
        records = [stamped(chance, record) for record in records]
        left_out = {record.offset() for record in records if is_mark(record)}
    else:
        left_out = {record.offset() for record in records if chance.random() < 0.1}
    groups.accept(records, now, left_out if chance.random() < 0.8 or groups.merged else ())


def outcome(rule: str, window: str, seed: int, folds: bool) -> list[Any]:
    chance = random.Random(seed)
    aggregation = Aggregation(window=WINDOWS[window], **RULES[rule])
    agent = Agent("sums", ("in",), aggregation, Destination("out"), "dead", max_record_bytes=200)
    groups = groups_of(Rule(agent, codec("json")))
    assert isinstance(groups, WindowGroups)
    groups.placing = groups.placing if folds else None
    groups.caught_up = True
    if groups.merged is not None:
        groups.merged.expect(ORIGINS, ["re/phones"])
    findings: list[Any] = []
    offset = 0
    while offset < 300:
        size = chance.choice([1, 5, 40])
        taken(groups, chance, [a_record(chance, offset + i) for i in range(size)], offset * 0.04)
        offset += size
        if chance.random() < 0.3:
            groups.expire(offset * 0.04, 2)
        states = [{group: state and [*state] for group, state in of.items()} for of in (groups.states, groups.touched)]
        findings += [*groups.drain(), groups.event.watermark, *states]
        findings += [dict(groups.counts), dict(groups.closed), groups.origins(whole=True)]
    return findings


Kind = Literal["tumbling", "session"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that are closed wait for their results."""
    monkeypatch.setattr(groups_module, "SLICE", 1)


def differing(seeds: int, windows: Collection[str] = tuple(WINDOWS)) -> list[tuple[str, str, int]]:
    """What the hot loop and the careful way do not agree on."""
    cases = [(rule, window, seed) for rule in RULES for window in windows for seed in range(seeds)]
    cases = [(rule, window, seed) for rule, window, seed in cases if window not in WHOLE or rule not in PARTS]
    cases = [(rule, window, seed) for rule, window, seed in cases if window not in PANES or "emit" not in RULES[rule]]
    return [case for case in cases if outcome(*case, True) != outcome(*case, False)]


@pytest.mark.parametrize("window", WINDOWS)
def test_they_give_the_same(window: str) -> None:
    assert differing(3, [window]) == []


@pytest.mark.parametrize("window", ["ms", "session", "merged hopping"])
def test_a_loop_that_takes_records_while_closed_windows_wait_is_found(
    window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "bound_of", lambda windows, furthest: furthest + 1)
    assert differing(6, [window])


@pytest.mark.parametrize(
    ("code", "other"),
    [
        ("event.reading = origin", "pass"),
        ("event.read(time)", "False"),
        ("watermark = event.watermark", "pass"),
        ("groups.close_passed(now)", "pass"),
    ],
)
def test_a_loop_of_sliding_windows_over_a_repartitioned_topic_that_is_wrong_is_found(
    code: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code in sliding._ORIGIN_MOVES
    monkeypatch.setattr(sliding, "_ORIGIN_MOVES", sliding._ORIGIN_MOVES.replace(code, other))
    assert differing(6, ["merged sliding", "merged last"])


@pytest.mark.parametrize("folds", [True, False])
def test_a_record_may_remove_all_earlier_ones_of_its_key(folds: bool) -> None:
    assert counts_of_three(folds) == [1, 1, 2]


def test_a_line_that_is_no_longer_that_of_its_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = sliding._ORIGIN_MOVES.replace("line = line_of(key)", "pass")
    monkeypatch.setattr(sliding, "_ORIGIN_MOVES", moves)
    assert counts_of_three(True) == [1, 1, 1]


def counts_of_three(folds: bool) -> list[int]:
    """The counts of the results of three records of one key over a repartitioned topic, in sliding windows."""
    window = Window(0.6, grace=0.5, origins=("re/phones",), kind="sliding")
    groups = groups_of(Rule(an_agent(window), codec("json")))
    assert isinstance(groups, WindowGroups)
    assert groups.merged is not None
    assert groups.placing is not None
    groups.merged.expect(["re/phones/0"], ["re/phones"])
    groups.placing = groups.placing if folds else None
    groups.accept([re_keyed(0, b"a", 0), re_keyed(1, b"a", 10_000), re_keyed(2, b"a", 10_000)], 10.0)
    return [event.count for event in groups.drain() if isinstance(event, Fire)]


@pytest.mark.parametrize("kind", ["tumbling", "session"])
@pytest.mark.parametrize("folds", [True, False])
def test_a_window_that_a_record_closes_which_is_left_out_takes_no_more_records(folds: bool, kind: Kind) -> None:
    groups = groups_of(Rule(an_agent(Window(0.3, at_most=None, idle=None, kind=kind)), codec("json")))
    assert isinstance(groups, WindowGroups)
    groups.placing = groups.placing if folds else None
    passed = record(2, b"c", 10_000)  # it closes both windows, and the second one waits for its result
    groups.accept([record(0, b"a", 0), record(1, b"b", 100), passed, record(3, b"b", 200)], 10.0, {2})
    groups.expire(10.0, 9)
    events = [(event.first, event.count) if isinstance(event, Fire) else event.reason for event in groups.drain()]
    assert events == [(0, 1), "late", (1, 1)]


@pytest.mark.parametrize("folds", [True, False])
def test_a_window_over_a_repartitioned_topic_may_open_and_close_within_one_batch(folds: bool) -> None:
    groups = groups_of(Rule(an_agent(Window(2.0, idle=None, at_most=None, origins=("re/phones",))), codec("json")))
    assert isinstance(groups, WindowGroups)
    assert groups.merged is not None
    groups.merged.expect(["re/phones/0"], ["re/phones"])
    groups.placing = groups.placing if folds else None
    groups.accept([re_keyed(0, b"a", 0), re_keyed(1, b"b", 10_000), re_keyed(2, b"a", 500)], 10.0)
    events = [(event.first, event.count) if isinstance(event, Fire) else event.reason for event in groups.drain()]
    assert events == [(0, 1), "late"]


@pytest.mark.parametrize("folds", [True, False])
def test_a_window_may_open_and_close_within_one_batch(folds: bool) -> None:
    groups = groups_of(Rule(an_agent(Window(2.0, idle=None, at_most=None)), codec("json")))
    assert isinstance(groups, WindowGroups)
    groups.placing = groups.placing if folds else None
    groups.accept([record(0, b"a", 0), record(1, b"b", 10_000), record(2, b"a", 500)], 10.0)
    events = [(event.first, event.count) if isinstance(event, Fire) else event.reason for event in groups.drain()]
    assert events == [(0, 1), "late"]


def re_keyed(offset: int, key: bytes, at: int) -> LogRecord:
    document = {"agent": b"re", "origin": b"phones/0/%d" % offset, "time": b"%d" % at}
    headers = [(f"sluicegate-{name}", text) for name, text in document.items()]
    return LogRecord("in", 0, offset, key, b'{"amount":1}', headers)


@pytest.mark.parametrize("folds", [True, False])
def test_a_record_that_ends_the_silence_of_its_origin_may_be_late(folds: bool) -> None:
    """The origin had the highest time when it became idle, so its next record moves the watermark beyond itself."""
    window = Window(600.0, idle=2.0, at_most=None, origins=("re/phones",), kind="sliding")
    groups = groups_of(Rule(an_agent(window), codec("json")))
    assert isinstance(groups, WindowGroups)
    assert groups.merged is not None
    groups.merged.expect(["re/phones/0", "re/phones/1"], ["re/phones"])
    groups.placing = groups.placing if folds else None
    steps = (0, 100, ""), (1, 50, ""), (0, 100, "idle"), (1, 50, "idle"), (0, 60, "")
    for offset, (origin, at, state) in enumerate(steps):
        document = {"agent": b"re", "origin": b"phones/%d/%d" % (origin, offset), "time": b"%d" % (1_000 * at)}
        document |= {"state": b"%s/200000" % state.encode()} if state else {}
        headers = [(f"sluicegate-{name}", text) for name, text in document.items()]
        key, value = (None, None) if state else (b"%d" % offset, b'{"amount":1}')
        groups.accept([LogRecord("in", 0, offset, key, value, headers, at=0)], 300.0, {offset} if state else ())
    events = [event.first if isinstance(event, Fire) else event.reason for event in groups.drain()]
    assert events == [0, 1, "late"]
