"""`sluicegate demo`: flights through `sluicegate run` and a broker in this process, and an independent recount."""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.cli.terminal.outcome import DONE, UNEXPECTED, complain
from sluicegate.streams.cli.terminal.output import print_table
from sluicegate.streams.errors import SystemNotReady

if TYPE_CHECKING:
    from sluicegate.connectors.kafka.feed import Feed
    from sluicegate.connectors.kafka.tail import Tail
    from sluicegate.streams.demo.flights import Flight
    from sluicegate.streams.demo.recount import Account, OutputRecord
    from sluicegate.streams.demo.show import ShowAdvance
    from sluicegate.streams.demo.worker import DemoRun

WINDOW = 2 * 1024 * 1024  # bytes of a partition that the group has not read: the embedded broker keeps 5 MiB
PATIENCE = 60.0  # seconds without progress
PAUSE = 0.01  # seconds
LOOK_AFTER = 500  # flights between two turns of the other tasks


def demo(
    kill: Annotated[int, typer.Option(min=0, max=50, help="Kill the worker with -9 this many times on the way.")] = 0,
    open: Annotated[bool, typer.Option("--open", help="Serve the console while it runs; prints its address.")] = False,
) -> int:
    """Flights through an embedded broker and SQLite: a result per carrier and 100 flights, and a recount of every
    flight. They are the real ones of 2013 with `sluicegate[demo]`, and made up without it."""
    from sluicegate.streams.demo import flights, show
    from sluicegate.streams.demo.recount import Book

    archive = flights.archive()
    total = flights.count(archive)
    if archive is None:
        print(f"{flights.HINT}\n", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluicegate-demo-") as folder, _stage(Path(folder), open) as stage:
        with show.progress(total) as advance:
            stage.play(flights.flights(archive), total, moments(kill, total, random.random), advance)
        stage.finish()
    _show(stage, total, time.monotonic() - began)
    account = Book(flights.flights(archive), "flights").account(stage.results, stage.dead)
    return _report(account)


def moments(kills: int, total: int, random_: Callable[[], float]) -> list[int]:
    """The numbers of flights after which the worker is killed: one random number in each of several equal parts."""
    return [int(total * (part + random_()) / (kills + 0.2)) for part in range(kills)]


def _show(stage: "DemoStage", total: int, seconds: float) -> None:
    from sluicegate.streams.demo import show

    carriers = show.carriers(stage.results, stage.dead)
    print_table(show.COLUMNS, show.rows(carriers), "Departure delays by carrier, in minutes")
    print("Mean delay by carrier, in minutes\n")
    print("\n".join(show.plot(carriers)), end="\n\n")
    killed = f"the worker was killed {stage.killed} times and started {stage.run.starts} times"
    print(f"{total:,} flights in {seconds:.1f} s; {killed}")


def _report(account: "Account") -> int:
    print("Recount, from the file and the topics alone:")
    outputs = f"{account.results:,} results, {account.dead:,} dead letters"
    print(f"{outputs}; {account.copies:,} exact copies dropped by their id")
    for line in account.wrong[:10]:
        complain(line)
    print(account.line())
    return DONE if account.balanced() else UNEXPECTED


@contextmanager
def _stage(folder: Path, console: bool) -> "Iterator[DemoStage]":
    """Starts the broker, the run and the Kafka clients, and ends them in reverse order."""
    from sluicegate.connectors.kafka.embedded import EmbeddedBroker
    from sluicegate.connectors.kafka.feed import Feed
    from sluicegate.connectors.kafka.tail import Tail
    from sluicegate.streams.demo import file
    from sluicegate.streams.demo.flights import PARTITIONS
    from sluicegate.streams.demo.worker import DemoRun

    outputs = {file.OUTPUT: file.OUTPUT_PARTITIONS, file.DEAD: file.OUTPUT_PARTITIONS}
    with closing(EmbeddedBroker({file.INPUT: PARTITIONS, **outputs})) as broker:
        path = folder / "flights.yaml"
        path.write_text(file.text(broker.bootstrap, console), "utf-8")
        print(f"{path}:\n\n{path.read_text('utf-8')}", flush=True)
        run = DemoRun(path, folder / "run.log")
        try:
            if console:
                print(f"The console shows it while it runs: http://127.0.0.1:{run.listening()}/\n", flush=True)
            tail = Tail(broker.bootstrap, outputs)
            feed = Feed(broker.bootstrap, file.INPUT, PARTITIONS, file.GROUP, WINDOW)
            yield DemoStage(run, feed, tail, file.DEAD)
            feed.close()
            tail.close()
        finally:
            run.end()


class DemoStage:
    """The run, its input and its outputs: `results` and `dead`, with repeats."""

    def __init__(self, run: "DemoRun", feed: "Feed", tail: "Tail", dead_topic: str) -> None:
        self.run, self._feed, self._tail, self._dead_topic = run, feed, tail, dead_topic
        self.results: list[OutputRecord] = []
        self.dead: list[OutputRecord] = []
        self.killed = 0
        self._done = 0
        self._seen: set[str] = set()
        self._moved_at = time.monotonic()

    def play(self, flights: "Iterator[Flight]", total: int, kills: Sequence[int], advance: "ShowAdvance") -> None:
        """Feeds all flights and waits until each is in a result or a dead letter. Raises SystemNotReady when there is
        no progress."""
        for number, flight in enumerate(flights):
            while not self._feed.send(flight.partition, flight.carrier.encode(), flight.value):
                self._turn(kills, advance, PAUSE)
            if number % LOOK_AFTER == 0:
                self._turn(kills, advance, 0.0)
        while self._done < total:
            self._turn(kills, advance, PAUSE)

    def finish(self) -> None:
        """Ends the run and reads the rest of its outputs."""
        self.run.stop()
        while not self._tail.at_the_end():
            self._take(PAUSE)

    def _turn(self, kills: Sequence[int], advance: "ShowAdvance", wait: float) -> None:
        before = self._done
        self._take(wait)
        committed = self._feed.turn()
        self.run.turn()
        if self.killed < len(kills) and committed >= kills[self.killed] and self.run.kill():
            self.killed += 1
        advance(self._done, f"{self.killed} of {len(kills)} kills" if kills else "")
        now = time.monotonic()
        if self._done > before:
            self._moved_at = now
        elif now - self._moved_at > PATIENCE:
            text = f"nothing moved for {PATIENCE:g} s at {self._done} flights"
            raise SystemNotReady(f"{text}; the run's log ends so:\n{self.run.log_end()}")

    def _take(self, wait: float) -> None:
        from sluicegate.streams.contracts.headers import COUNT, ID
        from sluicegate.streams.demo.recount import OutputRecord

        for read in self._tail.take(wait):
            message = OutputRecord(read.key, read.value, dict(read.headers))
            is_dead = read.topic == self._dead_topic
            (self.dead if is_dead else self.results).append(message)
            name = message.header(ID)
            if name not in self._seen:
                self._seen.add(name)
                self._done += 1 if is_dead else int(message.header(COUNT))
