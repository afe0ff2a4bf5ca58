"""The open groups in the store."""

from dataclasses import dataclass
from math import inf
from typing import Any

from sluicegate.schemas import json
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT, OPENED
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.stores import ColdGroups
from sluicegate.streams.contracts.values import Claim, PartitionView
from sluicegate.streams.operations.groups.cold_groups import pages
from sluicegate.streams.ownership.beginning import idle_since
from sluicegate.streams.ownership.generations import Older, beside
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.testing.outputs import text_of
from sluicegate.streams.windows.opening import groups_of
from sluicegate.streams.windows.standing import open_window, plain_key


@dataclass(frozen=True, slots=True)
class Group:
    """An open group. `values` are the computed fields so far; `opened_at` is as in a result; `due_in` is in seconds,
    None without a timeout. `window` is the start and the end of the group's window; None without windows."""

    topic: str
    partition: int
    key: str | bytes
    count: int
    values: dict[str, Any]
    opened_at: str
    due_in: float | None
    window: tuple[str, str] | None = None


def groups(agent: Agent, view: PartitionView, store: ColdGroups) -> list[Group]:
    """The open groups of one partition, oldest first. Raises ChangelogIncomplete."""
    rule = Rule(agent, formats.reads(agent))
    claim = view.claim
    where, source = claim.partition, claim.source
    open_ = groups_of(rule)
    older = [Older(generation, agent) for generation in (source.older if source else ())]
    by_number = {generation.known.number: generation.groups for generation in older}
    log = Changelog(open_, claim.first, generation=source.generation if source else 0, older=by_number)
    log.replay(view.entries, claim.first, claim.last, ReceivedShards(where.topic))
    beside(older, open_)
    open_.idle = idle_since(claim.source, rule, len(open_.states) + open_.cold.count, claim.store_time) or 0.0
    for rows in pages(store, where) if open_.cold.count else ():
        log.paging.warm(rows, open_)
    return [group for groups in (*by_number.values(), open_) for group in _seen(groups, claim)]


def _seen(open_: Groups, claim: Claim) -> list[Group]:
    where, rule, seen = claim.partition, open_.rule, []
    for name, state, bags in open_.listed():
        window, key = open_window(open_, name, state), plain_key(open_, name)
        due = open_.due(state) if window is None else min(window.silent, window.latest)
        span = None if window is None else (rfc3339(window.start / 1000), rfc3339(window.end / 1000))
        values = json.decode_any(json.encode(rule.values(state, bags)))
        due_in = None if due == inf else due - claim.store_time
        opened_at = rfc3339(state[OPENED])
        seen.append(Group(where.topic, where.number, text_of(key), state[COUNT], values, opened_at, due_in, span))
    return seen
