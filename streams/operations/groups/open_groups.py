"""The open groups of an agent: listed without a claim; fired and dropped under a claim (see journal/amending.py)."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from msgspec.structs import replace

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Aggregation, Until, Window
from sluicegate.streams.aggregation.ending import over_legs, waiting
from sluicegate.streams.aggregation.events import GroupEnded
from sluicegate.streams.aggregation.layout import BYTES, COUNT, FIRST, LAST, OPENED, Bags, GroupState
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.aggregation.rule import fingerprint
from sluicegate.streams.contracts.stores import ColdGroups, OutputFacts, Store
from sluicegate.streams.contracts.values import Claim, OutboxRow, Partition, PartitionView
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal.amending import Leaving, Person, amend
from sluicegate.streams.keys import REWIND
from sluicegate.streams.operations.groups.cold_groups import parts, rows_of, with_rows, without
from sluicegate.streams.operations.groups.contents import GenerationContents, PartitionContents, contents_of, partitions
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.outbox.sizes import MESSAGE_BYTES
from sluicegate.streams.ownership.rereading import unread
from sluicegate.streams.rules.identity import SHOWN
from sluicegate.streams.versions import catalogue
from sluicegate.streams.windows.merged import UNKNOWN
from sluicegate.streams.windows.standing import After, OpenWindow, Origin, open_window, plain_key
from sluicegate.streams.wording import counted

Key = bytes
SHOWN_ORIGINS = 3


class OpenGroup(NamedTuple):
    """An open group. `first` and `last` are offsets. `age` and `fires_in` are seconds by the store's clock (None: no
    deadline; negative: overdue). `generation` is the number of its generation. `under` is the aggregation of an older
    generation, whose rule decides when the group ends. `unread` is the number of its records that are still to be read
    again under the newest rule; None: the group is not rewound. `begin` tells it from later groups of the same `name`.
    `results` early results were sent; the next one is due in `next_result` seconds (None: no record waits for one)."""

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
    unread: int | None = None
    window: OpenWindow | None = None
    begin: int = -1
    results: int = 0
    next_result: float | None = None

    @property
    def name(self) -> Key:
        """The name of the group in the changelog."""
        return self.key if self.window is None else self.window.name

    @property
    def names(self) -> tuple[Key, ...]:
        """The names of the groups that are dropped together with it, including its own."""
        return (self.window.together if self.window is not None else ()) or (self.name,)


def open_groups(
    store: Store, app: str, agent: Agent, key: bytes | None = None, place: str | None = None
) -> list[OpenGroup]:
    """The open groups of this key (None: all) in this partition (None: in any): for each partition the hot ones, oldest
    first, then the cold ones."""
    return [group for partition in partitions(store, app, agent, place) for group in with_cold(partition, store, key)]


def with_cold(contents: PartitionContents, store: ColdGroups, key: bytes | None = None) -> list[OpenGroup]:
    """The open groups of this key (None: all) in one partition: the hot ones, then the cold ones."""
    read = parts(contents, store) if key is None else with_rows(contents, store, contents.groups.cold.of_key(key))
    return [group for part in read for group in groups_in(part, key)]


def groups_in(contents: PartitionContents, key: bytes | None = None) -> Iterator[OpenGroup]:
    """The hot open groups of this key (None: all) in one partition."""
    for within in contents.every:
        for name, state, bags in within.groups.listed(key):
            yield _open_group(contents, within, name, state, bags)


def _open_group(
    contents: PartitionContents, within: GenerationContents, name: bytes, state: GroupState, bags: Bags
) -> OpenGroup:
    again, window = _is_rewound(contents, within), open_window(within.groups, name, state)
    now, due = contents.claim.store_time, inf if again else within.groups.due(state)
    if window is not None:
        due = min(window.silent, window.latest)
    return OpenGroup(
        contents.partition,
        contents.claim.owner,
        plain_key(within.groups, name),
        state[COUNT],
        state[FIRST],
        state[LAST],
        state[BYTES],
        max(0.0, now - state[OPENED]),
        None if due == inf else due - now,
        within.rule.shown(state, bags),
        within.generation,
        None if within.groups is contents.groups else within.rule.aggregation,
        unread(state) if again else None,
        window,
        within.groups.states[name][FIRST],
        within.groups.early.results(name),
        None if again or (early := within.groups.early.due_at(name)) == inf else early - now,
    )


def _is_rewound(contents: PartitionContents, within: GenerationContents) -> bool:
    source = contents.claim.source
    older = source.older if source is not None else ()
    return any(generation.number == within.generation and generation.policy == REWIND for generation in older)


def waits_for(group: OpenGroup, agent: Agent) -> str:
    """What ends the group if no record does so before, as one word for filters: `timeout`, `window`, and without a
    deadline `until` or `count`. A closed window waits for `late records`."""
    if group.unread is not None:
        return "rereading"
    if group.window is not None:
        return "window" if group.window.after is None else "late records"
    if group.fires_in is not None:
        return "timeout"
    rule = group.under or agent.aggregation
    return "until" if rule is not None and rule.until is not None else "count"


def why(group: OpenGroup, agent: Agent) -> str:
    """A sentence about what the group waits for."""
    owner = f"owner {group.owner}" if group.owner else "no owner"
    if group.unread is not None:
        return f"{group.unread} of its {group.records} records are read again under the newest rule, {owner}"
    rule = group.under or agent.aggregation
    if rule is not None and rule.correlation is not None:
        return ", ".join([_legs(group, rule), *_ending(group, rule), owner])
    parts = [
        f"{group.records} of {counted(rule.count, 'record')}"
        if rule is not None and rule.count
        else f"{counted(group.records, 'record')}, no count ends it"
    ]
    until = rule.until if rule is not None else None
    if isinstance(until, Until):
        parts.append(f"waits for a record whose {until.field} ends it")
    elif until is not None:
        parts.append(waiting(until, {**group.values, "count": group.records}))
    parts += _ending(group, rule)
    if agent.scope == "shared":
        return ", ".join([*parts, "any worker fires it"])
    return ", ".join([*parts, owner])


def _legs(group: OpenGroup, rule: Aggregation) -> str:
    """`has order, no payment, ends at has(group.order) && has(group.payment)`"""
    names = [reducer.name for reducer in rule.compute]
    there = [name for name in names if group.values.get(name) not in (None, [])]
    missing = [name for name in names if name not in there]
    parts = [f"has {' and '.join(there)}"] if there else []
    return ", ".join([*parts, *(f"no {leg}" for leg in missing), f"ends at {over_legs(str(rule.until))}"])


def _ending(group: OpenGroup, rule: Aggregation | None) -> Iterator[str]:
    """When the group ends if no record completes it."""
    yield f"opened {group.age:.0f} s ago"
    from_data = rule is not None and rule.deadline is not None
    if rule is not None and rule.window is not None and rule.window.windower.immediate and group.window is not None:
        yield f"each of them had its result, {_forgotten(group.window, rule.window)}"
    else:
        yield from _why_open(group.window) if group.window is not None else [_deadline(group.fires_in, from_data)]
    if group.results:
        yield f"{counted(group.results, 'early result')} sent"
    if group.next_result is not None:
        yield f"the next early result is due in {max(0.0, group.next_result):.0f} s"
    if group.under is not None:
        yield "finishes under an earlier version of the rule"


def _forgotten(open_window: OpenWindow, window: Window) -> str:
    """When the last record of sliding windows leaves them."""
    if not window.size:
        return f"the last one is forgotten behind {counted(window.last, 'later record')}"
    return f"the last one is forgotten at watermark {_time(open_window.closes)}"


def _deadline(fires_in: float | None, from_data: bool) -> str:
    """The time until the timeout. `from_data`: the records give deadlines."""
    if fires_in is None:
        return "no record gives it a deadline" if from_data else "no timeout"
    if fires_in >= 0:
        return f"fires in {fires_in:.0f} s"
    return f"overdue by {-fires_in:.0f} s: its owner fires it as soon as it runs"


def _why_open(window: OpenWindow) -> Iterator[str]:
    """The conditions that close the window; for a closed window, what it does with late records."""
    if window.after is not None:
        yield from _why_after(window.after)
        return
    yield f"closes when the watermark reaches {_time(window.closes)}"
    cause = _held_back(window.held_back_by)
    if window.watermark < 0:
        yield f"no record has moved the watermark yet{cause}"
    elif window.watermark >= window.closes:
        yield "the watermark has passed this time: its owner closes it as soon as it runs"
    else:
        yield f"the watermark is {_time(window.watermark)}{cause or ', the highest time of a record of this partition'}"
    if window.silent < inf:
        yield f"if no record follows it closes at {_time(1000 * window.silent)}"
    if window.latest < inf:
        yield f"it ends at {_time(1000 * window.latest)} at the latest"


def _why_after(after: After) -> Iterator[str]:
    due = "no late record waits" if after.due == inf else f"its next result is due at {_time(1000 * after.due)}"
    if after.results is None:
        yield f"its window has closed, late records of it make a further result, {due}"
        return
    yield f"its window has closed, {counted(after.results, 'result')} sent, {due}"
    yield f"takes late records while the watermark is before {_time(after.ends)}"


def _held_back(origins: Sequence[Origin]) -> str:
    """The input partitions with the lowest time, up to three."""
    texts = [
        f"{origin.partition} ({origin.agent} has written no mark of it)"
        if not origin.marked_at and origin.state == UNKNOWN
        else f"{origin.partition} ({origin.agent} said at {_time(origin.marked_at)} that it is {origin.state})"
        for origin in origins[:SHOWN_ORIGINS]
    ]
    more = [f"{len(origins) - SHOWN_ORIGINS} more"] if len(origins) > SHOWN_ORIGINS else []
    return f", held back by {' and '.join([*texts, *more])}" if texts else ""


def _time(milliseconds: float) -> str:
    return rfc3339(milliseconds / 1000)


def fire(store: Store, group: OpenGroup, person: Person) -> Claim:
    """Makes the owner of the partition fire the group with reason `manual`: once, even after crashes, and not if the
    group ended meanwhile. Raises as `amend`, and ConfigurationError for a group whose records are read again."""
    if group.unread is not None:
        raise ConfigurationError(
            f"the records of group {_text(group)!r} are read again under the newest rule: fire it when they were, or "
            "give up what was not read again with `sluicegate groups drop`"
        )
    return amend(store, group.partition, person, "groups fire", _text(group), asked={group.name: group.begin})


def drop(store: Store, group: OpenGroup, agent: Agent, person: Person, outputs: OutputFacts | None = None) -> Claim:
    """Deletes the group and its records without a result, including records that were added since `group` was read.
    `outputs` describes the topics of an agent with `history`. Raises as `amend`."""
    if agent.history and outputs is None:
        raise ConfigurationError(
            f"agent {agent.name}: a dropped group has a message in {agent.history}, and only the broker tells how many "
            "partitions this topic has"
        )

    def still(view: PartitionView) -> bool:
        return _generation_of(store, view, group, agent) is not None

    def ended(claim: Claim, view: PartitionView) -> list[OutboxRow]:
        within = _generation_of(store, view, group, agent)
        if outputs is None or within is None:
            return []
        within.groups.emitter.notes = True
        within.groups.forget(group.name, claim.store_time)
        rows = Rows(group.partition, agent, formats.writes(agent), outputs, MESSAGE_BYTES)
        rows.begin(claim.token, claim.number, claim.source.name if claim.source else "")
        rule = _digest(store, agent, group.partition.app, within)
        return rows.make(
            [replace(event, rule=rule) for event in within.groups.drain() if isinstance(event, GroupEnded)]
        )

    target = {"generation": group.generation, "states": dict.fromkeys(group.names)}
    return amend(
        store,
        group.partition,
        person,
        "groups drop",
        _text(group),
        still,
        rows=ended if agent.history else None,
        cold=lambda view: _row_of(store, view, group, agent),
        **target,
    )


def _generation_of(store: Store, view: PartitionView, group: OpenGroup, agent: Agent) -> GenerationContents | None:
    """The generation that still holds the group; None: the group has ended."""
    contents = contents_of(agent, group.partition, view)
    for part in with_rows(contents, store, contents.groups.cold.rows_of(group.name)):
        for generation in part.every:
            state = generation.groups.states.get(group.name) if generation.generation == group.generation else None
            if state is not None and state[FIRST] == group.begin:
                return generation
    return None


def _row_of(store: Store, view: PartitionView, group: OpenGroup, agent: Agent) -> Leaving | None:
    """The row of the group, and the changelog's state of the cold groups after its removal; None: the store has no
    rows. A hot group may have one."""
    contents = contents_of(agent, group.partition, view)
    if not contents.paging.has_rows:
        return None
    rows = rows_of(contents, store, group.name)
    return rows, without(contents, store, rows)


def _digest(store: Store, agent: Agent, app: str, within: GenerationContents) -> str | None:
    """The digest of the rule that filled these groups, in the form of GroupEnded."""
    known = catalogue.read(store, app).get(agent.name)
    for version in known.versions if known is not None else ():
        if version.number == within.version:
            return version.digest[:SHOWN]
    return None if within.rule.fingerprint == fingerprint(agent) else ""


def _text(group: OpenGroup) -> str:
    window = "" if group.window is None else f" of {_time(group.window.start)}"
    return group.key.decode(errors="replace") + window
