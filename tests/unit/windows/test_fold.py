"""The hot loop and the careful way give the same windows, the same dead letters and the same watermark."""

import random
from typing import Any

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer, Until, Window
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows import fold as fold_module
from sluicegate.streams.windows import fold_sessions as fold_sessions_module
from sluicegate.streams.windows import groups as groups_module
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.opening import groups_of

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
}

WHOLE, PARTS = {"amend", "session", "new session"}, {"count", "until"}  # they do not go together


def a_record(chance: random.Random, offset: int) -> LogRecord:
    at = (
        chance.choice([offset * 40, offset * 40 - 5_000, offset * 40 + 500, -1, 10**15, 10**25])
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


def outcome(rule: str, window: str, seed: int, folds: bool) -> list[Any]:
    chance = random.Random(seed)
    aggregation = Aggregation(window=WINDOWS[window], **RULES[rule])
    agent = Agent("sums", ("in",), aggregation, Destination("out"), "dead", max_record_bytes=200)
    groups = groups_of(Rule(agent, codec("json")))
    assert isinstance(groups, WindowGroups)
    groups._folds = groups._folds and folds
    groups.caught_up = True
    found: list[Any] = []
    offset = 0
    while offset < 300:
        size = chance.choice([1, 5, 40])
        groups.accept([a_record(chance, offset + i) for i in range(size)], offset * 0.04)
        offset += size
        if chance.random() < 0.3:
            groups.expire(offset * 0.04, 2)
        states = [{group: state and [*state] for group, state in of.items()} for of in (groups.states, groups.touched)]
        found += [*groups.drain(), groups.event.watermark, *states]
        found += [dict(groups.counts), dict(groups.closed)]
    return found


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that are closed wait for their results."""
    monkeypatch.setattr(groups_module, "SLICE", 1)


def differing(seeds: int = 2) -> list[tuple[str, str, int]]:
    cases = [(rule, window, seed) for rule in RULES for window in WINDOWS for seed in range(seeds)]
    cases = [(rule, window, seed) for rule, window, seed in cases if window not in WHOLE or rule not in PARTS]
    return [case for case in cases if outcome(*case, True) != outcome(*case, False)]


def test_they_give_the_same() -> None:
    assert differing() == []


@pytest.mark.parametrize(("module", "session"), [(fold_module, False), (fold_sessions_module, True)])
def test_a_loop_that_takes_records_while_closed_windows_wait_is_found(
    module: Any, session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "bound_of", lambda windows, latest: latest + 1)
    found = {window for _, window, _ in differing(6 if session else 2)}
    assert bool(found & {"session", "new session"}) is session
    assert bool(found - {"session", "new session"}) is not session
