"""The open groups of an agent: listed without a claim; fired and dropped under a claim (see journal/amending.py)."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Aggregation, Until
from sluicegate.streams.aggregation.changelog import Changelog
from sluicegate.streams.aggregation.ending import waiting
from sluicegate.streams.aggregation.entry import Amendment
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import BYTES, COUNT, FIRST, LAST, OPENED, GroupState
from sluicegate.streams.aggregation.rule import Rule, restored
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Claim, Partition, PartitionView
from sluicegate.streams.handlers.sealed import Sealed
from sluicegate.streams.journal.amending import Person, amend
from sluicegate.streams.ownership.beginning import idle_since
from sluicegate.streams.ownership.generations import Older
from sluicegate.streams.reading.receive import ReceivedShards


class OpenGroup(NamedTuple):
    """`first` and `last` are offsets, `age` and `fires_in` seconds by the store's clock (None: no deadline; negative:
    overdue). `generation` is the number of the changelog entries that hold it. `under` is the aggregation of an older
    generation, whose rule decides when the group ends."""

    partition: Partition
    owner: str
    key: bytes
    records: int
    first: int
    last: int
    bytes: int
    age: float
    fires_in: float | None
    values: dict[str, Any]
    generation: int = 0
    under: Aggregation | None = None


class GenerationContents(NamedTuple):
    """The open groups of one generation, and the rule that filled them."""

    generation: int
    rule: Rule
    groups: Groups


class PartitionContents(NamedTuple):
    """The groups of a partition under `rule`, the items that wait for slow handlers, and the changes by operators.
    `older` are the generations that still have groups of earlier versions of the rule."""

    partition: Partition
    claim: Claim
    rule: Rule
    groups: Groups
    sealed: Sealed
    amended: list[Amendment]
    older: Sequence[GenerationContents] = ()

    @property
    def every(self) -> list[GenerationContents]:
        """The generations, oldest first; the last one takes the records."""
        generation = self.claim.source.generation if self.claim.source else 0
        return [*self.older, GenerationContents(generation, self.rule, self.groups)]


def held(agent: Agent, partition: Partition, view: PartitionView) -> PartitionContents:
    """Raises ChangelogIncomplete, and ConfigurationError when the rule that filled the groups cannot be restored."""
    rule = Rule(agent, formats.reads(agent))
    source = view.claim.source
    if source is not None and source.rule != rule.fingerprint:
        rule = restored(agent, source.rule)
    groups, sealed = Groups(rule), Sealed(place=(partition.topic, partition.number))
    older = [Older(each, agent) for each in (source.older if source is not None else ())]
    generation = source.generation if source is not None else 0
    by_number = {each.known.number: each.groups for each in older}
    log = Changelog(groups, view.claim.first, sealed=sealed, generation=generation, older=by_number)
    log.replay(view.entries, view.claim.first, view.claim.last, ReceivedShards(partition.topic))
    groups.idle = idle_since(source, rule, len(groups.states), view.claim.store_time) or 0.0
    earlier = [GenerationContents(each.known.number, each.groups.rule, each.groups) for each in older]
    return PartitionContents(partition, view.claim, rule, groups, sealed, list(log.amended), earlier)


def partitions(store: Store, app: str, agent: Agent) -> Iterator[PartitionContents]:
    """By topic and number. Raises PersistenceError and SystemNotReady, and what `held` raises."""
    for partition in store.partitions(app):
        view = store.read(partition) if partition.agent == agent.name else None
        if view is not None:
            yield held(agent, partition, view)


def open_groups(store: Store, app: str, agent: Agent, key: bytes | None = None) -> list[OpenGroup]:
    """The open groups of this key, or all, oldest first within a partition."""
    return [
        _seen(each, within, name, state)
        for each in partitions(store, app, agent)
        for within in each.every
        for name, state in within.groups.states.items()
        if key is None or name == key
    ]


def _seen(found: PartitionContents, within: GenerationContents, key: bytes, state: GroupState) -> OpenGroup:
    now, due = found.claim.store_time, within.groups.due(state)
    values = within.rule.values(state, within.groups.bags.get(key, []))
    return OpenGroup(
        found.partition,
        found.claim.owner,
        key,
        state[COUNT],
        state[FIRST],
        state[LAST],
        state[BYTES],
        max(0.0, now - state[OPENED]),
        None if due == inf else due - now,
        values,
        within.generation,
        None if within.groups is found.groups else within.rule.aggregation,
    )


def why(group: OpenGroup, agent: Agent) -> str:
    """A sentence about what the group waits for."""
    rule = group.under or agent.aggregation
    said = [
        f"{group.records} of {rule.count}"
        if rule is not None and rule.count
        else f"{group.records} so far, no count ends it"
    ]
    until = rule.until if rule is not None else None
    if isinstance(until, Until):
        said.append(f"waits for a record whose {until.field} ends it")
    elif until is not None:
        said.append(waiting(until, {**group.values, "count": group.records}))
    said.append(f"oldest {group.age:.0f} s")
    if group.fires_in is None:
        said.append("no timeout")
    elif group.fires_in >= 0:
        said.append(f"fires in {group.fires_in:.0f} s")
    else:
        said.append(f"due since {-group.fires_in:.0f} s: its owner fires it as soon as it runs")
    if group.under is not None:
        said.append("finishes under an earlier version of the rule")
    if agent.scope == "shared":
        return ", ".join([*said, "any worker fires it"])
    return ", ".join([*said, f"owner {group.owner}" if group.owner else "no owner"])


def fire(store: Store, group: OpenGroup, person: Person) -> Claim:
    """Have the owner of the partition fire the group with reason `manual`: once, whatever crashes, and not at all if
    the group ended meanwhile. Raises as `amend`."""
    return amend(store, group.partition, person, "groups fire", _text(group), asked={group.key: group.first})


def drop(store: Store, group: OpenGroup, agent: Agent, person: Person) -> Claim:
    """Drop the records of the group without a result, also those that were added since `group` was read. Raises as
    `amend`."""

    def still(view: PartitionView) -> bool:
        every = {each.generation: each.groups for each in held(agent, group.partition, view).every}
        state = every[group.generation].states.get(group.key) if group.generation in every else None
        return state is not None and state[FIRST] == group.first

    said = {"generation": group.generation, "states": {group.key: None}}
    return amend(store, group.partition, person, "groups drop", _text(group), still, **said)


def _text(group: OpenGroup) -> str:
    return group.key.decode(errors="replace")
