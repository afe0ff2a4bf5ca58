"""A soak: load, faults in the order of a plan, then no more faults, draining, and the report."""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from tests.chaos.audit import audit
from tests.chaos.record import Seen
from tests.chaos.verdict import distinct, judge, span
from tests.chaos.worker import Worker
from tests.soak.aborted import Aborted
from tests.soak.faults import Faults, Missed
from tests.soak.field import NAME, PARTITIONS, Field, Setting
from tests.soak.plan import Kind, Step, kinds, plan
from tests.soak.recovery import Place, Recoveries
from tests.soak.report import Report, found
from tests.waiting import wait_until

DRAIN = 120.0
TRIES = 6


class Soak:
    """One run on an open field."""

    def __init__(self, field: Field, least: int = 0) -> None:
        self.field, self.setting, self._least = field, field.setting, least
        self.ended = threading.Event()
        self.faults = Faults(field, self.ended)
        self.recoveries = Recoveries()
        self.kinds: dict[str, Kind] = kinds(self.setting.store, self.setting.brokers)
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.broken: list[str] = []  # faults that could not be carried out, and why
        self._targets = {target: threading.Lock() for kind in self.kinds.values() for target in kind.targets}
        self._aborted = Aborted(field.scene.bootstrap, f"{NAME}.in", PARTITIONS)

    def run(self) -> Report:
        app = self.field.scene
        app.feed.start()
        self._aborted.start()
        fed = time.monotonic()
        app.flowing(timeout=120.0)
        began = time.monotonic()
        if self.setting.calm:
            self._without_faults()
        else:
            self._under_faults(plan(self.setting.seed, self.setting.seconds * 3, self.setting.pace, self.kinds))
        faulty = time.monotonic() - began
        self._calm()
        fed = time.monotonic() - fed
        drained = self._drain()
        ends = [self.field.crew.end(worker) for worker in self.field.crew.members]
        wait_until(self._caught_up, 60, "the ends of the topics", pause=0.5)
        return self._report(faulty, fed, drained, ends)

    def _without_faults(self) -> None:
        began = time.monotonic()
        while time.monotonic() - began < self.setting.seconds:
            self._turn()

    # -- faults --------------------------------------------------------------------------------------------------------

    def _under_faults(self, steps: Sequence[Step]) -> None:
        """The steps of the first `seconds`, and as many more as are needed for the least."""
        began = time.monotonic()
        with ThreadPoolExecutor(16, thread_name_prefix="fault") as pool:
            under_way: list[Future[None]] = []
            for step in steps:
                if step.at >= self.setting.seconds and sum(self.done.values()) >= self._least:
                    break
                while time.monotonic() - began < step.at or sum(not task.done() for task in under_way) > 12:
                    self._turn()
                under_way.append(pool.submit(self._fault, step))
            while not all(task.done() for task in under_way):
                self._turn()
        for task in under_way:
            task.result()

    def _fault(self, step: Step) -> None:
        """Left out while its target has not got over the last one: where all is slow, faults would queue up."""
        with ExitStack() as stack:
            for lock in (self._targets[step.target], self._workers_lock(step.target)):
                if not lock.acquire(timeout=1.0):
                    self.missed[step.kind] += 1
                    return
                stack.callback(lock.release)
            self._met(step, self.kinds[step.kind])

    def _met(self, step: Step, kind: Kind) -> None:
        affected = self._affected(step)
        case = None if kind.from_end else self.recoveries.begin(step.kind, str(step), affected)
        if not self._done(step):
            self.missed[step.kind] += 1
            if case is not None:
                self.recoveries.forget(case)
            return
        self.done[step.kind] += 1
        if kind.from_end:
            self.recoveries.begin(step.kind, str(step), self._ends(affected))

    def _done(self, step: Step) -> bool:
        """Did it hit something? A process between two starts, or a link without connections, is waited for."""
        for _ in range(TRIES):
            try:
                self.faults.known[step.kind](step)
                return True
            except Missed:
                self.ended.wait(0.5)
            except (OSError, RuntimeError, TimeoutError) as error:
                self.broken.append(f"{step}: {type(error).__name__}: {error}"[:500])
                return False
        return False

    def _workers_lock(self, target: str) -> Any:
        """Nobody but the fault starts this worker again meanwhile."""
        what, _, number = target.rpartition("-")
        return self.field.crew.locks[int(number)] if what == "worker" else threading.RLock()

    def _affected(self, step: Step) -> dict[Place, int]:
        """Of a worker's fault the partitions that it has; of any other all."""
        topics = {"sums": ["in"], "book": ["out"]}.get(step.detail, ["in", "out"])
        if not step.target.startswith("worker"):
            return self._ends((topic, number) for topic in topics for number in self._numbers(topic))
        worker = self.field.crew.members[int(step.target.rpartition("-")[2])]
        if not worker.events("http.listening"):
            return {}
        with suppress(OSError):
            rows = [
                (row["topic"].removeprefix(f"{NAME}."), row["number"])
                for row in worker.partitions()
                if row["state"] == "running"
            ]
            return self._ends(place for place in rows if place[0] in topics)
        return {}

    def _numbers(self, topic: str) -> Iterable[int]:
        return range({"in": PARTITIONS, "out": 3}[topic])

    def _ends(self, places: Iterable[Place]) -> dict[Place, int]:
        return {place: self.field.scene.tap.next(f"{NAME}.{place[0]}", place[1]) for place in places}

    # -- what comes meanwhile ------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._note(self.field.scene.tap.draw(0.1))
        self.field.crew.keep()

    def _note(self, records: Sequence[Seen]) -> None:
        self.field.scene.progress.take(records)
        for record in records:
            if record.topic == f"{NAME}.out":
                partition, _, last = span(record)
                self.recoveries.progressed(("in", partition), last)
            elif record.topic == f"{NAME}.paid":
                partition = int(record.headers["sluicegate-shard"].partition(">")[0].rpartition("/")[2])
                self.recoveries.progressed(("out", partition), json.loads(record.value or b"{}")["last"])

    # -- the end -------------------------------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Nothing is held back, and no more load comes. Behind what was aborted comes a record, so that the logs end
        with one."""
        app = self.field.scene
        for proxy in self.field.links():
            proxy.release()
        self._aborted.stop()
        app.feed.stop()
        for number in range(PARTITIONS):
            app.feed.one(b"k%d" % number, b'{"v": 1}', number)

    def _drain(self) -> float | None:
        """Seconds until all had its effects, None when it never had."""
        began = time.monotonic()
        patience = 30.0 if self.setting.twin else DRAIN
        with suppress(TimeoutError):
            wait_until(self._quiet, patience, "the end of the work", pause=0)
            return time.monotonic() - began
        return None

    def _caught_up(self) -> bool:
        with suppress(KafkaException):
            self.field.scene.catch_up()
            return True
        return False

    def _quiet(self) -> bool:
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            self._turn()
        # a cluster whose leaders are still moving may not know an end
        with suppress(OSError, TimeoutError, KafkaException):
            return self.field.scene.quiet()
        return False

    def _report(self, faulty: float, fed: float, drained: float | None, ends: Sequence[int]) -> Report:
        app, books, crew = self.field.scene, self.field.ledger.books, self.field.crew
        inputs, outputs, paid = (app.records(topic) for topic in ("in", "out", "paid"))
        groups = judge(inputs, outputs, app.records("dead"))
        booked = audit(distinct(outputs), books.entries(), books.balances(), paid, app.records("book-dead"))
        return Report(
            setting=self.setting,
            faulty=faulty,
            fed=fed,
            drained=drained,
            load=os.getloadavg(),
            processors=os.cpu_count() or 0,
            faults=dict(self.done),
            process_faults=sum(count for name, count in self.done.items() if self.kinds[name].process),
            missed=dict(self.missed),
            broken=self.broken,
            recoveries=self.recoveries.times(),
            slowest=[
                f"{case.seconds:.1f} s until {case.last} went on: {case.name.strip()}"
                for case in self.recoveries.slowest(8)
            ],
            unrecovered=self.recoveries.open,
            records=len(inputs),
            messages=len(inputs) + len(outputs) + len(paid),
            copies=groups.copies + booked.copies,
            aborted_transactions=self._aborted.count,
            ended_alone={str(code): count for code, count in crew.codes.items()},
            unclean=crew.unclean,
            last_ends=ends,
            anomalies=found(groups, booked, aborted_reads(outputs)),
        )


def aborted_reads(outputs: Sequence[Seen]) -> list[str]:
    """Groups with values below zero: only what was aborted has those."""
    below = (
        (fire, [value for value in json.loads(fire.value or b"{}")["all"] if value < 0]) for fire in distinct(outputs)
    )
    return [f"group {fire.id} of {fire.key!r} {span(fire)} has {values}" for fire, values in below if values]


def soak(setting: Setting, root: Path, logs: Path, least: int = 0) -> Report:
    """Open everything in this folder, run, close it. What the workers logged stands in the file `logs`."""
    with closing(Field(setting, root)) as field:
        try:
            return Soak(field, least).run()
        finally:
            logs.parent.mkdir(exist_ok=True)
            logs.write_text("".join(_logged(field.scene.workers)))


def _logged(workers: Iterable[Worker]) -> list[str]:
    lines = [(line.get("timestamp", ""), worker.name, json.dumps(line)) for worker in workers for line in worker.lines]
    noise = [f"{worker.name} {line}" for worker in workers for line in worker.noise]
    return [f"{name} {text}\n" for _, name, text in sorted(lines)] + noise
