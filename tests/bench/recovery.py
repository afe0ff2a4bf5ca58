"""Recovery: from the SIGKILL of one of two runs of an app to the next result of each partition.

Records of a group of each partition are sent all the time, and other groups are open. The killed run is left dead, or
it is started again at once.
"""

import json
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product as product_of
from pathlib import Path
from typing import NamedTuple

import psutil
from confluent_kafka import Consumer, Producer

from tests.bench.load import create
from tests.bench.processes import Measured
from tests.bench.systems import opened, product
from tests.bench.table import spread
from tests.waiting import wait_until

JOB = "recovery"
SESSION = 6.0  # seconds: session.timeout.ms
PAUSE = 0.1  # seconds between two results of a partition
STEADY = 3.0  # seconds with results before the kill
OPENED = 5_000  # groups that a slow machine opens in a second
STORES = ("sqlite", "redis", "postgresql")
FILE = """\
app: {app}
kafka:
  bootstrap.servers: {bootstrap}
  session.timeout.ms: {session}
store: {store}
dead_letters: {app}.dead
http: {{port: 0}}
agents:
  recovery:
    from: {app}.in
    aggregate:
      count: 2
      timeout: {{after: 1d, since: first}}
      compute: {{sent: {{max: sent}}}}
    to: {{topic: {app}.out}}
"""


class Case(NamedTuple):
    """`groups` are open besides those whose results are awaited."""

    partitions: int
    groups: int
    restart: bool


CASES = [Case(*case) for case in product_of((4, 64), (1_000, 100_000), (False, True))]


class Recovery(NamedTuple):
    """Seconds from the kill to the next result of the first and of the last partition that stood still. A partition of
    the other run stands still for a moment at most."""

    first: float
    last: float
    partitions: int


def line(store: str, case: Case, outcomes: Sequence[Recovery]) -> str:
    again = "started again" if case.restart else "left dead"
    first, last = ([outcome[place] for outcome in outcomes] for place in (0, 1))
    return (
        f"{JOB} {store}, {case.partitions} partitions, {case.groups} open groups, {again}: first "
        f"{spread(first, '{:.1f}')} s, last {spread(last, '{:.1f}')} s with a session timeout of {SESSION:g} s"
    )


def once(store: str, bootstrap: str, case: Case) -> Recovery:
    """Raises RuntimeError when a run ends by itself, and TimeoutError when results stay away."""
    app = f"recovery-{uuid.uuid4().hex[:8]}"
    with ExitStack() as cleaning:
        folder = Path(tempfile.mkdtemp(prefix="sluicegate-"))
        cleaning.callback(shutil.rmtree, folder, ignore_errors=True)
        url = f"sqlite:///{folder}/bench.db" if store == "sqlite" else opened(store, cleaning)[0]
        create(bootstrap, f"{app}.in", f"{app}.out", f"{app}.dead", partitions=case.partitions)
        text = FILE.format(app=app, bootstrap=bootstrap, session=round(1000 * SESSION), store=url)
        runs = [cleaning.enter_context(_run(text, folder)) for _ in range(2)]
        wait_until(lambda: _owned(runs) >= case.partitions, 90, "every partition's owner")
        results = cleaning.enter_context(_results(bootstrap, app, case))
        wait_until(results.all_since(time.time()), 60 + case.groups / OPENED, "results of every partition")
        time.sleep(STEADY)
        killed = time.time()
        _kill(runs[0])
        if case.restart:
            cleaning.enter_context(_run(text, folder))
        wait_until(results.all_since(killed), 180, "results of every partition after the kill", pause=0.05)
        late = sorted(at - killed for at in results.since(killed).values())
        still = [seconds for seconds in late if seconds > SESSION / 2]
        return Recovery(still[0], still[-1], len(still))


@contextmanager
def _run(text: str, folder: Path) -> Iterator[Measured]:
    process = Measured(product(text, folder), folder)
    try:
        yield process
    finally:
        process.stop(20.0)


def _owned(runs: list[Measured]) -> int:
    for run in runs:
        run.check()
    return sum(run.claims for run in runs)


def _kill(run: Measured) -> None:
    children = psutil.Process(run.pid).children(recursive=True)
    for pid in (run.pid, *(child.pid for child in children)):
        os.kill(pid, signal.SIGKILL)


class _Results:
    """Sends records to every partition and notes when the result of a record of each partition came."""

    def __init__(self, bootstrap: str, app: str, case: Case) -> None:
        self._bootstrap, self._app, self._case = bootstrap, app, case
        self._stop = threading.Event()
        self._came: dict[int, list[tuple[float, float]]] = {number: [] for number in range(case.partitions)}
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._receive)]

    def close(self) -> None:
        self._stop.set()
        for thread in self.threads:
            thread.join(10)

    def since(self, moment: float) -> dict[int, float]:
        """When the first result of a record that was sent after `moment` came, by partition."""
        return {
            number: next(came for sent, came in list(results) if sent > moment)
            for number, results in self._came.items()
            if any(sent > moment for sent, _ in list(results))
        }

    def all_since(self, moment: float) -> Callable[[], bool]:
        return lambda: len(self.since(moment)) == self._case.partitions

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5})
        for number in range(self._case.groups):
            while True:
                try:
                    producer.produce(
                        f"{self._app}.in", b'{"sent": 0}', f"open-{number}", number % self._case.partitions
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(60)
        while not self._stop.wait(PAUSE):
            for number in range(self._case.partitions):
                value = json.dumps({"sent": time.time()})
                for _ in range(2):
                    producer.produce(f"{self._app}.in", value, f"{number}", number)
            producer.poll(0)
        producer.flush(5)

    def _receive(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([f"{self._app}.out"])
        while not self._stop.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                result = json.loads(message.value())
                self._came[int(message.key())].append((result["sent"], time.time()))
        consumer.close()


@contextmanager
def _results(bootstrap: str, app: str, case: Case) -> Iterator[_Results]:
    results = _Results(bootstrap, app, case)
    for thread in results.threads:
        thread.start()
    try:
        yield results
    finally:
        results.close()
