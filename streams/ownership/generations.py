"""The open groups of a partition that were filled under an earlier version of the rule.

When a partition changes to another version, its open groups become an older generation, unless they can go on as they
are. The policy of the deployment decides what becomes of them (docs/changing-rules.md): they finish under their own
rule, they are converted to the new one, they fire, or they are dropped. A record that belongs to an open group of a
generation that finishes goes there; all others go to the newest generation.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf

import msgspec
from msgspec.structs import replace

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.accept import accept, parsed
from sluicegate.streams.aggregation.converting import Conversion
from sluicegate.streams.aggregation.events import Event
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule, layout_rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Claim, Generation, OutboxRow, Source
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.ownership.beginning import endings, in_slices
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.reading.dedupe import DuplicateFilter
from sluicegate.streams.rules.classes import CONVERT, DROP, FINISH
from sluicegate.streams.rules.versions import with_rule


class Older:
    """One older generation: `known` as the row has it, its rule and its groups."""

    __slots__ = ("agent", "groups", "known", "rows")

    def __init__(self, known: Generation, file: Agent) -> None:
        """Raises ConfigurationError for a rule that cannot be made any more."""
        self.known = known
        self.agent = ruled(known, file)
        self.groups = Groups(rule_of(known, self.agent))
        self.groups.idle = known.idle or 0.0
        self.rows: Rows

    def takes(self, record: Record) -> bool:
        """Whether the record belongs to an open group of this generation, and its rule counts it."""
        groups, rule = self.groups, self.groups.rule
        try:
            key, _, _ = parsed(groups, record)
            return key in groups.states and (rule.where is None or rule.where.takes(record, record.value() or b""))
        except Exception:  # a record that the earlier rule cannot read is judged under the new one
            return False


def ruled(known: Generation, file: Agent) -> Agent:
    """The agent of the file under the rule of this generation."""
    return with_rule(file, msgspec.json.decode(known.agent, type=Agent))


def rule_of(known: Generation, agent: Agent) -> Rule:
    """Its compiled rule. Raises ConfigurationError."""
    if known.version == 0:
        return layout_rule(agent)
    try:
        return Rule(agent, formats.reads(agent))
    except ValueError as error:
        raise ConfigurationError(f"agent {agent.name}: version {known.version}: {error}") from error


class Generations:
    """The older generations of one partition, oldest first. It is false when none has an open group. `apart`: their
    results are sent as their own rule says. With a handler, the handler gets them."""

    def __init__(self, setting: AgentRuntime, known: Sequence[Generation], apart: bool) -> None:
        self._setting, self._apart = setting, apart
        self._all = [Older(each, setting.agent) for each in known]

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[Older]:
        return iter(self._all)

    def by_number(self) -> dict[int, Groups]:
        return {each.known.number: each.groups for each in self._all}

    def begin(self, claim: Claim, name: str) -> None:
        """After a restore: forget the generations without an open group, and send under `claim` what the others
        give."""
        self._all = [each for each in self._all if each.groups.states]
        for each in self._all:
            each.rows = self._setting.rows(claim.partition, each.agent)
            each.rows.begin(claim.token, claim.number, name)
            each.rows.under_rule = each.known.version > 0

    def noted(self, source: Source | None) -> Source | None:
        """The source for a commit, without the generations that end with it; None: nothing changes."""
        ended = [each for each in self._all if not each.groups.states and not each.groups.events]
        if not ended or source is None:
            return None
        self._all = [each for each in self._all if each not in ended]
        return replace(source, older=tuple(each.known for each in self._all))

    def take(
        self, records: Sequence[Record], now: float, dedupe: DuplicateFilter | None, inbox: Sequence[Item]
    ) -> list[Record]:
        """Add the records that belong to open groups of an older generation. Returns all others. Raises Halt."""
        others: list[Record] = []
        for record in records:
            older = next((each for each in self._all if each.known.policy == FINISH and each.takes(record)), None)
            if older is None:
                others.append(record)
                continue
            for run in dedupe.runs([record], now, older.groups, inbox) if dedupe else ([record],):
                accept(older.groups, run, now)
        return others

    def end(self, newest: Groups, now: float) -> Iterator[None]:
        """Before the first record: end or convert the groups whose policy asks for it. Yields after each slice, for its
        commit."""
        for each in self._all:
            yield from _ends(each, newest, now)
        newest.rearm()

    def expire(self, now: float, most: int) -> int:
        return sum(each.groups.expire(now, most) for each in self._all)

    def next_due(self) -> float:
        return min((each.groups.next_due() for each in self._all), default=inf)

    @property
    def behind(self) -> bool:
        return any(each.groups.behind for each in self._all)

    @property
    def changed(self) -> bool:
        return any(each.groups.events or each.groups.touched for each in self._all)

    def items(self) -> list[Item]:
        """The completed groups and refused records, for the handler of the agent."""
        return [] if self._apart else [item for each in self._all for item in each.groups.drain()]

    def results(self, rows: Rows) -> tuple[list[Event], list[OutboxRow]]:
        """The completed groups and refused records, and their rows, numbered after those of `rows`."""
        events: list[Event] = []
        made: list[OutboxRow] = []
        for each in self._all if self._apart else ():
            own, some = each.rows, list(each.groups.drain())
            own.number = rows.number
            made += own.make(some, each.groups.rule.aggregation.on_timeout)
            rows.number = own.number
            events += some
        return events, made


def _ends(older: Older, newest: Groups, now: float) -> Iterator[None]:
    groups = older.groups
    policy = older.known.policy
    if policy == FINISH:
        return endings(groups, now)
    act: Callable[[bytes], object] = lambda key: groups.fire(key, "manual", now)  # noqa: E731
    if policy == CONVERT:
        act = Conversion(groups, newest).move
    elif policy == DROP:
        act = groups.drop
    return in_slices(groups, list(groups.states), act)
