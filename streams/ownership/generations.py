"""The open groups of a partition that were filled under an earlier version of the rule.

When a partition changes to another version, its open groups become an older generation, unless they fit the new rule
unchanged. The policy of the deployment decides what happens to them (docs/changing-rules.md): they finish under their
own rule, are converted to the new one, fire, are dropped, or their records are read again. A record that belongs to an
open group of a finishing generation goes there, even if the rule of that generation leaves it out. All other records go
to the newest generation.

Windows that begin at fixed times are divided by their start. A finishing generation has all windows up to the last one
that was open when the rule changed. Later windows belong to the next generation. If windows overlap, a record counts in
the windows of both.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf

from msgspec.structs import replace

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.accept import parsed
from sluicegate.streams.aggregation.converting import Conversion
from sluicegate.streams.aggregation.events import Event, GroupEnded, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule, layout_rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Claim, Generation, OutboxRow, Source
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.keys import CONVERT, DROP, FINISH, REWIND
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.ownership.beginning import endings, in_slices
from sluicegate.streams.ownership.rereading import lowest, read_again
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.reading.dedupe import DuplicateFilter
from sluicegate.streams.rules import rule_of as rule_digest
from sluicegate.streams.rules.stored import agent_of
from sluicegate.streams.rules.versions import with_rule
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.opening import accept_into, fill_into, groups_of
from sluicegate.streams.windows.tumbling import Starts


class Older:
    """One older generation: its entry in the row (`known`), its rule and its groups. `digest` is the short digest of
    the rule; empty if it is not known. `later` are the groups of the later rules."""

    __slots__ = ("agent", "digest", "groups", "known", "later", "rows")

    def __init__(self, known: Generation, file: Agent) -> None:
        """Raises ConfigurationError if the rule can no longer be built."""
        self.known = known
        self.agent = ruled(known, file)
        self.digest = rule_digest(self.agent).short if known.version else ""
        self.groups = groups_of(rule_of(known, self.agent), bool(file.history))
        self.groups.idle = known.idle or 0.0
        self.later: Sequence[Groups] = ()
        self.rows: Rows

    @property
    def finishes(self) -> bool:
        return self.known.policy == FINISH

    @property
    def divided(self) -> WindowGroups | None:
        """Its groups, if its windows are divided by their start, until no rule takes records of its last window any
        more. None otherwise."""
        last, groups = self.known.last, self.groups
        if not self.finishes or last is None or not isinstance(groups, WindowGroups):
            return None
        every = (groups, *(part for part in self.later if isinstance(part, WindowGroups)))
        return None if all(part.over(last) for part in every) else groups

    def ended(self, offset: int) -> bool:
        """Whether a commit at `offset` ends this generation."""
        open_ = self.groups.states or self.groups.events or self.divided
        return not open_ and offset >= self.known.until

    def has_all(self, record: Record) -> bool:
        """Whether no window of the record belongs to a later rule."""
        windows = self.divided
        return windows is not None and windows.begins_by(record, self.known.last or 0)

    def is_open_for(self, record: Record) -> bool:
        """Whether the record belongs to an open group of this generation. Its rule may leave the record out."""
        try:
            key, read, _ = parsed(self.groups, record)
            return key is not None and self.groups.is_open_for(record, key, read)
        except Exception:  # the new rule processes a record that the earlier rule cannot read
            return False

    def has_part(self, record: Record) -> bool:
        """Whether some windows of the record belong to this rule, and it counts the record."""
        where = self.groups.rule.where
        if self.divided is None or not self.is_open_for(record):
            return False
        try:
            return where is None or where.takes(record, record.value() or b"")
        except Exception:
            return False

    def take_part(self, record: Record, now: float, judge: Groups) -> bool:
        """Add the record to its windows of this rule. False: it was refused. `judge` then has the event."""
        events = self.groups.events
        before = len(events)
        accept_into(self.groups, [record], now)
        refused = [event for event in events[before:] if isinstance(event, Refused)]
        for event in refused:
            events.remove(event)
            judge.events.append(event)
        return not refused


def ruled(known: Generation, file: Agent) -> Agent:
    """The agent of the file under the rule of this generation."""
    return with_rule(file, agent_of(known.agent))


def rule_of(known: Generation, agent: Agent) -> Rule:
    """The compiled rule of this generation. Raises ConfigurationError."""
    if known.version == 0:
        return layout_rule(agent)
    try:
        return Rule(agent, formats.reads(agent))
    except ValueError as error:
        raise ConfigurationError(f"agent {agent.name}: version {known.version}: {error}") from error


class Generations(list[Older]):
    """The older generations of one partition, oldest first. It is false if no generation has an open group. `apart`:
    their results are sent under their own rule. With a handler, the handler gets them."""

    def __init__(self, setting: AgentRuntime, known: Sequence[Generation], apart: bool) -> None:
        self._setting, self._apart = setting, apart
        self._newest: Groups
        super().__init__(Older(generation, setting.agent) for generation in known)

    def by_number(self) -> dict[int, Groups]:
        return {generation.known.number: generation.groups for generation in self}

    def finish_beside(self, newest: Groups) -> None:
        """Let the finishing groups share the limits of the partition, and divide the windows."""
        newest.elders = [generation.groups for generation in self if generation.finishes]
        divide(self, newest)

    def begin(self, claim: Claim, name: str, newest: Groups) -> int:
        """After a restore: share the watermark of the partition, remove the generations that have ended, and let the
        others send under `claim`. Returns the next offset to read: the claim's, or a lower one if a deployment has
        records read again."""
        self._newest, offset = newest, claim.offset
        beside(self, newest)
        self[:] = [generation for generation in self if not generation.ended(claim.offset)]
        for generation in self:
            if generation.finishes and generation.known.last is None and isinstance(generation.groups, WindowGroups):
                generation.known = replace(generation.known, last=generation.groups.last_start())
            if generation.known.policy == REWIND:
                generation.groups.heap = []  # its groups do not time out
                if generation.known.until < 0:
                    generation.known, offset = replace(generation.known, until=claim.offset), lowest(generation.groups)
            generation.rows = self._setting.rows(claim.partition, generation.agent)
            generation.rows.begin(claim.token, claim.number, name)
            generation.rows.under_rule = generation.known.version > 0
        return offset

    def noted(self, source: Source | None, offset: int) -> Source | None:
        """The source for a commit at `offset`, without the generations that end with it. None: nothing changes."""
        ended = [generation for generation in self if generation.ended(offset)]
        if not ended or source is None:
            return None
        self[:] = [generation for generation in self if generation not in ended]
        divide(self, self._newest)
        return replace(source, older=tuple(generation.known for generation in self))

    def select_reread(self, records: Sequence[Record]) -> Sequence[Record]:
        """Remove records that are read again but belong to no group that is read again. Raises RewindMismatch."""
        for generation in self:
            if generation.known.until >= 0:  # even if a later deployment dropped its groups
                records = read_again(generation.groups, records, generation.known.until)
        return records

    def take(
        self, records: Sequence[Record], now: float, dedupe: DuplicateFilter | None, inbox: Sequence[Item]
    ) -> Iterator[tuple[Sequence[Record], DuplicateFilter | None]]:
        """Add the records that belong to open groups of an older generation. Yields the other records in runs, each
        with the filter of its duplicates; None: it was applied. The caller must add each run to the newest groups
        before it takes the next one. All generations share one watermark, so with windows a run is one record. Raises
        Halt."""
        others, timed = list[Record](), any(isinstance(generation.groups, WindowGroups) for generation in self)
        for record in records:
            if timed:
                divide(self, self._newest)
            parts, judge = self._shares(record)
            if judge is None and not parts:
                others.append(record)
            elif judge is not None and not parts:
                fill_into(judge.groups, [record], now, dedupe)
            else:
                groups = self._newest if judge is None else judge.groups
                for run in dedupe.runs([record], now, groups, inbox) if dedupe else ([record],):
                    if not all(part.take_part(record, now, groups) for part in parts):
                        continue
                    if judge is None:
                        yield run, None
                    else:
                        fill_into(groups, run, now, None)
            if timed:
                yield others, dedupe
                others = []
                for generation in self:
                    generation.groups.close_passed(now)
        yield others, dedupe

    def _shares(self, record: Record) -> tuple[Sequence[Older], Older | None]:
        """The generations that have some windows of the record, and the one that decides whether it is accepted; None:
        the newest one decides."""
        parts = list[Older]()
        for generation in self:
            if generation.has_all(record) or (
                generation.finishes and generation.known.last is None and generation.is_open_for(record)
            ):
                return parts, generation
            if generation.has_part(record):
                parts.append(generation)
        return parts, None

    def end(self, newest: Groups, now: float) -> Iterator[None]:
        """Before the first record: end or convert the groups as their policy requires. Yields after each slice, for its
        commit."""
        for generation in [*self]:  # a commit in between removes ended generations
            yield from _ends(generation, newest, now)
        newest.rearm()

    def expire(self, now: float, most: int) -> int:
        return sum(generation.groups.expire(now, most) for generation in self)

    def next_due(self) -> float:
        return min((generation.groups.next_due() for generation in self), default=inf)

    @property
    def behind(self) -> bool:
        return any(generation.groups.behind for generation in self)

    @property
    def changed(self) -> bool:
        return any(generation.groups.events or generation.groups.changed for generation in self)

    def items(self) -> list[Item]:
        """The completed groups and refused records, for the handler of the agent. The history notes the rule of each
        generation."""
        if self._apart:
            return []
        every = [(generation.digest, item) for generation in self for item in generation.groups.drain()]
        return [replace(item, rule=digest) if isinstance(item, GroupEnded) else item for digest, item in every]

    def results(self, rows: Rows) -> tuple[list[Event], list[OutboxRow]]:
        """The completed groups and refused records, and their rows. The rows are numbered after the rows of `rows`."""
        events: list[Event] = []
        made: list[OutboxRow] = []
        for generation in self if self._apart else ():
            own, some = generation.rows, list(generation.groups.drain())
            own.number = rows.number
            made += own.make(some)
            rows.number = own.number
            events += some
        return events, made


def beside(older: Sequence[Older], newest: Groups) -> None:
    """Let the groups of earlier rules share the watermark of the newest ones."""
    later = [newest]
    for generation in reversed(older):
        generation.groups.beside(newest)
        generation.later, later = later, [*later, generation.groups]
    divide(older, newest)


def divide(older: Sequence[Older], newest: Groups) -> None:
    """Set which windows belong to which rule, if windows begin at fixed times."""
    first = -inf
    for generation in older:
        if generation.finishes and generation.known.last is not None and isinstance(generation.groups, WindowGroups):
            generation.groups.tumbling.starts = Starts(first, generation.known.last)
            first = generation.groups.tumbling.next(generation.known.last) if generation.divided else first
    if isinstance(newest, WindowGroups):
        newest.tumbling.starts = Starts(first)


def _ends(older: Older, newest: Groups, now: float) -> Iterator[None]:
    groups = older.groups
    policy = older.known.policy
    if policy == REWIND:
        return iter(())
    if policy == FINISH:
        return endings(groups, now)
    act: Callable[[bytes], object] = lambda key: groups.flush(key, now)  # noqa: E731
    if policy == CONVERT:
        act = Conversion(groups, newest).move
    elif policy == DROP:
        act = lambda key: groups.forget(key, now)  # noqa: E731
    return in_slices(groups, list(groups.states), act)
