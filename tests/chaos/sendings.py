"""Rows and timeouts of an application, dispatchers that fail while they send them, and what arrived."""

import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.errors import PersistenceError, SluicegateError
from sluicegate.streams.reading.receive import ReceivedShards
from tests.chaos.record import Seen
from tests.chaos.tap import Tap
from tests.chaos.worker import Worker
from tests.waiting import wait_until

KEYS = [b"red", b"green", b"blue", b"grey"]
LEASE = "2s"
AT_ONCE, PAUSE = 10, 0.03  # rows of one call, seconds between two


@dataclass
class Verdict:
    """What a receiver that drops repeats has: of each row one, in the order of its key."""

    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    copies: int = 0

    @property
    def clean(self) -> bool:
        return not (self.lost or self.repeated or self.order)


def judge(written: Sequence[str], records: Sequence[Seen], topic: str) -> Verdict:
    """`written` are values `KEY/NUMBER` (ordered) or `KEY:NUMBER` (timeouts: without order)."""
    partitions: dict[int, list[Seen]] = defaultdict(list)
    for record in records:
        partitions[record.partition].append(record)
    kept = [record for partition in partitions.values() for record in _received(partition, topic)]
    values = [(record.value or b"").decode() for record in kept]
    times, last, verdict = Counter(values), dict[str, int](), Verdict(copies=len(records) - len(kept))
    verdict.lost = [value for value in written if not times[value]]
    verdict.repeated = [value for value, count in times.items() if count > 1]
    for value in values:
        key, slash, number = value.partition("/")
        if slash:
            if int(number) < last.get(key, -1):
                verdict.order.append(value)
            last[key] = int(number)
    return verdict


def _received(partition: Sequence[Seen], topic: str) -> list[Seen]:
    """As an agent of ours takes them (streams/reading/receive.py)."""
    senders = ReceivedShards(topic)
    ours = [(record.headers["sluicegate-shard"], int(record.headers["sluicegate-seq"])) for record in partition]
    return [
        record for record, (shard, number) in zip(partition, ours, strict=True) if not senders.note(shard, number, 0.0)
    ]


class Sendings:
    """One store that is nobody else's, one topic. `close` ends all processes."""

    def __init__(self, name: str, folder: Path, bootstrap: str, store: str) -> None:
        self.topic, self.folder = f"{name}.t", folder
        self.spec = {
            "app": name,
            "kafka": {"bootstrap.servers": bootstrap},
            "store": store,
            "accept_level": "volatile",
            "http": {"port": 0},
            "outbox": {"lanes": 2, "lease": LEASE, "poll": "100ms"},
            "timeouts": {"lease": LEASE, "poll": "100ms"},
            "agents": {"idle": {"from": f"{name}.in", "aggregate": {"count": 10}, "to": {"topic": f"{name}.out"}}},
        }
        self.store: Any = open_store(store)
        self.store.outbox.set_lanes(2)
        self.tap = Tap(bootstrap, [self.topic])
        self.workers: list[Worker] = []
        self.written: list[str] = []
        self._numbers = dict.fromkeys(KEYS, 0)
        self._stop = threading.Event()
        self._feeder = threading.Thread(target=self._feed, daemon=True)

    def run(self, name: str, fault: str = "", without: str = "", environ: Mapping[str, str] | None = None) -> Worker:
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(self.spec))
        self.workers.append(Worker(file, "idle", name, fault, without, environ))
        return self.workers[-1]

    def feed(self) -> None:
        self._feeder.start()

    def _feed(self) -> None:
        while not self._stop.is_set():
            rows = [self._row(number) for number in range(AT_ONCE)]
            at = datetime.now(UTC) + timedelta(milliseconds=200)
            name = f"later:{len(self.written)}"
            timeout = Timeout(id=uuid.uuid4(), destination=self.topic, due_at=at, key=b"later", value=name.encode())
            self._surely(lambda rows=rows: self.store.outbox.add(None, rows, require_transaction=False))
            self._surely(lambda timeout=timeout: self._insert(timeout))
            self.written += [*((row.value or b"").decode() for row in rows), name]
            self._stop.wait(PAUSE)

    def _row(self, number: int) -> OutboxMessage:
        key = KEYS[number % len(KEYS)]
        self._numbers[key] += 1
        return OutboxMessage(self.topic, key, key + b"/%d" % self._numbers[key])

    def _insert(self, timeout: Timeout) -> None:
        """It may be there after a call whose reply was lost."""
        try:
            self.store.timeouts.insert(timeout)
        except PersistenceError as error:
            if "already exists" not in str(error):
                raise

    def _surely(self, call: Any) -> None:
        """A stopped process may hold the store's lock: the same call again, which counts once."""

        def made() -> bool:
            with suppress(SluicegateError):
                call()
                return True
            return False

        wait_until(made, 60, "a call to the store", pause=0.2)

    def arrived(self) -> int:
        self.tap.draw()
        return len(self.tap.seen(self.topic))

    def flowing(self, more: int = 60, timeout: float = 60.0) -> None:
        """Wait until so many more messages have arrived."""
        before = self.arrived()
        wait_until(lambda: self.arrived() >= before + more, timeout, "messages", pause=0)

    def verdict(self, settle: float = 120.0) -> Verdict:
        """No more load, everything sent, all processes ended; what is in the topic."""
        self._stop.set()
        if self._feeder.is_alive():
            self._feeder.join(30)
        with suppress(TimeoutError):
            wait_until(self._empty, settle, "an empty outbox", pause=0.1)
        for worker in self.workers:
            worker.terminate()
        codes = [worker.exit_code() for worker in self.workers]
        assert codes == [0] * len(codes)
        self.tap.finish()
        return judge(self.written, self.tap.seen(self.topic), self.topic)

    def _empty(self) -> bool:
        try:
            return self.store.timeouts.count() == 0 and self.store.outbox.count("pending") == 0
        except SluicegateError:
            return False

    def close(self) -> None:
        self._stop.set()
        for worker in self.workers:
            worker.close()
        if self._feeder.is_alive():
            self._feeder.join(30)
        self.store.close()
        self.tap.close()

    def tail(self) -> str:
        return "\n".join(worker.tail() for worker in self.workers)
