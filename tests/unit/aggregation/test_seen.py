"""Duplicates against a naive oracle: whatever the batches, the crashes and the compactions, the same records are
dropped."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination
from sluicegate.streams.aggregation import seen
from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.aggregation.seen import KnownIds
from tests.mutation.twins import without
from tests.unit.aggregation.turning import Turned, record
from tests.unit.engine.driver import LogRecord

HORIZON = 50.0
EACH = Aggregation(count=1)  # every record that is taken fires by itself


class Step(NamedTuple):
    """So many records are taken together after so many seconds; then nothing more, a commit, or a crash."""

    size: int
    later: float
    then: str


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, 6),
        st.sampled_from([0.0, 0.5, 20.0, 49.0, 50.0]),
        st.sampled_from(["", "commit", "commit", "crash"]),
    ),
    max_size=30,
)
WRITTEN = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["good", "good", "good", "good", "broken", "nameless"])), max_size=60
)


@pytest.fixture(autouse=True, scope="module")
def _small_log() -> Iterator[None]:
    """Cycles of compaction begin at once and take many commits, entries are split."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changelog, "SLACK", 60)
        patch.setattr(changelog, "SLICE", 1)
        patch.setattr(changelog, "ENTRY_LIMIT", 120)
        patch.setattr(seen, "LEAST_FORGOTTEN", 1)
        yield


def messages(written: Sequence[tuple[int, str]], by: str) -> list[LogRecord]:
    """Ids in a header, in a field or as the key; `broken` cannot be decoded, `nameless` has no id."""
    records = []
    for offset, (number, kind) in enumerate(written):
        identity = None if kind == "nameless" else f"id-{number}"
        field = {} if identity is None else {"id": {"of": identity}}
        value = b"{no json" if kind == "broken" else msgspec.json.encode({"n": offset, **field})
        key = (identity.encode() if identity else b"") if by == "key" else b"k"
        headers = [("message-id", identity.encode())] if by == "header" and identity else []
        records.append(record(offset, key, value, headers))
    return records


def turned(records: Sequence[LogRecord], steps: Sequence[Step], dedupe: Deduplication) -> tuple[Turned, list[float]]:
    """All records taken in these steps and committed at the end; and when each was taken for good."""
    partition = Turned(Agent("sums", ("in",), EACH, Destination("out"), "dead", dedupe=dedupe))
    times = [0.0] * len(records)
    position = committed = 0
    now = 1000.0
    for size, later, then in [*steps, Step(len(records), 1.0, "commit")]:
        now += later
        batch = records[position : position + size]
        partition.accept(batch, now)
        times[position : position + len(batch)] = [now] * len(batch)
        position += len(batch)
        if then == "commit":
            partition.commit(now)
            committed = position
        elif then == "crash":
            partition.restore()
            position = committed
    return partition, times


def judged(
    written: Sequence[tuple[int, str]], times: Sequence[float], by: str
) -> tuple[list[int], list[tuple[int, str]]]:
    """The oracle: which records count, and which are refused why."""
    known: dict[int, float] = {}
    taken, refused = [], []
    for offset, (number, kind) in enumerate(written):
        readable = kind == "good" or (kind == "broken" and by != "field")
        if readable and times[offset] - known.get(number, -HORIZON) < HORIZON:
            continue
        if kind == "good":
            taken.append(offset)
            known[number] = times[offset]
        else:
            refused.append((offset, "no-id" if kind == "nameless" else "undecodable"))
    return taken, refused


def came(partition: Turned) -> tuple[list[int], list[tuple[int, str]]]:
    return sorted(fire[3] for fires in partition.fires.values() for fire in fires), partition.refused


@pytest.mark.parametrize(("by", "name"), [("header", "message-id"), ("field", "id.of"), ("key", None)])
@settings(derandomize=True, deadline=None, max_examples=150)
@given(written=WRITTEN, steps=STEPS)
def test_the_same_records_are_dropped_whatever_the_batches_and_the_crashes(
    by: str, name: str | None, written: list[tuple[int, str]], steps: list[Step]
) -> None:
    partition, times = turned(messages(written, by), steps, Deduplication(by, name, horizon=HORIZON))  # type: ignore[arg-type]
    assert came(partition) == judged(written, times, by)


LONG = [Step(3, 7.0, "crash" if number % 5 == 4 else "commit") for number in range(300)]
MANY = [(number * 7 % 23 if number % 3 else number % 10, "good") for number in range(600)]


def many(dedupe: Deduplication | None = None) -> tuple[Turned, bool]:
    """A long run with many cycles; and whether it ended as the oracle says."""
    partition, times = turned(
        messages(MANY, "header"), LONG, dedupe or Deduplication("header", "message-id", horizon=HORIZON)
    )
    return partition, came(partition) == judged(MANY, times, "header")


def test_what_was_seen_survives_compaction() -> None:
    partition, right = many()
    assert right
    assert partition.dropped > 100, "nothing was compacted"
    assert partition.split > 10, "no entry was split"
    assert len(partition.log) < 60


def test_without_remembering_ids_over_a_crash_the_oracle_finds_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnownIds, "replay", lambda *_: None)
    assert not many()[1]


def test_without_carrying_old_ids_through_a_compaction_the_oracle_finds_duplicates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KnownIds, "remembered", lambda _: changelog.deque())
    assert not many()[1]


def test_without_dedupe_the_oracle_finds_duplicates() -> None:
    with without("dedupe"):
        assert not many()[1]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(written=st.lists(st.integers(0, 30), max_size=80), steps=STEPS)
def test_over_the_limit_the_newest_ids_are_known_and_only_older_ones_forgotten(
    written: list[int], steps: list[Step]
) -> None:
    most = 8
    calm = [step._replace(later=0.5) for step in steps]
    records = messages([(number, "good") for number in written], "header")
    taken = set(came(turned(records, calm, Deduplication("header", "message-id", horizon=HORIZON, max_ids=most))[0])[0])
    order: list[int] = []
    for offset, number in enumerate(written):
        assert offset in taken or number in order, "a new id was dropped"
        if offset in taken:
            assert number not in order[-most:], "an id within the limit was forgotten"
            order.append(number)


def test_forgetting_is_bounded_per_commit_and_early_forgetting_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "LEAST_FORGOTTEN", 100)
    ids = KnownIds("key:", HORIZON, 1000)
    ids.note([b"%d" % number for number in range(1000)], 0.0)
    ids.changes(1.0)
    sizes = []
    for number in range(5):
        ids.changes(2.0 * HORIZON)
        ids.note([b"new %d" % number], 2.0 * HORIZON)
        sizes.append(ids.size)
    assert sizes == [901, 800, 699, 598, 497]
    assert ids.early == 0
    ids = KnownIds("key:", HORIZON, 1000)
    ids.note([b"%d" % number for number in range(1003)], 100.0)
    assert (ids.size, ids.early) == (1000, 3)
    assert [ids.holds(b"%d" % number, 100.0) for number in (2, 3, 1002)] == [False, True, True]


def test_an_id_that_was_accepted_again_is_known_from_then_on() -> None:
    ids = KnownIds("key:", HORIZON, 1000)
    ids.note([b"a"], 0.0)
    ids.note([b"b"], 30.0)
    ids.note([b"a"], 51.0)
    ids.changes(80.0)
    assert [ids.holds(name, 100.0) for name in (b"a", b"b")] == [True, False]
    assert ids.log_bytes == len(b"a") + seen.LOGGED
