"""How many tokens a limit gives, by the store's clock. Pure: it uses no clock and no store.

A token permits one call. It begins at a moment of the store's clock, and ends a `validity` later: a process that was
paused with tokens in its hands cannot use them after others got theirs. So the tokens that may be used within any
`per` seconds begin within `per + validity` seconds, and the limits are kept over that longer time. The validity is a
twentieth of `per`: this is the part of the limit that is given away for exactness.

Throttling is the generic cell rate algorithm (GCRA, ITU-T I.371): tokens begin at equal distances, and a key that was
idle may have `burst` of them at once. Rate limiting keeps a log of what was given, in steps of time.
"""

from collections.abc import Sequence
from math import floor
from typing import Any, NamedTuple, Protocol

VALIDITY = 0.05
"""The validity of a token as a part of `per`."""
SHORTEST = 0.02
"""The shortest validity in seconds: a commit lies between the decision for a call and its begin."""
AHEAD = 0.1
"""For how many seconds in advance a process gets tokens, unless their validity is longer."""
ROUNDING = 1 + 1e-9
"""Distances are longer by this factor, so that no sum of them is too short."""


class CallToken(NamedTuple):
    """It permits one call that begins at `begins` or later, and before `ends`, by the store's clock."""

    begins: float
    ends: float


class Grant(NamedTuple):
    """The tokens of a key, and its state from now on. There are no further ones before `again`."""

    tokens: Sequence[CallToken]
    state: Any
    again: float


class SharedLimit(Protocol):
    """One limit of an agent. The state of a key is what JSON can write; None is the state of a key that is idle.
    `validity` is the seconds in which a token can be used."""

    validity: float

    def grant(self, state: Any, now: float, wanted: int) -> Grant:
        """Up to `wanted` tokens at the store's time `now`."""

    def idle(self, state: Any, now: float) -> bool:
        """Whether the key may be forgotten."""


class Throttling:
    """At most `limit + burst` calls in any `per` seconds. `ahead` is as AHEAD, 0 for a process that cannot wait."""

    def __init__(self, limit: int, per: float, burst: int = 0, ahead: float = AHEAD) -> None:
        self.validity = max(per * VALIDITY, SHORTEST)
        self.interval = (per + self.validity) / limit * ROUNDING
        self._credit = burst * self.interval
        self._ahead = min(max(ahead, self.validity), 1.0) if ahead else 0.0

    def grant(self, state: Any, now: float, wanted: int) -> Grant:
        first = now - max(self._credit, self.validity / 2)
        if state is not None:  # one that is further ahead is of a clock that was set back since
            first = max(first, min(state, now + self._ahead + self.interval))
        count = max(0, min(wanted, floor((now + self._ahead - first) / self.interval) + 1))
        tokens = [self._token(first + number * self.interval, now) for number in range(count)]
        following = first + count * self.interval
        return Grant(tokens, following, following - self._ahead)

    def _token(self, begins: float, now: float) -> CallToken:
        """One that began before it is given ends later by the credit of the burst at the most."""
        return CallToken(begins, max(begins, min(now, begins + self._credit)) + self.validity)

    def idle(self, state: Any, now: float) -> bool:
        return bool(state <= now - max(self._credit, self.validity / 2))


class RateLimiting:
    """At most `limit` tokens in any `per` seconds, in whatever order they are asked for."""

    def __init__(self, limit: int, per: float) -> None:
        self._limit, self._step = limit, per * VALIDITY / 2
        self.validity = self._step
        self._span = per + self.validity

    def grant(self, state: Any, now: float, wanted: int) -> Grant:
        log = [[min(at, now + self._step), count] for at, count in state or () if at > now - self._span]
        count = max(0, min(wanted, self._limit - sum(count for _, count in log)))
        if count:
            at = (floor(now / self._step) + 1) * self._step  # not before any of the tokens that it counts
            if log and log[-1][0] >= at:
                log[-1][1] += count
            else:
                log.append([at, count])
        again = log[0][0] + self._span if log and count < wanted else now
        return Grant([CallToken(now, now + self.validity)] * count, log, again)

    def idle(self, state: Any, now: float) -> bool:
        return all(at <= now - self._span for at, _ in state)
