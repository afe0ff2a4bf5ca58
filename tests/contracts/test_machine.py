"""Every backend against the memory one: any sequence of operations has the same results and the same errors."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule, run_state_machine_as_test

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.connectors.sql import statements
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import (
    Changes,
    Claim,
    ColdGroup,
    CrashMark,
    DeadRow,
    OutboxRow,
    Partition,
    PartitionView,
    Source,
)
from sluicegate.streams.errors import SluicegateError
from tests.contracts.test_twins import without

examples = itertools.count()

NUMBER = st.integers(0, 12)
NUMBERS = st.lists(NUMBER, unique=True, max_size=6).map(sorted)
TEXT = st.text(max_size=4)
BYTES = st.binary(max_size=6)
PROCESS = st.sampled_from(["p1", "p2", "p3"])

row = st.builds(
    OutboxRow,
    number=st.just(0),
    lineage=TEXT,
    id=TEXT,
    topic=TEXT,
    partition=NUMBER,
    key=st.none() | BYTES,
    value=st.none() | BYTES,
    headers=st.lists(st.tuples(TEXT, st.none() | BYTES), max_size=3),
)
cold = st.builds(ColdGroup, key=BYTES, due=st.none() | st.sampled_from([-1.5, 0.0, 2.25, 2.5, 1e9 + 0.1]), state=BYTES)
changes = st.builds(
    Changes,
    offset=st.integers(0, 2**53),
    epoch=st.integers(-1, 9),
    entries=st.lists(BYTES, max_size=3),
    dispatched=NUMBERS,
    dead=st.lists(
        st.builds(DeadRow, number=NUMBER, reason=TEXT, attempts=NUMBER), max_size=2, unique_by=lambda dead: dead.number
    ),
    trying=st.none()
    | st.builds(CrashMark, offset=st.integers(0, 2**53), processes=st.sets(PROCESS, min_size=1).map(sorted).map(tuple)),
    put_cold=st.lists(cold, max_size=3, unique_by=lambda group: group.key),
    drop_cold=st.lists(BYTES, max_size=3, unique=True),
    source=st.none() | st.builds(Source, topic_id=TEXT, partition_count=NUMBER, rule=TEXT),
)


def comparable(result: object) -> object:
    """Without what must differ between two stores: their time and their name."""
    if isinstance(result, Claim):
        return msgspec.structs.replace(result, store_time=0.0, incarnation="")
    if isinstance(result, PartitionView):
        return comparable(result.claim), list(result.entries), result.unsent, result.dead
    return list(result) if isinstance(result, list | tuple) and not isinstance(result, Partition) else result


def outcome(action: Callable[[], Any]) -> tuple[object, Any]:
    """What can be compared, and what it really returned (None when it raised)."""
    try:
        result = action()
    except (SluicegateError, ValueError) as error:
        return type(error), None
    return comparable(result), result


class Comparison(RuleBasedStateMachine):
    """The same calls on the store under test and on one in memory."""

    claims = Bundle("claims")

    def __init__(self, store: Store, app: str) -> None:
        super().__init__()
        self.stores: tuple[Store, Store] = (MemoryStore(), store)
        self.app = f"{app}-{next(examples)}"

    def partition(self, number: int) -> Partition:
        return Partition(self.app, "agent", "topic", number)

    def same(self, call: Callable[[Store], Any]) -> list[Any]:
        ours, theirs = (outcome(lambda store=store: call(store)) for store in self.stores)
        assert theirs[0] == ours[0]
        return [ours[1], theirs[1]]

    @rule(target=claims, number=st.integers(0, 1), token=st.sampled_from("abc"), member=TEXT)
    def claim(self, number: int, token: str, member: str) -> list[Claim]:
        return self.same(lambda store: store.claim(self.partition(number), token, member))

    @rule(
        target=claims,
        pair=consumes(claims),
        what=changes,
        keep=st.none() | st.integers(-2, 4),
        rows=st.lists(row, max_size=4),
        gap=st.integers(0, 2),
    )
    def commit(self, pair: list[Claim], what: Changes, keep: int | None, rows: list[OutboxRow], gap: int) -> Any:
        """A gap of 0 gives a number twice; keep counts from the last entry but one, and may lie beyond the end."""
        held_claim = pair[0]
        numbered = [msgspec.structs.replace(row, number=held_claim.number + gap + at) for at, row in enumerate(rows)]
        keep_from = None if keep is None else held_claim.last - 1 + keep
        whole = msgspec.structs.replace(what, outbox=numbered, keep_from=keep_from)
        after = iter([self.same(lambda store: store.commit(pair[self.stores.index(store)], whole))])
        self.same(lambda store: store.read(held_claim.partition))
        self.same(lambda store: store.pending(held_claim.partition, 0, 100))
        result = next(after)
        return multiple(pair, result) if result[0] is not None else pair

    @rule(number=st.integers(0, 1), token=st.sampled_from("abc"), processes=st.lists(PROCESS, max_size=2))
    def clear_crash_mark(self, number: int, token: str, processes: list[str]) -> None:
        self.same(lambda store: store.clear_crash_mark(self.partition(number), token, processes))
        self.same(lambda store: store.read(self.partition(number)))

    @rule(number=st.integers(0, 1), after=NUMBER, limit=st.integers(1, 4))
    def pending(self, number: int, after: int, limit: int) -> None:
        self.same(lambda store: store.pending(self.partition(number), after, limit))

    @rule(
        number=st.integers(0, 1), keys=st.lists(BYTES, max_size=4, unique=True), until=st.sampled_from([0.0, 2.5, 1e18])
    )
    def cold(self, number: int, keys: list[bytes], until: float) -> None:
        self.same(lambda store: sorted(store.cold(self.partition(number), keys)))
        self.same(lambda store: store.due(self.partition(number), until, 2))
        self.same(lambda store: sorted(store.keys(self.partition(number), None, 100)))

    @rule(pair=claims)
    def restore(self, pair: list[Claim]) -> None:
        self.same(lambda store: list(store.restore(pair[self.stores.index(store)])))

    @rule()
    def partitions(self) -> None:
        self.same(lambda store: store.partitions(self.app))


def compared(store: Store, ns: str, examples: int, phases: tuple[Phase, ...]) -> None:
    run_state_machine_as_test(
        lambda: Comparison(store, ns),
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_any_sequence_of_operations_gives_what_the_memory_store_gives(store: Store, ns: str) -> None:
    compared(store, ns, 80, (Phase.generate, Phase.shrink))


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("RUN", "number between %s and %s", "number <= max(%s, %s)"),
        ("FENCE", "coalesce(%s, source)", "%s"),
        ("DROP_ENTRIES", "number < %s", "number <= %s"),
        ("UNSENT", "number > %s", "number >= %s"),
    ],
)
def test_a_store_that_differs_in_one_statement_is_found(
    store: Store, ns: str, name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, statements, name, old, new)
    with pytest.raises(AssertionError):
        compared(store, ns, 2000, (Phase.generate,))  # ends with the first; 400 were not enough once
