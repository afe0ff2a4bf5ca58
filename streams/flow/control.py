"""The flow control of one agent in one process: the order of its calls, and the limits that all workers share."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event, Lock

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Handler, RateLimit
from sluicegate.streams.aggregation.events import Fire, Refused, Unhandled
from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.contracts.stores import Store, TopicPartition
from sluicegate.streams.errors import Fenced, PersistenceError, SystemNotReady
from sluicegate.streams.flow.item_values import key_of, priority_of
from sluicegate.streams.flow.ledger import Ledger, States, place
from sluicegate.streams.flow.limits import AHEAD, RateLimiting, Throttling
from sluicegate.streams.flow.singletons import AGAIN, ENTERS, Singletons
from sluicegate.streams.flow.tokens import Tokens, granted
from sluicegate.streams.handlers.admission import CallAdmission
from sluicegate.streams.handlers.handling import number_of
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.sealed import SealedItem
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.units import spoken_duration

RATE_LIMITED = "rate-limited"
SOON = 0.002  # minimum seconds until a call that waits for a token retries
CONTENDED = 0.02  # seconds until the ledger is tried again, after other processes were always faster
AWAY = 0.5  # seconds until the store is tried again, after it did not answer
TAKEN = b"\0"
"""The prefix of the states with the numbers of a partition's items. No key of a limit has it."""
MOST_TAKEN = 2_000
"""The maximum of stored numbers of a partition: more than the items of one commit."""
ItemKey = Callable[[Message | Fire], bytes]


class Prioritized(CallAdmission):
    """Calls with a higher priority begin first, across all partitions of the worker."""

    def __init__(self, number: Callable[[Message | Fire], float]) -> None:
        self._number = number

    def order(self, ready: Sequence[SealedItem], others: Iterable[SealedItem], slots: int) -> Sequence[SealedItem]:
        if not ready:
            return ready
        ordered = sorted(((-self._priority(item), item) for item in ready), key=lambda pair: pair[0])
        rivals = sorted(-self._priority(item) for item in others)
        first: list[SealedItem] = []
        before = 0
        for rank, item in ordered:
            while before < len(rivals) and rivals[before] < rank:
                before += 1
            if before + len(first) >= slots:
                break
            first.append(item)
        return first

    def _priority(self, item: SealedItem) -> float:
        if item.priority is None:
            item.priority = self._number(item.item)
        return item.priority


class Keyed(CallAdmission):
    """A limit by key. The loop evaluates the key of an item, and threads read it from the item."""

    name: str

    def __init__(self, key: ItemKey) -> None:
        self._key_of = key

    def _key(self, item: SealedItem) -> bytes:
        key = item.keys.get(self.name)
        if key is None:
            key = item.keys[self.name] = self._key_of(item.item)
        return key


class Throttled(Keyed):
    """Calls wait for tokens. The process gets some in advance, and a thread takes one when its call begins."""

    name = "throttle"

    def __init__(
        self, tokens: Tokens, key: ItemKey, monotonic: Callable[[], float], delayed: Callable[[], object]
    ) -> None:
        super().__init__(key)
        self._tokens, self._monotonic, self._delayed = tokens, monotonic, delayed
        self._lock = Lock()
        self._admitted: dict[bytes, deque[float]] = {}  # times of admitted calls that have not begun yet
        self._latency = 0.0  # moving average of the seconds from the admission of a call to its begin

    def admit(self, ready: Sequence[SealedItem], now: float) -> Sequence[SealedItem]:
        keys = [self._key(item) for item in ready]
        short = {key: count for key, count in Counter(keys).items() if self._free(key) < count}
        if short:
            try:
                self._tokens.ask(short)
            except (Fenced, PersistenceError, SystemNotReady) as error:
                for item in ready:
                    item.ready_at = now + (CONTENDED if isinstance(error, Fenced) else AWAY)
                return ()
        free = {key: self._free(key) for key in set(keys)}
        admitted: list[SealedItem] = []
        for item, key in zip(ready, keys, strict=True):
            if free[key] > 0:
                free[key] -= 1
                with self._lock:
                    self._admitted.setdefault(key, deque()).append(self._monotonic())
                admitted.append(item)
            else:
                self._delayed()
                item.ready_at = now + max(SOON, self._tokens.wait(key))
        return admitted

    def _free(self, key: bytes) -> int:
        """The number of tokens without an admitted call."""
        with self._lock:
            calls = self._admitted.get(key, deque())
            while calls and calls[0] < self._monotonic() - ENTERS:
                calls.popleft()
            if not calls:
                self._admitted.pop(key, None)
            return self._tokens.count(key, self._latency) - len(calls)

    def enter(self, item: SealedItem, cancelled: Event) -> bool:
        key = self._key(item)
        entered = self._tokens.take(key, cancelled)
        with self._lock:
            if calls := self._admitted.get(key):
                self._latency += (self._monotonic() - calls.popleft() - self._latency) / 8
        return entered


