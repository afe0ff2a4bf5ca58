"""Rules, timed input, and ways to run it: what the property tests draw."""

import json
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from sluicegate.streams.agent import Agent, Aggregation, Reducer, Until
from tests.unit.aggregation import formats
from tests.unit.aggregation.oracle import Oracle
from tests.unit.aggregation.turning import Turned, an_agent, record

MODULE = "tests.unit.aggregation.formats"
FUNCTIONS = {f"{MODULE}:{name}": getattr(formats, name) for name in ("widest", "texts")}
BACKWARDS = f"{MODULE}:backwards"
POOL = (
    Reducer("a_count", "count"),
    Reducer("sum", "sum", "n"),
    Reducer("least", "min", "n"),
    Reducer("most", "max", "n"),
    Reducer("mean", "mean", "n"),
    Reducer("mean_x", "mean", "d.x"),
    Reducer("sum_x", "sum", "d.x"),
    Reducer("first", "first", "s"),
    Reducer("last", "last", "s"),
    Reducer("kinds", "distinct", "s"),
    Reducer("numbers", "distinct", "n"),
    Reducer("rows", "collect"),
    Reducer("also", "collect", "n"),
    Reducer("texts", "collect", "s"),
    Reducer("width", "reduce", None, f"{MODULE}:widest"),
    Reducer("joined", "reduce", None, f"{MODULE}:texts"),
)
KEYS = (b"a", b"b", b"c", b"", b"\xff\x00", "ü".encode())
BROKEN = (b"{", b"nope", b'{"n":1} x', b"\xff", b"", b'{"n":1,}')


class Step(NamedTuple):
    """At `now` a record comes, or (no record) time has passed."""

    now: float
    record: tuple[bytes | None, bytes | None] | None


numbers = st.one_of(
    st.integers(-5, 5),
    st.integers(2**62, 2**66),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.sampled_from([0.5, 1.0, 1, -0.0, -(2**80)]),
)
# may be keys: their text has one form only
simple = st.one_of(st.integers(-3, 3), st.sampled_from([2**70, 0.5, 1.0, -2.25]))
wrong = st.sampled_from([None, True, "7", [1], {"x": 1}])
texts = st.sampled_from(["", "x", "Ünï", "long " * 12, 'q"\\'])
documents = st.fixed_dictionaries(
    {},
    optional={
        "n": st.one_of(numbers, numbers, numbers, wrong),
        "s": st.one_of(texts, texts, st.sampled_from([None, True, 1, 1.0, {"b": 1, "a": [2]}])),
        "d": st.one_of(
            st.fixed_dictionaries({}, optional={"x": st.one_of(simple, wrong)}), st.sampled_from([None, 5, "d"])
        ),
        "done": st.sampled_from([True, False, 1, None]),
    },
)
whole = st.fixed_dictionaries({"n": numbers, "s": texts, "d": st.fixed_dictionaries({"x": simple})})
values = st.one_of(
    *[whole.map(lambda v: json.dumps(v).encode())] * 4,
    documents.map(lambda v: json.dumps(v).encode()),
    st.sampled_from([*BROKEN, None]),
)
steps = st.tuples(
    st.sampled_from([0.0, 0.0, 0.0, 1.0, 4.0, 11.0]),
    st.one_of(st.none(), *[st.tuples(st.sampled_from([*KEYS, KEYS[0], None]), values)] * 5),
)


@st.composite
def timelines(draw: Any) -> list[Step]:
    now, timeline = 100.0, []
    for wait, taken in draw(st.lists(steps, max_size=40)):
        now += wait
        timeline.append(Step(now, taken))
    return timeline


@st.composite
def rules(draw: Any) -> Aggregation:
    compute = tuple(draw(st.lists(st.sampled_from(POOL), max_size=6, unique_by=lambda r: r.name)))
    weighed = [r for r in compute if r.kind in ("distinct", "collect")]
    only_rows = bool(weighed) and all(r.field is None for r in weighed) and not any(r.kind == "reduce" for r in compute)
    return Aggregation(
        key=draw(st.sampled_from([None, None, "s", "d.x"])),
        count=draw(st.sampled_from([None, 1, 2, 3, 5])),
        since_first=draw(st.sampled_from([None, 3.0, 10.0])),
        since_last=draw(st.sampled_from([None, 2.0, 5.0])),
        until=draw(st.sampled_from([None, None, Until("done", True), Until("done", 1)])),
        compute=compute,
        on_timeout=draw(st.sampled_from(["fire", "discard"])),
        on_missing=draw(st.sampled_from(["dead-letter", "skip", "ignore"])),
        on_null=draw(st.sampled_from(["dead-letter", "skip"])),
        on_full=draw(st.sampled_from(["fire-oldest", "dead-letter"])),
        max_items=draw(st.sampled_from([4, 100])),
        max_groups=draw(st.sampled_from([2, 100])),
        max_bytes=draw(st.sampled_from([150, 900_000])) if only_rows else 900_000,
    )


def run(agent: Agent, timeline: Sequence[Step], choices: Sequence[int], new: Any = Turned) -> Turned:
    """Turn the timeline through the aggregation; after step i `choices[i]` says: 0 go on in the same batch, 1 end the
    batch, 2 commit, 3 crash (back to the last commit)."""
    turned, batch = new(agent), []
    done, place = 0, 0  # steps committed, step to take next
    crashes = iter(choices)
    while place < len(timeline):
        now, taken = timeline[place]
        batch += [] if taken is None else [record(place, *taken)]
        place += 1
        choice = next(crashes, 2)
        if choice == 0 and place < len(timeline) and timeline[place].now == now:
            continue
        turned.accept(batch, now)
        batch = []
        if choice == 2 or place == len(timeline):
            turned.commit(now)
            done = place
        elif choice == 3:
            turned.restore()
            place = done
    return turned


def expected(agent: Agent, timeline: Sequence[Step], **how: Any) -> Oracle:
    oracle = Oracle(agent.aggregation, functions=FUNCTIONS, **how)
    for offset, (now, taken) in enumerate(timeline):
        oracle.advance(now)
        if taken is not None:
            oracle.take(offset, *taken, now)
    return oracle


def long_timeline(seed: int, size: int) -> list[Step]:
    """Many records of few keys that all decode."""
    chance, now, timeline = random.Random(seed), 100.0, []
    for _ in range(size):
        now += chance.choice([0.0, 0.0, 0.0, 0.5, 2.0])
        fields = {
            "n": chance.choice([chance.randrange(10), chance.random(), 2**70]),
            "s": f"{chance.randrange(9)}" * chance.randrange(1, 20),
        }
        fields["d"] = {"x": chance.randrange(3)}
        timeline.append(Step(now, (b"key %d" % chance.randrange(12), json.dumps(fields).encode())))
    return timeline


__all__ = ["BACKWARDS", "POOL", "Step", "an_agent", "expected", "long_timeline", "rules", "run", "timelines"]
