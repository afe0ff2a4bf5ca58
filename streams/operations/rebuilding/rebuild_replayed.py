"""Rebuilds a partition by replaying its groups: windows of every kind, correlations, and groups that may end without a
message. Pure.

It is the fold of a shadow (streams/shadow/fold.py) with another receiver. Published outputs are done. Missing outputs
are decided again. Groups that the input leaves open are the state.
"""

from collections.abc import Callable, Sequence

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import Event, Fire, Refused
from sluicegate.streams.aggregation.layout import merges
from sluicegate.streams.aggregation.results import results
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.operations.rebuilding.rebuild import Reach, Rebuilt
from sluicegate.streams.operations.rebuilding.rebuild_known import KnownOutputs
from sluicegate.streams.outbox.history import is_silent, with_history
from sluicegate.streams.shadow.fold import UNTOLD, ShadowFold
from sluicegate.streams.shadow.judge import OpenExtent, decided
from sluicegate.streams.shadow.published import PublishedResult
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.shadow.witness import Codecs, Witness


class Unsent:
    """Satisfies sluicegate.streams.shadow.fold.FoldReceiver. `decided`, `doubtful`, `gaps`, `lost` and `untold` are as
    in Rebuilt. `settled` are the keys with a published result."""

    def __init__(self, agent: Agent, witness: Witness, reach: Reach) -> None:
        self.verdicts = Shadowed()
        self.decided: dict[GroupNumber, Event] = {}
        self.doubtful, self.gaps, self.lost, self.untold = list[int](), list[int](), list[int](), list[int]()
        self.settled: set[bytes] = set()
        self._agent, self._results, self._reach, self._begin = agent, results(agent), reach, witness.begin
        published, rule = witness.published, agent.aggregation
        self._immediate = rule is not None and rule.window is not None and rule.window.windower.immediate
        self._open, self._letters = dict(published.results), set(published.letters)
        if rule is not None and merges(rule):
            self.lost += [live.first for live in self._open.values() if live.first < self._begin <= live.last]

    def result(self, fire: Fire, certain: bool) -> None:
        live = self._open.pop(fire.number, None)
        if live is not None:
            self._settle(live, (live.last, live.count) == (fire.last, fire.count))
            return
        silent = is_silent(self._agent, fire)
        events = with_history(self._agent, fire, () if silent else decided(self._agent, self._results, fire))
        if fire.reason == UNTOLD:
            self.gaps.append(fire.first)
        elif not certain:
            self.untold.append(fire.first)
        elif fire.goes_on and self._may_be_gone(fire.key, fire.first):
            return  # a later result has all of its records
        elif events:
            [self.decided[fire.number]] = events[:1]
            if self._may_be_gone(fire.key, fire.first):
                self.doubtful.append(fire.first)

    def _settle(self, live: PublishedResult, alike: bool) -> None:
        self.settled.add(live.key)
        if not alike:
            self.lost.append(live.first)

    def _may_be_gone(self, key: bytes, first: int) -> bool:
        """Whether retention may have deleted the result. It is there if an earlier result of its key is."""
        return first < self._reach.results and (self._reach.mixed or key not in self.settled)

    def early(self, live: PublishedResult, why: str) -> None:
        self._settle(self._open.pop(live.number, live), True)

    def letter(self, refused: Refused) -> None:
        offset = refused.record.offset()
        if offset in self._letters:
            return
        self.decided[offset] = refused
        if offset < self._reach.letters:
            self.doubtful.append(offset)

    def witnessed_letter(self, offset: int) -> None:
        """The record is in no group."""

    def group(self, key: bytes, new: OpenExtent | None, live: OpenExtent | None, certain: bool = True) -> None:
        if self._immediate:
            return  # each record of it had a result of its own
        if new is not None and not certain:
            self.untold.append(new.extent.first)
        elif new is not None and self._may_be_gone(key, new.extent.first):
            self.doubtful.append(new.extent.first)

    def finish(self, begin: int, end: int, unsure: Callable[[PublishedResult], bool]) -> Shadowed:
        self.lost += [live.first for live in self._open.values() if live.first >= begin]
        return self.verdicts


class ReplayedRebuild:
    """Takes the records of one partition from `witness.begin` on, in order."""

    def __init__(self, agent: Agent, codecs: Codecs, witness: Witness, reach: Reach, known: KnownOutputs) -> None:
        self._unsent, self._known, self._epoch = Unsent(agent, witness, reach), known, -1
        self._fold = ShadowFold(agent, agent, codecs, witness, self._unsent)

    def take(self, records: Sequence[Record]) -> None:
        """Raises ConfigurationError."""
        self._fold.take(records)
        for record in records:
            epoch = record.leader_epoch()
            self._epoch = -1 if epoch is None else epoch

    def finish(self, offset: int) -> Rebuilt:
        """The result. The caller has passed all records below `offset`. Raises ConfigurationError."""
        self._fold.finish()
        (groups, senders, seen), unsent, known = self._fold.restored, self._unsent, self._known
        return Rebuilt(
            known.partition,
            offset,
            self._epoch,
            groups,
            senders,
            seen,
            unsent.decided,
            unsent.verdicts.records,
            len(known.results) + len(known.crossing),
            sorted(unsent.doubtful),
            sorted(unsent.gaps),
            sorted(unsent.lost),
            sorted(unsent.untold),
        )
