"""Groups of `scope: shared` whose dead letter is retried: every store keeps each once, whoever retries it at the same
time, and hands it out until it is completed."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, Destination
from sluicegate.streams.aggregation.events import WHOLE, Fire
from sluicegate.streams.contracts.leased_values import SealedBatch
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.engine.build_shared import gate_of
from sluicegate.streams.errors import Fenced, PersistenceError
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead import dead_shared
from sluicegate.streams.operations.dead.dead_groups import GroupLetter
from sluicegate.streams.operations.dead.dead_letters import Letter
from sluicegate.streams.shared.shared_records import buffer_name
from sluicegate.streams.shared.shared_retries import is_retried, unpacked
from tests.contracts.buffer.given import HOUR, at_once, message, sent
from tests.contracts.buffer.packing import pack, put
from tests.contracts.leasing import Clock

AGENT = Agent("sums", ("in",), Aggregation(count=100), Destination("out"), "dead", scope="shared")
GATE = replace(gate_of(AGENT), lease=HOUR)
LAST = [("sluicegate-first", b"in/0/7"), ("sluicegate-last", b"in/2/9")]
tokens = (f"retry-{number}" for number in count())


@pytest.fixture
def types() -> None:
    """Packs stay bytes."""


def letter(number: int, value: Any = 1) -> GroupLetter:
    place = ("sums", "in", 0, 7 + number, None, True)
    made = Letter(f"letter-{number}", *place, "handler", "failed", "no", "1", 5.0, b"k", b"{}", LAST)
    fire = Fire(b"k", 3, "count", 7 + number, 9, 1.0, 5.0, None, {"total": value}, retries=1, again=WHOLE)
    return GroupLetter(made, fire)


def who() -> Person:
    return Person("ann", "mended", next(tokens))


def retried(store: Store, app: str, *letters: GroupLetter, again: bool = False) -> tuple[int, list[str]]:
    return dead_shared.retry(store, app, AGENT, letters, who, again)


def finished(store: Store, app: str, *letters: GroupLetter) -> None:
    """The command, given again as long as the store's answer is lost: on MongoDB the claim of another command ends the
    transaction."""
    for _ in range(20):
        try:
            retried(store, app, *letters)
            return
        except (PersistenceError, Fenced):
            continue
    raise AssertionError("no command ended")


def due(store: Store, app: str) -> list[SealedBatch]:
    return [batch for batch in store.buffer.due(buffer_name(app, "sums"), GATE) if is_retried(batch.group)]


def test_a_group_is_handed_out_whole_beside_open_groups_and_completed_once(store: Any, ns: str) -> None:
    name = buffer_name(ns, "sums")
    put(store.buffer, name, [pack("g", 0, 3)], GATE)
    large = "x" * 3_000_000
    assert retried(store, ns, letter(1), letter(2, large)) == (2, [])
    batches = {unpacked(batch.entries).fire.first: batch for batch in due(store, ns)}
    assert batches.keys() == {8, 9}
    group = unpacked(batches[9].entries)
    assert (bytes(group.fire.values["total"]), group.fire.again, group.fire.retries) == (
        f'"{large}"'.encode(),
        WHOLE,
        1,
    )
    assert (group.first[::2], group.last[::3]) == (("in", 0), ("in", 9))
    assert (batches[9].attempts, batches[9].reason, store.buffer.count(name)) == (1, "count", 5)
    ends = [(batch, [message(ns, batch.id)]) for batch in batches.values()]
    assert list(store.buffer.complete_all(name, [*ends, *ends])) == [True, True, False, False]
    assert (sent(store, ns), store.buffer.count(name)) == (sorted(batch.id for batch in batches.values()), 3)
    put(store.buffer, name, [pack("g", 3, 97)], GATE, 3)
    assert store.buffer.count(name) == 100


def test_two_commands_at_once_and_later_ones_retry_a_group_once(
    store: Any, another: Callable[[], Any], ns: str
) -> None:
    handles = [another() for _ in range(3)]
    at_once(lambda handle: finished(handle, ns, letter(1), letter(2)), handles)
    name = buffer_name(ns, "sums")
    assert store.buffer.count(name) == 2
    assert retried(store, ns, letter(1), letter(2)) == (0, ["in/0/8", "in/0/9"])
    assert retried(store, ns, letter(1), again=True) == (1, [])
    assert store.buffer.count(name) == 3


@pytest.mark.parametrize("point", ["group-asked", "group-inserted", "group-kept"])
@pytest.mark.parametrize("again", [False, True])
def test_a_command_that_dies_is_finished_and_not_repeated(
    point: str, again: bool, store: Any, ns: str, clock: Clock
) -> None:
    def dies(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    with failpoints.watched(dies), pytest.raises(KeyboardInterrupt):
        retried(store, ns, letter(1))
    assert sum(retried(store, ns, letter(1), again=again)[0] for _ in range(2 - again)) == (point == "group-asked")
    clock.passed(2 * dead_shared.GATE.lease)
    [batch] = due(store, ns)
    assert store.buffer.complete(buffer_name(ns, "sums"), batch) == 1
    assert (retried(store, ns, letter(1)), due(store, ns)) == ((0, ["in/0/8"]), [])
