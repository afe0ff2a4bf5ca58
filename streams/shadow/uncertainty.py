"""The groups of a shadow of which nobody knows how they ended."""

from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.shadow.clock import ClockBounds
from sluicegate.streams.shadow.published import Published, PublishedResult


class Uncertainty:
    """A group of a key may have timed out: from its first record on the key's groups are uncertain, until a record
    comes before which any group of the key has certainly timed out. `counted`: early results are counted otherwise than
    those that were published. `vague`: a window that ended without a word decided where later records are."""

    def __init__(self, published: Published, counted: bool, vague: bool) -> None:
        self._published, self._counted, self._vague = published, counted, vague
        self._since: dict[bytes, int] = {}  # by key: the first record of the group whose end is not known
        self._newest: dict[bytes, ClockBounds] = {}  # the moment of the newest record of these keys
        self._stretches: dict[bytes, list[tuple[int, int]]] = {}

    def __bool__(self) -> bool:
        """Whether a key has groups now that are uncertain."""
        return bool(self._since)

    def begin(self, key: bytes, first: int) -> None:
        """The group that begins with this record may have timed out."""
        self._since.setdefault(key, first)

    def note(self, key: bytes, now: ClockBounds) -> None:
        """A record of the key is taken within these bounds."""
        if key in self._since:
            self._newest[key] = now

    def newest(self, key: bytes) -> ClockBounds | None:
        """The moment of the newest record of a key with uncertain groups."""
        return self._newest.get(key)

    def resolve(self, key: bytes, offset: int) -> None:
        """From this offset on it is certain again which groups the key has."""
        since = self._since.pop(key, None)
        self._newest.pop(key, None)
        if since is not None:
            self._stretches.setdefault(key, []).append((since, offset))

    def is_certain(self, fire: Fire) -> bool:
        """Whether it is known that the group ended so."""
        if self._counted:
            return False
        if self._vague:
            live = self._published.results.get(fire.number)
            return live is not None and (live.last, live.count) == (fire.last, fire.count)
        return not self.is_unsure(fire.key, fire.first)

    def is_unknown(self, live: PublishedResult) -> bool:
        """Whether the group of a published result that the rule does not give is not known."""
        return self._counted or self.is_unsure(live.key, live.first)

    def is_unsure(self, key: bytes, first: int) -> bool:
        """Whether the group of the key that begins with this record is uncertain."""
        since = self._since.get(key)
        if (since is not None and first >= since) or self._vague:
            return True
        return any(begin <= first < end for begin, end in self._stretches.get(key, ()))
