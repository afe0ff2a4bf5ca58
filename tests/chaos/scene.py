"""A scenario: topics with a load, workers with faults, then no more faults, draining, and the verdict."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from tests.chaos.feed import PAUSE, Feed
from tests.chaos.progress import Effect, Progress, of_a_group
from tests.chaos.record import Seen
from tests.chaos.tap import Tap
from tests.chaos.verdict import Place, Verdict, balance, judge
from tests.chaos.worker import Worker
from tests.waiting import wait_until

SESSION = 2500  # milliseconds until a silent member is out
COUNT, TIMEOUT = 7, "1s"


def document(name: str, bootstrap: str, store: str, collect: bool, count: int, kafka: dict[str, Any]) -> dict[str, Any]:
    """The file: groups of `count` or TIMEOUT, and an agent further down that adds up what came out."""
    compute: dict[str, Any] = {"total": {"sum": "v"}} | ({"all": {"collect": "v"}} if collect else {})
    sums = {
        "from": f"{name}.in",
        "aggregate": {"count": count, "timeout": {"after": TIMEOUT}, "compute": compute},
        "to": {"topic": f"{name}.out"},
    }
    totals = {
        "from": f"{name}.out",
        "aggregate": {
            "count": 5,
            "timeout": {"after": TIMEOUT},
            "compute": {"records": {"sum": "count"}, "totals": {"collect": "total"}},
        },
        "to": {"topic": f"{name}.totals"},
    }
    settings = {"bootstrap.servers": bootstrap, "session.timeout.ms": SESSION, "heartbeat.interval.ms": 300} | kafka
    return {
        "app": name,
        "kafka": {setting: value for setting, value in settings.items() if value is not None},
        "store": store,
        "http": {"port": 0},
        "start_timeout": "30s",
        "dead_letters": f"{name}.dead",
        "outbox": False,
        "timeouts": False,
        "agents": {"sums": sums, "totals": totals},
    }


class Scene:
    """One app on topics of its own. `close` ends all its processes."""

    def __init__(
        self,
        name: str,
        folder: Path,
        bootstrap: str,
        store: str,
        partitions: int = 2,
        collect: bool = False,
        count: int = COUNT,
        kafka: dict[str, Any] | None = None,
        effect: Effect = of_a_group,
        pause: float = PAUSE,
    ) -> None:
        self.name, self.folder, self.bootstrap, self.store, self.partitions = name, folder, bootstrap, store, partitions
        self.spec = document(name, bootstrap, store, collect, count, kafka or {})
        self.feed = Feed(bootstrap, f"{name}.in", partitions, pause)
        self.tap = Tap(bootstrap, [f"{name}.{topic}" for topic in ("in", "out", "dead", "totals")])
        self.progress = Progress(name, effect)
        self.workers: list[Worker] = []
        self.poison: frozenset[Place] = frozenset()
        self.between: list[str] = []  # topics besides `in` that must be read to their ends

    def run(
        self,
        name: str = "healthy",
        fault: str = "",
        without: str = "",
        agent: str = "sums",
        store: str = "",
        bootstrap: str = "",
        environ: Mapping[str, str] | None = None,
        enter: Callable[[], None] = lambda: None,
        options: Sequence[str] = (),
    ) -> Worker:
        """Start a worker; names are unique. `store` and `bootstrap` are where this one finds its store and its brokers;
        without an `agent` it runs all of them. `enter` is called in its process first; `options` are those of
        `sluicegate run`."""
        file = self.folder / f"{name}.yaml"
        kafka = self.spec["kafka"] | {"bootstrap.servers": bootstrap or self.bootstrap}
        file.write_text(yaml.safe_dump(self.spec | {"store": store or self.store, "kafka": kafka}))
        worker = Worker(file, agent, name, fault, without, environ, enter, options)
        self.workers.append(worker)
        return worker

    # -- waiting -------------------------------------------------------------------------------------------------------

    def records(self, topic: str) -> list[Seen]:
        return self.tap.seen(f"{self.name}.{topic}")

    def draw(self, wait: float = 0.05) -> None:
        self.progress.take(self.tap.draw(wait))

    def catch_up(self) -> None:
        """Read up to where the topics end now."""
        self.progress.take(self.tap.finish())

    def flowing(self, more: int = 3, timeout: float = 60.0) -> None:
        """Wait until so many groups more have come out of each input partition."""
        self.draw()
        wanted = {number: self.progress.fired[number] + more for number in range(self.partitions)}

        def fired() -> bool:
            self.draw()
            return all(self.progress.fired[number] >= count for number, count in wanted.items())

        wait_until(fired, timeout, "results of every partition", pause=0)

    def settle(self, timeout: float = 90.0, repeats: bool = False) -> None:
        """No more load: wait until every record had its effect, or all is quiet, or the time is over. The verdict says
        which. Where `repeats` are allowed, effects cannot be counted: then only quiet is the end."""
        self.feed.stop()
        self.catch_up()
        last_look = time.monotonic()

        def settled() -> bool:
            nonlocal last_look
            self.draw(0.1)
            if not repeats and self.progress.complete(len(self.poison), self._downstream()):
                return True
            if time.monotonic() - last_look < 1.0:
                return False
            last_look = time.monotonic()
            return self.quiet()

        with suppress(TimeoutError):
            wait_until(settled, timeout, "the end of the work", pause=0)

    def _downstream(self) -> bool:
        return any(worker.agent == "totals" for worker in self.workers)

    def quiet(self) -> bool:
        """Is everything read, no group open, no handler at work, nothing unsent, as the workers say?"""
        ends = {
            (topic, *end)
            for topic in ("in", *self.between)
            for end in self.tap.ends(f"{self.name}.{topic}").items()
            if end[1]
        }
        if self._downstream():
            ends |= {("out", *end) for end in self.tap.ends(f"{self.name}.out").items() if end[1]}
        running = [worker for worker in self.workers if worker.process.poll() is None]
        rows = [row for worker in running for row in worker.partitions()]
        quiet = [row for row in rows if row["state"] != "paused"]  # then the store may hold more rows
        idle = [row for row in quiet if not (row["groups"] or row["sealed"] or row["unsent"])]
        done = {(row["topic"].rsplit(".", 1)[1], row["number"], row["offset"]) for row in idle}
        return ends <= done

    # -- the end -------------------------------------------------------------------------------------------------------

    def verdict(self, settle: float = 90.0, repeats: bool = False) -> Verdict:
        """Drain, stop everything, read all topics to their ends, judge."""
        self.end(settle, repeats)
        return judge(self.records("in"), self.records("out"), self.records("dead"), self.poison, repeats)

    def end(self, settle: float = 90.0, repeats: bool = False) -> None:
        """Drain, stop everything, read all topics to their ends."""
        self.settle(settle, repeats)
        self.stop()
        self.catch_up()

    def downstream(self) -> Verdict:
        """After `verdict`: what the agent further down made of it."""
        return balance(self.records("in"), self.records("out"), self.records("totals"))

    def stop(self) -> None:
        """SIGTERM to all that run; they end by themselves."""
        running = [worker for worker in self.workers if worker.process.poll() is None]
        for worker in running:
            worker.terminate()
        for worker in running:
            worker.exit_code()

    def tail(self) -> str:
        return "\n".join(worker.tail() for worker in self.workers)

    def close(self) -> None:
        self.feed.stop()
        for worker in self.workers:
            worker.close()
        self.tap.close()
