"""The replays that correct an agent's results, as the store keeps them.

The list of an agent's replays is one entry of a partition that no agent can have. Replay N of an input partition has a
partition of its own, with a claim, an outbox, and entries with the groups that were open when the replay began. So no
row of the live agent is ever claimed. Everything that decides a correction is written when the replay begins, so the
same corrections are computed again after a crash.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Literal, TypeVar

import lz4.frame
import msgspec

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.durable.entry import body_of, framed
from sluicegate.streams.contracts.single_entry import claim_entry, read_entry, write_entry
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import NOBODY, Claim, Partition
from sluicegate.streams.errors import ChangelogIncomplete
from sluicegate.streams.shadow.witness import LiveGroup, Witness

CONTENT = b"\x06"
"""The first byte of these entries."""
GROUPS = 10_000  # in one entry

State = Literal["running", "sent", "done", "abandoned"]
T = TypeVar("T")


class ReplaySource(msgspec.Struct, frozen=True):
    """One input partition at the begin of the replay, with the fields of Witness. `number` is the newest outbox row of
    the live agent. `latest` and `letters_from` are None for infinity."""

    topic: str
    partition: int
    topic_id: str
    begin: int
    end: int
    offset: int
    number: int
    now: float
    latest: float | None
    whole: bool
    letters_from: float | None
    origins: tuple[str, ...] = ()


class Corrected(msgspec.Struct, frozen=True):
    """The result of a replay in one input partition. `corrections` counts the messages in the output topic, `groups`
    the groups that have one, `removed` the published results that no group replaces, `refused` the records that the
    rule refuses."""

    topic: str
    partition: int
    begin: int
    end: int
    records: int
    groups: int
    removed: int
    refused: int
    corrections: int


class Replay(msgspec.Struct, frozen=True):
    """`digest` is the digest of the correcting rule, `live` the agent under the rule that made the results. `wanted` is
    the range as the command named it. `at` is the store's time in seconds since 1970. `state` is `sent` when all
    corrections are in the topic, and the replay's state in the store is not yet deleted; `corrected` then has the
    result."""

    number: int
    digest: str
    live: Agent
    into: str
    wanted: tuple[int | float | None, ...]
    at: float
    who: str
    why: str
    sources: tuple[ReplaySource, ...]
    state: State = "running"
    corrected: tuple[Corrected, ...] = ()


class _Group(msgspec.Struct, frozen=True, array_like=True):
    key: bytes
    first: int
    last: int
    records: int
    opened: float


def place(app: str, agent: str) -> Partition:
    """The partition of the list."""
    return Partition(app, "~", f"replays.{agent}", 0)


def private(app: str, agent: str, number: int, source: ReplaySource) -> Partition:
    """The partition of a replay. No agent has a name with `~`."""
    return Partition(app, f"{agent}~{number}", source.topic, source.partition)


def read(store: Store, app: str, agent: str) -> Sequence[Replay]:
    """All replays of the agent, by number. Raises PersistenceError and ChangelogIncomplete."""
    entry = read_entry(store, place(app, agent))
    return [] if entry is None else _unpacked(entry, list[Replay])


def claimed(store: Store, app: str, agent: str, token: str) -> tuple[Claim, Sequence[Replay]]:
    """Claims the list. Raises Fenced when another command claims it at the same time, and as `read`."""
    busy = "another command changes the replays of this agent"
    claim, entry = claim_entry(store, place(app, agent), token, NOBODY, busy)
    return claim, [] if entry is None else _unpacked(entry, list[Replay])


def write(store: Store, claim: Claim, replays: Sequence[Replay]) -> None:
    """Replace the list. Raises Fenced and PersistenceError."""
    write_entry(store, claim, _packed(replays))


def source_of(partition: Partition, witness: Witness) -> ReplaySource:
    letters = witness.letters_from
    return ReplaySource(
        partition.topic,
        partition.number,
        witness.topic_id,
        witness.begin,
        witness.end,
        witness.offset,
        witness.published.number,
        witness.now,
        witness.latest,
        witness.whole,
        None if letters == -inf else letters,
        tuple(witness.origins),
    )


def open_groups(witness: Witness) -> list[bytes]:
    """The entries for the groups that the store held open when the replay began."""
    groups = (_Group(key, group.first, group.last, group.records, group.opened) for key, group in witness.open.items())
    return [_packed(part) for part in _parts(groups)]


def _parts(groups: Iterator[_Group]) -> Iterator[tuple[_Group, ...]]:
    part: list[_Group] = []
    for group in groups:
        part.append(group)
        if len(part) == GROUPS:
            yield tuple(part)
            part = []
    if part:
        yield tuple(part)


def kept_groups(entries: Sequence[bytes]) -> Mapping[bytes, LiveGroup]:
    """The groups of entries that `open_groups` made. Raises ChangelogIncomplete."""
    groups = (group for entry in entries for group in _unpacked(entry, list[_Group]))
    return {group.key: LiveGroup(group.first, group.last, group.records, group.opened, {}) for group in groups}


def _packed(content: object) -> bytes:
    return framed(CONTENT + bytes(lz4.frame.compress(msgspec.msgpack.encode(content))))


def _unpacked(blob: bytes, type_: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(lz4.frame.decompress(body_of(blob, CONTENT)), type=type_)
    except (msgspec.MsgspecError, RuntimeError, ValueError, MemoryError) as error:
        raise ChangelogIncomplete(f"a replay cannot be read: {error}") from error
