"""The tokens of one limit in this process. Its loop requests blocks of them from the ledger; any thread takes one."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from threading import Event, Lock

import structlog

from sluicegate.streams.flow.ledger import Ledger, States
from sluicegate.streams.flow.limits import CallToken, Grant, SharedLimit

MOST_KEYS = 20_000
"""The maximum number of keys in a ledger that are not idle. Other keys wait, because each block writes all of them."""
FULL = 1.0  # seconds until a key that waits for room in the ledger retries


class Tokens:
    """`monotonic` is the clock of this process."""

    def __init__(self, limit: SharedLimit, ledger: Ledger, monotonic: Callable[[], float]) -> None:
        self._limit, self._ledger, self._monotonic = limit, ledger, monotonic
        self._lock = Lock()
        self._tokens: dict[bytes, deque[CallToken]] = {}
        self._taken: Counter[bytes] = Counter()  # tokens used since the last block
        self._again: dict[bytes, float] = {}  # the store's time of the next request to the ledger

    def count(self, key: bytes, latency: float = 0.0) -> int:
        """The number of tokens of the key that are usable now or soon, by a call that begins after this latency in
        seconds."""
        with self._lock:
            return len(self._valid(key, min(latency, self._limit.validity / 2)))

    def _valid(self, key: bytes, latency: float = 0.0) -> deque[CallToken]:
        tokens, now = self._tokens.get(key, deque()), self._ledger.time.latest(self._monotonic()) + latency
        while tokens and tokens[0].ends <= now:
            tokens.popleft()
        return tokens

    def ask(self, wanted: Mapping[bytes, int]) -> None:
        """Request tokens for the keys that may get more, in one change of the ledger. A key that used more tokens than
        are wanted now gets more at once. Raises Fenced if other processes were always faster; PersistenceError and
        ChangelogIncomplete."""
        now = self._ledger.time.latest(self._monotonic())
        with self._lock:
            asked = {
                key: max(count, 2 * self._taken[key])
                for key, count in wanted.items()
                if self._again.get(key, 0.0) <= now
            }
        if not asked:
            return
        self._keep(self._ledger.change(lambda states, now: self._granted(states, now, asked)))

    def _granted(self, states: States, now: float, asked: Mapping[bytes, int]) -> dict[bytes, Grant]:
        grants = granted(self._limit, states, now, asked)
        states.update((key, grant.state) for key, grant in grants.items() if grant.state is not None)
        return grants

    def _keep(self, grants: Mapping[bytes, Grant]) -> None:
        now = self._ledger.time.latest(self._monotonic())
        with self._lock:
            self._again = {key: at for key, at in self._again.items() if at > now}
            self._tokens = {key: tokens for key, tokens in self._tokens.items() if tokens and tokens[-1].ends > now}
            self._taken = Counter({key: self._taken[key] for key in self._tokens})
            for key, grant in grants.items():
                self._tokens.setdefault(key, deque()).extend(grant.tokens)
                self._taken[key] = 0
                self._again[key] = grant.again

    def wait(self, key: bytes) -> float:
        """The seconds until the ledger may have more tokens of the key."""
        return max(0.0, self._again.get(key, 0.0) - self._ledger.time.earliest(self._monotonic()))

    def take(self, key: bytes, cancelled: Event) -> bool:
        """Wait for the begin of a token, and use it. Returns False if there is none, or the call was `cancelled`."""
        while True:
            with self._lock:
                tokens = self._valid(key)
                if not tokens:
                    return False
                token = tokens.popleft()
                self._taken[key] += 1
            early = token.begins - self._ledger.time.earliest(self._monotonic())
            if early > 0 and cancelled.wait(early):
                return False
            if self._ledger.time.latest(self._monotonic()) < token.ends:
                return True


def granted(limit: SharedLimit, states: States, now: float, asked: Mapping[bytes, int]) -> dict[bytes, Grant]:
    """Grant the tokens of these keys. The states of idle keys are removed."""
    for key in [key for key, state in states.items() if state is not None and limit.idle(state, now)]:
        states[key] = None
    full = sum(state is not None for state in states.values()) >= MOST_KEYS
    grants: dict[bytes, Grant] = {}
    for key, count in asked.items():
        known = states.get(key)
        grants[key] = Grant((), None, now + FULL) if full and known is None else limit.grant(known, now, count)
    if full and any(grant.state is None for grant in grants.values()):
        structlog.get_logger().warning("flow.full", keys=MOST_KEYS)
    return grants
