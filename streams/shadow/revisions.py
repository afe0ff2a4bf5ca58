"""The revisions of results whose group may have had others that no topic has: a clause left them out, and the owner's
clock said when they were due."""

import msgspec

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.shadow.published import Published, PublishedResult


class PublishedRevisions:
    """What the results of a partition say of their revisions, under a rule."""

    def __init__(self, published: Published, rule: Aggregation, witnessed: bool) -> None:
        """`witnessed`: the groups of the rule end as those of the results."""
        self.by_clock = witnessed and rule.emit is not None and rule.emit.every is not None
        self._results = published.results
        ends = published.results.values() if self.by_clock else ()
        self._last = {(live.first, _start(live)): live for live in ends if not live.goes_on}

    def as_published(self, fire: Fire) -> Fire:
        """The last result of a group, with the revision that it was published with."""
        live = self._last.get((fire.first, fire.window.start if fire.window is not None else None))
        if live is None or fire.goes_on or fire.number in self._results:
            return fire
        if fire.window is None:
            return msgspec.structs.replace(fire, revision=revision(live))
        return msgspec.structs.replace(fire, window=msgspec.structs.replace(fire.window, revision=revision(live)))


def revision(live: PublishedResult) -> int:
    """Which result of its group it is, from 1 on."""
    return live.number[2] if isinstance(live.number, tuple) and len(live.number) > 2 else 1


def _start(live: PublishedResult) -> int | None:
    return None if live.window is None else live.window.start
