"""The groups of a shadow whose end is unknown."""

from collections.abc import Iterable
from math import inf

from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.shadow.clock import ClockBounds
from sluicegate.streams.shadow.published import Published, PublishedResult


class Uncertainty:
    """When a group of a key may have timed out, the key's groups are uncertain from its first record on, until a record
    comes before which any group of the key has certainly timed out. `counted`: the rule counts early results otherwise
    than the published ones. `vague`: later records depend on a window that ended without a message."""

    def __init__(self, published: Published, counted: bool, vague: bool) -> None:
        self._published, self._counted = published, counted
        self._since: dict[bytes, int] = {}  # by key: the first record of the group whose end is unknown
        self._newest: dict[bytes, ClockBounds] = {}  # the moment of the newest record of these keys
        self._stretches: dict[bytes, list[tuple[int, int]]] = {}
        self._lost: float = -inf if vague else inf  # from this record on the open groups are unknown
        self._open_then: frozenset[int] = frozenset()  # the first records of the groups that were open then

    def __bool__(self) -> bool:
        """Whether any key has uncertain groups now."""
        return bool(self._since)

    def lose(self, offset: int, firsts: Iterable[int]) -> None:
        """Notes that it is unknown from this record on which groups are open. `firsts` are the first records of those
        that may be."""
        if offset < self._lost:
            self._lost, self._open_then = offset, frozenset(firsts)

    def begin(self, key: bytes, first: int) -> None:
        """Notes that the group that begins with this record may have timed out."""
        self._since.setdefault(key, first)

    def note(self, key: bytes, now: ClockBounds) -> None:
        """Notes a record of the key within these bounds."""
        if key in self._since:
            self._newest[key] = now

    def newest(self, key: bytes) -> ClockBounds | None:
        """The moment of the newest record of a key with uncertain groups."""
        return self._newest.get(key)

    def resolve(self, key: bytes, offset: int) -> None:
        """Notes that the key's groups are certain again from this offset on."""
        since = self._since.pop(key, None)
        self._newest.pop(key, None)
        if since is not None:
            self._stretches.setdefault(key, []).append((since, offset))

    def is_certain(self, fire: Fire) -> bool:
        """Whether the end of the group is certain."""
        if self._counted:
            return False
        if self._is_lost(fire.first):
            live = self._published.results.get(fire.number)
            return live is not None and (live.last, live.count) == (fire.last, fire.count)
        return not self.is_unsure(fire.key, fire.first)

    def is_unknown(self, live: PublishedResult) -> bool:
        """Whether the group of a published result that the rule does not give is unknown."""
        return self._counted or self.is_unsure(live.key, live.first)

    def is_unsure(self, key: bytes, first: int) -> bool:
        """Whether the group of the key that begins with this record is uncertain."""
        since = self._since.get(key)
        if (since is not None and first >= since) or self._is_lost(first):
            return True
        return any(begin <= first < end for begin, end in self._stretches.get(key, ()))

    def _is_lost(self, first: int) -> bool:
        return first >= self._lost or first in self._open_then
