"""An operator accepts a gap: a claim that commits once lets the partition go on from the next possible offset.

Some gaps make offsets come again: the topic ends earlier, was recreated, or the store went back. Then a new era begins.
Decisions in the new era have other ids, so no receiver takes a new row for a repeat. Results that were sent for these
offsets before may be sent again with another id.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.aggregation.durable.entry import Amendment, ColdState, Section
from sluicegate.streams.aggregation.layout import FIRST, GroupState
from sluicegate.streams.aggregation.rule import fingerprint
from sluicegate.streams.contracts.ids import in_order
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import (
    NOBODY,
    UNFETCHABLE,
    Changes,
    Claim,
    ColdGroup,
    CrashMark,
    GroupNumber,
    Partition,
    PartitionView,
    Source,
    TopicFacts,
)
from sluicegate.streams.errors import (
    ChangelogIncomplete,
    ConfigurationError,
    Halt,
    LogTruncated,
    RetentionPassed,
    StoreRewound,
    StoreSwapped,
    StoreWiped,
    TopicRecreated,
    Unfetchable,
)
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person, appended
from sluicegate.streams.operations.groups.cold_groups import parts, remaining, remove_all, without
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.ownership.checks import check_claim, check_partitions, told_era
from sluicegate.streams.ownership.halted import ACCEPTED, note_key
from sluicegate.streams.wording import counted

WHAT = "accept-gap"
AGAIN = (LogTruncated, TopicRecreated, StoreWiped, StoreSwapped, StoreRewound)
"""The gaps after which offsets come again."""

Look = Callable[[], TopicFacts]


class Forgotten(NamedTuple):
    """The state that a gap makes invalid: open groups, each by its generation and key, and numbers of sealed items.
    `cold` are the keys of those groups that may have rows. `known_then` is the state of the cold groups after their
    removal. `new` are rows of groups that were in one row with them. `heirs` are the new states of other groups, each
    with its generation."""

    groups: Sequence[tuple[int, bytes]] = ()
    items: Sequence[GroupNumber] = ()
    cold: Sequence[bytes] = ()
    known_then: ColdState | None = None
    new: Sequence[ColdGroup] = ()
    heirs: Sequence[tuple[int, dict[bytes, GroupState]]] = ()

    def __bool__(self) -> bool:
        return bool(self.groups or self.items)


class Gap(NamedTuple):
    """`error` describes the gap. The partition goes on at `offset` in `era`. `forgets` are the open groups and sealed
    items whose offsets come again. `unreadable`: the state cannot be read, and all of it is forgotten. `passed` is the
    number of offsets that are skipped."""

    error: Halt
    offset: int
    era: int
    forgets: Forgotten
    unreadable: bool
    passed: int = 0

    @property
    def text(self) -> str:
        """What accepting the gap means, as a sentence."""
        sentence = f"it goes on at offset {self.offset}"
        if isinstance(self.error, Unfetchable):
            over = f"; {counted(self.passed, 'offset')} before it are passed over, without dead letters"
            return sentence + (over if self.passed else ", and fetches these records again")
        if isinstance(self.error, AGAIN):
            sentence += ", with new ids: what was sent for records from there on may be sent again under other ids"
        if self.unreadable:
            return sentence + (
                "; its state cannot be read: open groups, what waits for handlers, and what repeats are known by, "
                "are forgotten"
            )
        if not self.forgets:
            return sentence
        groups, items = self.forgets[:2]
        lost = f"{counted(len(groups), 'open group')} and {counted(len(items), 'item')} that wait for handlers"
        return f"{sentence}; forgotten, since their records are gone: {lost}"


class Reported(NamedTuple):
    """What an operator knows beyond the facts. `truncated`: the owner reported that the broker has another history of
    the topic; offsets and ids do not show it. `to`: continue at this offset, because the records before it cannot be
    fetched; -1: not given."""

    truncated: bool = False
    to: int = -1


NOTHING = Reported()


def gap(agent: Agent, view: PartitionView, facts: TopicFacts, store: Store, reported: Reported = NOTHING) -> Gap | None:
    """The first gap at which the owner would halt; None: there is no gap. Raises ConfigurationError for a gap that
    cannot be accepted."""
    claim = view.claim
    if claim.incarnation != store.incarnation:
        raise ConfigurationError(
            "the partition's row was made under another incarnation of the store: nothing in it can be trusted; "
            "restore the store, or "
            "start the agent under another name"
        )
    error = _error(agent, view, facts)
    if error is None and reported.truncated:
        error = LogTruncated(f"the topic's history up to offset {claim.offset} is another one than what was read")
    if error is None and reported.to >= 0:
        error = Unfetchable(f"the records at offset {claim.offset} cannot be fetched")
    if error is None:
        return None
    unreadable = isinstance(error, ChangelogIncomplete)
    known = claim.source.era if claim.source else 0
    era = max(known, told_era(facts)) + 1 if isinstance(error, AGAIN) else known
    offset = _offset(error, claim, facts, reported.to)
    forgets = _repeated_state(agent, view, offset, store) if isinstance(error, AGAIN) else Forgotten()
    return Gap(error, offset, era, forgets, unreadable, offset - claim.offset if reported.to >= 0 else 0)


def _error(agent: Agent, view: PartitionView, facts: TopicFacts) -> Halt | None:
    try:
        check_claim(view.claim, facts)
        groups = contents_of(agent, view.claim.partition, view).open_groups
        check_partitions(view.claim.source, facts, agent.aggregation or Aggregation(), groups)
        mark = view.claim.trying
        if mark is not None and mark.offset == view.claim.offset and UNFETCHABLE in mark.processes:
            raise Unfetchable(f"the batch of records at offset {mark.offset} cannot be fetched")
    except Halt as error:
        return error
    return None


def _offset(error: Halt, claim: Claim, facts: TopicFacts, to: int) -> int:
    """The offset at which the partition goes on. Raises ConfigurationError for an invalid `to`."""
    if to >= 0 and not isinstance(error, Unfetchable):
        raise ConfigurationError(f"{error.code} says where the partition goes on: --to is only for unfetchable")
    if to >= 0 and not claim.offset < to <= facts.high:
        raise ConfigurationError(f"--to {to} is not after offset {claim.offset}, or after the topic's end {facts.high}")
    if to >= 0:
        return to
    if isinstance(error, TopicRecreated | RetentionPassed):
        return facts.low
    wanted = facts.committed if isinstance(error, StoreWiped) else claim.offset
    return min(max(wanted, facts.low), facts.high)


def _repeated_state(agent: Agent, view: PartitionView, offset: int, store: Store) -> Forgotten:
    """The groups and items whose offsets come again. Raises ConfigurationError when the state cannot be read."""
    try:
        contents = contents_of(agent, view.claim.partition, view)
    except ChangelogIncomplete as error:
        raise ConfigurationError(
            f"beside the gap its state cannot be read ({error}): start the agent under another name"
        ) from None
    rows, new, heirs = list[bytes](), list[ColdGroup](), list[tuple[int, dict[bytes, GroupState]]]()
    every, newest = [], contents.every[-1].generation
    for part in parts(contents, store):
        for generation in part.every:
            names = [name for name, state in generation.groups.states.items() if state[FIRST] >= offset]
            every += [(generation.generation, name) for name in names]
            if part is contents:
                heirs.append((generation.generation, generation.groups.heirs(names)))
            if generation.generation == newest:
                cold = generation.groups.cold
                for name in names:
                    rows += cold.left(name) if part is contents else cold.removed(name)
                new += remaining(generation.groups, names) if part is not contents else ()
    rows = list({*rows} - {row.key for row in new}) if contents.paging.has_rows else []
    items = [number for number in contents.sealed.by_number if in_order(number) >= (offset,)]
    known_then = without(contents, store, [*rows, *(row.key for row in new)], new)
    return Forgotten(every, items, rows, known_then, new, heirs)


def preview(store: Store, agent: Agent, partition: Partition, look: Look, reported: Reported = NOTHING) -> Gap | None:
    """The gap that `accept` would find now, without a claim."""
    nothing = Claim(partition, "", 0, -1, -1, 0, 1, 0, None, None, store.incarnation, "", 0.0)
    view = store.read(partition) or PartitionView(nothing, [], 0, 0)
    return gap(agent, view, look(), store, reported)


def accept(
    store: Store,
    agent: Agent,
    partition: Partition,
    look: Look,
    person: Person,
    forget: bool = False,
    reported: Reported = NOTHING,
) -> Gap | None:
    """Lets the partition go on behind its gap; None: it has no gap any more. `look` asks Kafka. Raises
    ConfigurationError when state would be forgotten without `forget`, and Fenced when another process claimed in
    between (nothing was changed). After a PersistenceError it is unknown whether the gap was accepted: look again."""
    claim = store.claim(partition, person.token, NOBODY)
    view = store.read(partition)  # under the claim: Kafka's facts are read later than the state
    facts = look()
    next_gap = gap(agent, view, facts, store, reported) if view is not None else None
    if next_gap is not None:
        insist(next_gap, forget)
        _commit(store, agent, claim, facts, next_gap, person)
    reclaim(store, partition, person)
    return next_gap


def insist(halting: Gap, forget: bool) -> None:
    """Raises ConfigurationError when state would be forgotten without `forget`."""
    if not forget and (halting.unreadable or halting.forgets):
        raise ConfigurationError(f"{halting.error.code}: {halting.text}; --forget accepts that")


def reclaim(store: Store, partition: Partition, person: Person) -> None:
    """Makes the worker that halted at a gap claim the partition again."""
    journal.note(store, partition.app, person, ACCEPTED, note_key(partition.agent, (partition.topic, partition.number)))


def _commit(store: Store, agent: Agent, claim: Claim, facts: TopicFacts, halting: Gap, person: Person) -> None:
    """Commits the offset, the source, the removal of the forgotten state, and the note together."""
    keys, numbers, cold, known_then, new, heirs = halting.forgets
    if halting.unreadable:
        claim = remove_all(store, claim)
    known = claim.source or Source(facts.topic_id, facts.partitions, fingerprint(agent), facts.partitions)
    older = tuple(
        replace(generation, until=min(generation.until, facts.high)) for generation in known.older
    )  # records above it are new
    about = {"topic_id": facts.topic_id or known.topic_id, "partition_count": facts.partitions, "era": halting.era}
    source = replace(known, older=older, **about)
    # the next record may be in the same batch: the next owner has another process fetch it first
    mark = CrashMark(halting.offset, (UNFETCHABLE,)) if isinstance(halting.error, Unfetchable) else None
    keep_from = claim.last + 1 if halting.unreadable else None
    changes = Changes(halting.offset, -1, keep_from=keep_from, trying=mark, source=source, put_cold=new, drop_cold=cold)
    notes = [Amendment(claim.store_time, person.who, WHAT, f"{halting.error.code}: {halting.text}", person.why)]
    changed = dict[int, dict[bytes, GroupState | None]]()
    for number, key in keys:
        changed.setdefault(number, {})[key] = None
    for number, of_generation in heirs:
        if of_generation:
            changed[number].update(of_generation)
    states = [{"generation": number, "states": changed[number]} for number in sorted(changed)]
    items = Section(dict.fromkeys(numbers))
    appended(store, claim, changes, states, amended=notes, sealed=items, cold=known_then)
