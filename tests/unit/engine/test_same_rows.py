"""The loop that makes rows of results makes the same rows as `Rows` makes one by one, with the same numbers."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Emit, EventEnvelope, Window
from sluicegate.streams.aggregation.events import REASONS, Closing, Event, Fire, GroupEnded, Sent, Unhandled
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.errors import GroupFault, SluicegateError
from sluicegate.streams.outbox.row_loop import RowForm, form_of, row_loop
from sluicegate.streams.outbox.rows import Rows
from tests import judged
from tests.unit.engine.scene import an_agent
from tests.unit.engine.test_rows import PLACE, TOPIC_ID, Facts

SEEDS = 40
WINDOWS = {
    "none": None,
    "shared": Window(10.0, kind="hopping", every=5.0),
    "own": Window(10.0, kind="sliding", grace=1.0),
}


def an_agent_of(windows: str, emits: bool, routed: bool, random_: random.Random) -> Agent:
    agent = an_agent(window=WINDOWS[windows], emit=Emit(every=1.0) if emits else None)
    if routed:
        to = agent.outputs[0]
        envelope = EventEnvelope("binary", "t") if random_.random() < 0.5 else None
        agent = replace(
            agent, to=None, routes=(replace(to, where="count > 1"), replace(to, topic="other", envelope=envelope))
        )
    return replace(agent, history="past" if random_.random() < 0.3 else "")


def a_window(random_: random.Random) -> Closing:
    start = random_.choice((0, -5, 1_700_000_000_000, 10**17)) + random_.randrange(100_000)
    by = random_.choice(("", "event", "late", "idle", "at_most"))
    numbers = start, start + random_.randrange(20_000), by, random_.randrange(10**13), random_.choice((1, 1, 2, 7))
    return Closing(*numbers, random_.choice((-1, 99)), random_.random() < 0.5, random_.random() < 0.5)


def a_fire(form: RowForm, random_: random.Random) -> Fire:
    """Most results have the form of the agent."""
    routed, windowed, early = (random_.random() < 0.95 for _ in range(3))
    first = random_.randrange(10**6)
    values: list[Any] = [random_.randrange(1000), 0.5, "ü\x01", None, [1, "a"], {"a": 1}, "x" * 3000]
    fields = {name: random_.choice(values) for name in ("total", "key", "count")[: random_.randrange(4)]}
    if random_.random() < 0.1:
        fields["total"] = random_.choice((object(), 2**70, float("nan")))
    outputs = tuple((random_.randrange(2), {"a": random_.choice(values)}) for _ in range(random_.randrange(3)))
    return Fire(
        random_.choice((b"", b"key", b'"\x00', b"\xff\xfe", "ü".encode(), b"k" * 2000)),
        random_.randrange(1, 300),
        random_.choice((*REASONS, "window", "early", "merged", "drop", "of-an-operator")),
        first,
        first + random_.randrange(1000),
        random_.choice((0.0, -1e12, 1_700_000_000.1234, 1e15)),
        1_700_000_009.0 + random_.randrange(3),
        random_.choice((None, "00-4bf9-00f0-01", "ü")),
        fields,
        (1, 2) if random_.random() < 0.1 else (),
        outputs if form.routed == routed else None,
        a_window(random_) if (form.windows != "none") == windowed else None,
        random_.choice((0, 0, 3)),
        random_.choice((None, None, None, 0, 1, -1)),
        random_.choice((1, 1, 2, 5)) if form.emits == early else 1,
        random_.random() < 0.5 if form.emits == early else None,
    )


def some_events(form: RowForm, random_: random.Random) -> list[Event]:
    events: list[Event] = []
    for _ in range(random_.randrange(12)):
        fire = a_fire(form, random_)
        events.append(fire)
        if random_.random() < 0.2:
            events.append(Unhandled(fire, "no", 1))
        if random_.random() < 0.2:
            events.append(GroupEnded(changed(fire, values={}, outputs=None)))
    return events


def made(rows: Rows, events: list[Event]) -> object:
    """The rows and the last number; or the error, and the number at which it was raised."""
    try:
        return rows.make(events), rows.number
    except (SluicegateError, GroupFault) as error:
        return type(error), str(error), rows.number


@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("emits", [False, True])
@pytest.mark.parametrize("windows", WINDOWS)
def test_the_loop_makes_the_rows_that_each_result_has(
    windows: str, emits: bool, routed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful, in_loop = Counter[Rows](), 0
    rows_of = Rows._rows

    def counted(self: Rows, event: Event, ends: Any) -> Any:
        careful[self] += isinstance(event, Fire)
        return rows_of(self, event, ends)

    monkeypatch.setattr(Rows, "_rows", counted)
    for seed in range(SEEDS):
        random_ = random.Random(f"{windows} {emits} {routed} {seed}")
        agent = an_agent_of(windows, emits, routed, random_)
        form, most = form_of(agent, routed), random_.choice((1_000_000, 4_000))
        assert form == RowForm(windows, emits, routed)  # type: ignore[arg-type]
        fast, exact = (Rows(PLACE, agent, codec("json"), Facts(), most) for _ in range(2))
        assert fast._loop is row_loop(form).call
        exact._loop = None
        for rows in (fast, exact):
            rows.under_rule = seed % 3 > 0
            rows.begin("lineage-1", 41, TOPIC_ID)
        for _ in range(5):
            events = some_events(form, random_)
            assert made(fast, events) == made(exact, events)
        in_loop += careful[exact] - careful[fast]
    judged.wrong.clear()  # the values are no results of a rule
    assert in_loop > SEEDS


def a_message(random_: random.Random) -> Sent:
    headers: list[Header] = [("mine", b"\xfe"), ("none", None), ("traceparent", b"00-1"), ("sluicegate-id", b"x")]
    topic, key = random_.choice(("out", "other")), random_.choice((None, b"", b"key", b"\xff"))
    value = random_.choice((None, b"", b"{}", b"x" * 5000))
    rest = topic, key, value, headers[: random_.randrange(5)], random_.choice((None, "00-4bf9", "ü"))
    return Sent(f"fire-{random_.randrange(100)}", random_.randrange(5), *rest, random_.choice((-1, 0, 1)))


def test_the_loop_makes_the_rows_that_each_message_has() -> None:
    for seed in range(SEEDS):
        random_ = random.Random(seed)
        to = an_agent().outputs[0]
        routes = replace(to, where="true"), replace(to, topic="other", envelope=EventEnvelope("binary", "t"))
        agent = replace(an_agent(), aggregation=None, to=None, routes=routes)
        fast, exact = (Rows(PLACE, agent, codec("json"), Facts(), 4_000) for _ in range(2))
        assert fast._loop is row_loop(None).call
        exact._loop = None
        for rows in (fast, exact):
            rows.begin("lineage-1", 41, TOPIC_ID)
        for _ in range(5):
            events: list[Event] = [a_message(random_) for _ in range(random_.randrange(9))]
            assert made(fast, events) == made(exact, events)
