"""The algorithms of limits: how many tokens they grant, by the store's clock. Pure: they use no clock and no store.

A token permits one call. It begins at a moment of the store's clock, and ends a `validity` later: a paused process
cannot use its tokens after others got theirs. So the tokens that can be used within any `per` seconds begin within `per
+ validity` seconds, and the limits hold over this longer period. The validity is a twentieth of `per`: this part of the
limit is the cost of exactness.

Throttling is the generic cell rate algorithm (GCRA, ITU-T I.371): tokens begin at equal intervals, and an idle key may
get `burst` of them at once. Rate limiting keeps a log of granted tokens, in steps of time.
"""

from collections.abc import Sequence
from math import floor
from typing import Any, NamedTuple, Protocol

VALIDITY = 0.05
"""The validity of a token as a part of `per`."""
SHORTEST = 0.02
"""The shortest validity in seconds: a commit takes place between the decision for a call and its begin."""
AHEAD = 0.1
"""The number of seconds by which a process gets tokens in advance, unless their validity is longer."""
ROUNDING = 1 + 1e-9
"""Intervals are longer by this factor, so rounding never makes their sum too short."""


class CallToken(NamedTuple):
    """Permits one call that begins at or after `begins` and before `ends`, by the store's clock."""

    begins: float
    ends: float


class Grant(NamedTuple):
    """The tokens of a key, and its new state. No more tokens are available before `again`."""

    tokens: Sequence[CallToken]
    state: Any
    again: float


class SharedLimit(Protocol):
    """One limit of an agent. The state of a key is a JSON value; None is the state of an idle key. `validity` is the
    time in seconds in which a token can be used."""

    validity: float

    def grant(self, state: Any, now: float, wanted: int) -> Grant:
        """Grant up to `wanted` tokens at the store's time `now`."""

    def idle(self, state: Any, now: float) -> bool:
        """Whether the state of the key may be removed."""


class Throttling:
    """At most `limit + burst` calls in any `per` seconds. `ahead` is as AHEAD, 0 for a process that cannot wait."""

    def __init__(self, limit: int, per: float, burst: int = 0, ahead: float = AHEAD) -> None:
        self.validity = max(per * VALIDITY, SHORTEST)
        self.interval = (per + self.validity) / limit * ROUNDING
        self._credit = burst * self.interval
        self._ahead = min(max(ahead, self.validity), 1.0) if ahead else 0.0

    def grant(self, state: Any, now: float, wanted: int) -> Grant:
        first = now - max(self._credit, self.validity / 2)
        if state is not None:  # a later state was written before the clock was set back
            first = max(first, min(state, now + self._ahead + self.interval))
        count = max(0, min(wanted, floor((now + self._ahead - first) / self.interval) + 1))
        tokens = [self._token(first + number * self.interval, now) for number in range(count)]
        following = first + count * self.interval
        return Grant(tokens, following, following - self._ahead)

    def _token(self, begins: float, now: float) -> CallToken:
        """A token that begins before it is granted. Its end is at most the credit of the burst later."""
        return CallToken(begins, max(begins, min(now, begins + self._credit)) + self.validity)

    def idle(self, state: Any, now: float) -> bool:
        return bool(state <= now - max(self._credit, self.validity / 2))


class RateLimiting:
    """At most `limit` tokens in any `per` seconds, in any order of requests."""

    def __init__(self, limit: int, per: float) -> None:
        self._limit, self._step = limit, per * VALIDITY / 2
        self.validity = self._step
        self._span = per + self.validity

    def grant(self, state: Any, now: float, wanted: int) -> Grant:
        log = [[min(at, now + self._step), count] for at, count in state or () if at > now - self._span]
        count = max(0, min(wanted, self._limit - sum(count for _, count in log)))
        if count:
            at = (floor(now / self._step) + 1) * self._step  # not before any of the counted tokens
            if log and log[-1][0] >= at:
                log[-1][1] += count
            else:
                log.append([at, count])
        again = log[0][0] + self._span if log and count < wanted else now
        return Grant([CallToken(now, now + self.validity)] * count, log, again)

    def idle(self, state: Any, now: float) -> bool:
        return all(at <= now - self._span for at, _ in state)
