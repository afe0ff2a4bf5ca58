"""The ids that one partition has accepted. They are part of its changelog, so they are restored and rewound with the
state that they protect.

An id is kept for `horizon` seconds of the owner's time after its first acceptance. Older ids, and the oldest ids beyond
`most`, are forgotten, a bounded number per commit. Measured (tests/bench/dedupe.py): an id of 36 bytes takes 128 bytes
of memory and 38 bytes of the log.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, repeat

LEAST_FORGOTTEN = 1_000  # expired ids to forget per commit, beyond twice the number of new ids
LONGEST_ID = 64  # bytes; a longer id is remembered by its SHA-256
LOGGED = 6  # bytes of the log for each id, beside its own bytes

SeenIds = tuple[float, list[bytes]]
"""When these ids were accepted, and the ids."""


class KnownIds:
    """The ids of records, for `dedupe`. `source` names the part of the record that holds the id; ids of another source
    do not count. `accepted` has the time of each id. `early` counts the ids that were forgotten before their horizon.
    The reader resets it to 0. `warned`: the log has reported it."""

    __slots__ = ("_fresh", "_order", "_when", "accepted", "early", "horizon", "most", "source", "warned")

    def __init__(self, source: str, horizon: float, most: int) -> None:
        self.source, self.horizon, self.most = source, horizon, most
        self.early = 0
        self.warned = False
        self.accepted: dict[bytes, float] = {}
        # in order of acceptance; an id that was accepted again after its horizon occurs twice
        self._order: deque[bytes] = deque()
        self._when: deque[float] = deque()
        self._fresh: list[SeenIds] = []

    @property
    def size(self) -> int:
        """The number of known ids."""
        return len(self.accepted)

    @property
    def log_bytes(self) -> int:
        """The approximate size of the known ids in the log."""
        return weight(self._order)

    def holds(self, identity: bytes, now: float) -> bool:
        """Whether this id was accepted within the horizon."""
        at = self.accepted.get(identity)
        return at is not None and now - at < self.horizon

    def note(self, ids: list[bytes], now: float) -> None:
        """Add ids that are accepted now."""
        self.accepted.update(zip(ids, repeat(now), strict=False))
        self.order(ids, now)

    def order(self, ids: list[bytes], now: float) -> None:
        """Put ids that were added to `accepted` now behind the others."""
        if ids:
            self._order.extend(ids)
            self._when.extend(repeat(now, len(ids)))
            self._fresh.append((now, ids))
            self._keep_to_limit(now)

    def order_newest(self, known: int, now: float) -> int:
        """As `order`, for the ids that were added to `accepted` behind the first `known` ones. Returns the number of
        known ids."""
        newest = [*islice(reversed(self.accepted), len(self.accepted) - known)]
        newest.reverse()
        self.order(newest, now)
        return len(self.accepted)

    def withdraw(self, ids: Iterable[bytes]) -> None:
        """Remove ids of records that were not accepted in the end."""
        for identity in ids:
            self.accepted.pop(identity, None)

    def set_back(self, now: float) -> None:
        """The owner's clock was ahead; its time is now `now`. Move later acceptance times back to `now`."""
        ahead = [identity for identity, at in self.accepted.items() if at > now]
        if ahead:
            self.accepted.update(zip(ahead, repeat(now), strict=False))
            self._fresh.append((now, ahead))
            self.settle(now)

    def changes(self, now: float) -> list[SeenIds]:
        """The ids accepted since the last call. Forgets a bounded number of expired ids."""
        fresh, self._fresh = self._fresh, []
        budget = LEAST_FORGOTTEN + 2 * sum(len(ids) for _, ids in fresh)
        while budget and self._order and now - self._when[0] >= self.horizon:
            self._forget()
            budget -= 1
        return fresh

    def remembered(self) -> deque[bytes]:
        """All known ids, oldest first; an id may occur twice."""
        return self._order.copy()

    def slice(self, queue: deque[bytes], budget: int, now: float) -> list[SeenIds]:
        """Take about `budget` bytes of ids from the queue: the ids that are still known, with their times."""
        oldest: list[SeenIds] = []
        while queue and budget > 0:
            identity = queue.popleft()
            at = self.accepted.get(identity)
            if at is None or now - at >= self.horizon:
                continue
            if not oldest or oldest[-1][0] != at:
                oldest.append((at, []))
            oldest[-1][1].append(identity)
            budget -= len(identity) + LOGGED
        return oldest

    def replay(self, batches: Iterable[SeenIds], source: str) -> None:
        """Apply one changelog entry. `settle` follows the last one."""
        if source == self.source:
            for at, ids in batches:
                self.accepted.update(zip(ids, repeat(at), strict=False))

    def settle(self, now: float) -> None:
        """After the last entry, restore the order by time. `now` is the time of that entry."""
        order = sorted(self.accepted, key=self.accepted.__getitem__)
        self._order, self._when = deque(order), deque(map(self.accepted.__getitem__, order))
        self._keep_to_limit(now)
        self.early = 0

    def _keep_to_limit(self, now: float) -> None:
        while len(self.accepted) > self.most:
            at = self._forget()
            self.early += at is not None and now - at < self.horizon

    def _forget(self) -> float | None:
        """Forget the oldest id. Returns its time, or None if the id was accepted again later and stays."""
        identity, at = self._order.popleft(), self._when.popleft()
        if self.accepted.get(identity) != at:
            return None
        del self.accepted[identity]
        return at


def weight(ids: Collection[bytes]) -> int:
    """The approximate size of these ids in the log, in bytes."""
    return len(b"".join(ids)) + LOGGED * len(ids)


def halves(batches: Sequence[SeenIds]) -> Iterator[list[SeenIds]]:
    """Split into two parts: by batches, or a single batch by its ids."""
    if len(batches) > 1:
        middle = len(batches) // 2
        yield list(batches[:middle])
        yield list(batches[middle:])
    else:
        [(at, ids)] = batches
        yield [(at, ids[: len(ids) // 2])]
        yield [(at, ids[len(ids) // 2 :])]
