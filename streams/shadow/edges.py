"""The groups that a shadow's range cuts: they began before it, or they go on behind it."""

from math import inf

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.shadow.witness import Witness, leaves_traces
from sluicegate.streams.windows.tumbling import key_of


class RangeEdges:
    """Decides which groups are judged. `comparable`: results have counterparts. `windowed`: the groups are windows.
    `whole`: groups that go on behind the range are not judged either."""

    def __init__(self, witness: Witness, live: Agent, comparable: bool, windowed: bool, whole: bool) -> None:
        late = not witness.whole and (live.start != "earliest" or not leaves_traces(live))
        self._begun: set[bytes] | None = set() if late and comparable else None
        self._crossing = _crossing(witness) if comparable and not windowed else set()
        self._unfinished = _leaving(witness) if whole else frozenset()
        self._over: set[bytes] = set()  # keys whose published group goes on behind the range
        self._behind = _unfinished(witness, live) if windowed and whole else {}
        self._results = witness.published.results

    def crosses(self, key: bytes) -> bool:
        """Whether the records of the key belong to a group that began before the range, or goes on behind it."""
        begun = key not in self._crossing if self._begun is None else key in self._begun
        return not begun or key in self._over

    def judges(self, fire: Fire) -> bool:
        """Whether the group has all of its records in the range. A published group may go on behind it."""
        behind = fire.last >= self._behind.get(fire.key, inf) and fire.number not in self._results
        return not behind and not self.crosses(fire.key)

    def goes_on(self, first: int) -> bool:
        """Whether the published group that begins with this record goes on behind the range."""
        return first in self._unfinished

    def leave(self, key: bytes) -> None:
        """Notes that the next records of the key belong to a group that goes on behind the range."""
        self._over.add(key)

    def enters(self, key: bytes) -> bool:
        """Notes that a published group of the key begins. Returns whether it is the first group by which the range
        knows the key."""
        if self._begun is None or key in self._begun:
            return False
        self._begun.add(key)
        return True

    def end(self, key: bytes) -> None:
        """Notes the end of the key's group that began before the range."""
        self._crossing.discard(key)


def _crossing(witness: Witness) -> set[bytes]:
    """The keys that have a group which began before the range and goes on in it."""
    begin = witness.begin
    ended = {live.key for live in witness.published.results.values() if live.first < begin <= live.last}
    return ended | {key for key, group in witness.open.items() if group.first < begin}


def _leaving(witness: Witness) -> frozenset[int]:
    """The first records of the groups that begin in the range and go on behind it."""
    begin, end = witness.begin, witness.end
    ended = {live.first for live in witness.published.results.values() if begin <= live.first < end <= live.last}
    return frozenset(ended | {group.first for group in witness.open.values() if begin <= group.first < end})


def _unfinished(witness: Witness, live: Agent) -> dict[bytes, int]:
    """By key: the first record of a window of the store that goes on behind the range."""
    firsts, window = dict[bytes, int](), live.aggregation.window if live.aggregation else None
    if window is not None and window.windower.immediate:
        return firsts
    for name, group in witness.open.items():
        key = key_of(name)
        firsts[key] = min(firsts.get(key, group.first), group.first)
    return firsts