class RateLimited(CallAdmission):
    """Items beyond the limit are never called. The ledger stores the numbers of the last accepted items of each
    partition: items that are read again after a crash are not counted twice."""

    def __init__(
        self, limit: RateLimiting, ledger: Ledger, key: ItemKey, rate: RateLimit, refused: Callable[[], object]
    ) -> None:
        self._limit, self._ledger, self._key, self._refused = limit, ledger, key, refused
        self._drops = rate.over == "drop"
        self._error = f"beyond the rate limit of {rate.limit} in {spoken_duration(rate.per)}"

    def accept(self, items: Sequence[Item], place: TopicPartition) -> Sequence[Item]:
        keys = {str(number_of(item)): self._key(item) for item in items if isinstance(item, Message | Fire)}
        if not keys:
            return items
        try:
            within = self._ledger.change(lambda states, now: self._within_limit(states, now, place, keys))
        except Fenced as error:  # the claim of the ledger, not of the partition
            raise PersistenceError(str(error)) from error
        accepted: list[Item] = []
        for item in items:
            if not isinstance(item, Message | Fire) or str(number_of(item)) in within:
                accepted.append(item)
                continue
            self._refused()
            if not self._drops:
                accepted.append(self._over(item))
        return accepted

    def _within_limit(self, states: States, now: float, place: TopicPartition, keys: Mapping[str, bytes]) -> set[str]:
        """The numbers of the items within the limit."""
        name = TAKEN + f"{place[0]}/{place[1]}".encode()
        known: list[str] = states.get(name) or []
        wanted = Counter(key for number, key in keys.items() if number not in known)
        of_keys = {key: state for key, state in states.items() if key[:1] != TAKEN}
        free = granted(self._limit, of_keys, now, wanted)
        states.update(of_keys | {key: grant.state for key, grant in free.items()})
        tokens = {key: len(grant.tokens) for key, grant in free.items()}
        within = set[str]()
        for number, key in keys.items():
            if number in known or tokens.get(key, 0) > 0:
                within.add(number)
                tokens[key] = tokens.get(key, 0) - (number not in known)
        states[name] = [*(number for number in known if number not in within), *within][-MOST_TAKEN:]
        return within

    def _over(self, item: Message | Fire) -> Refused | Unhandled:
        if isinstance(item, Message):
            return Refused(item.record, "handler", RATE_LIMITED, self._error)
        return Unhandled(item, self._error, 1, RATE_LIMITED)


class OneAtATime(Keyed):
    """Calls wait until no other call of their key runs."""

    name = "singleton"

    def __init__(self, keys: Singletons, key: ItemKey) -> None:
        super().__init__(key)
        self._keys = keys

    def admit(self, ready: Sequence[SealedItem], now: float) -> Sequence[SealedItem]:
        first: dict[bytes, SealedItem] = {}
        for item in ready:
            first.setdefault(self._key(item), item)
            item.ready_at = now + AGAIN / 2
        admitted = self._keys.admit(first)
        return [item for key, item in first.items() if key in admitted]

    def enter(self, item: SealedItem, cancelled: Event) -> bool:
        return self._keys.enter(self._key(item), item)

    def release(self, item: SealedItem) -> None:
        self._keys.release(self._key(item), item)

    def turn(self, now: float) -> None:
        self._keys.turn()


class FlowControl(CallAdmission):
    """All stages of an agent's flow control, in order."""

    def __init__(self, stages: Sequence[CallAdmission]) -> None:
        self._stages = stages

    def accept(self, items: Sequence[Item], place: TopicPartition) -> Sequence[Item]:
        for stage in self._stages:
            items = stage.accept(items, place)
        return items

    def order(self, ready: Sequence[SealedItem], others: Iterable[SealedItem], slots: int) -> Sequence[SealedItem]:
        for stage in self._stages:
            ready = stage.order(ready, others, slots)
        return ready

    def admit(self, ready: Sequence[SealedItem], now: float) -> Sequence[SealedItem]:
        for stage in self._stages:
            ready = stage.admit(ready, now) if ready else ready
        return ready

    def enter(self, item: SealedItem, cancelled: Event) -> bool:
        if all(stage.enter(item, cancelled) for stage in self._stages):
            return True
        self.release(item)
        return False

    def release(self, item: SealedItem) -> None:
        for stage in self._stages:
            stage.release(item)

    def turn(self, now: float) -> None:
        for stage in self._stages:
            stage.turn(now)


def flow_control(
    app: str,
    agent: Agent,
    handler: Handler,
    codec: Codec,
    store: Store,
    pool: Pool,
    monotonic: Callable[[], float],
    token: Callable[[], str],
    count: Callable[[str], object],
) -> CallAdmission:
    """Build the flow control of the agent's handler. `count` counts a metric. Raises ConfigurationError."""

    def ledger(name: str) -> Ledger:
        return Ledger(store, place(app, agent.name, name), token, monotonic)

    stages: list[CallAdmission] = []
    if (rate := handler.rate_limit) is not None:
        key, counted = key_of(agent, codec, "rate_limit.key", rate.key), lambda: count("records_rate_limited")
        stages.append(RateLimited(RateLimiting(rate.limit, rate.per), ledger("rate_limit"), key, rate, counted))
    if handler.priority:
        stages.append(Prioritized(priority_of(agent, codec, "priority", handler.priority)))
    if handler.singleton:
        key = key_of(agent, codec, "singleton", handler.singleton)
        stages.append(OneAtATime(Singletons(ledger("singleton"), token(), monotonic), key))
    if (throttle := handler.throttle) is not None:
        limit = Throttling(throttle.limit, throttle.per, throttle.burst, AHEAD if pool.waits else 0.0)
        key = key_of(agent, codec, "throttle.key", throttle.key)
        tokens = Tokens(limit, ledger("throttle"), monotonic)
        stages.append(Throttled(tokens, key, monotonic, lambda: count("calls_throttled")))
    return FlowControl(stages) if stages else CallAdmission()
