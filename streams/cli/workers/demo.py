"""`sluicegate demo`: flights through `sluicegate run` and a broker in this process, and an independent recount."""

import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.cli.terminal.outcome import DONE, UNEXPECTED, complain
from sluicegate.streams.cli.terminal.output import print_table
from sluicegate.streams.errors import SystemNotReady

if TYPE_CHECKING:
    from sluicegate.connectors.kafka.feed import Feed
    from sluicegate.connectors.kafka.tail import Tail
    from sluicegate.streams.demo.flights import Flight
    from sluicegate.streams.demo.numbers import DemoNumbers
    from sluicegate.streams.demo.recount import Account, OutputRecord
    from sluicegate.streams.demo.show import ShowAdvance
    from sluicegate.streams.demo.worker import DemoRun

WINDOW = 2 * 1024 * 1024  # bytes of a partition that the group has not read: the embedded broker keeps 5 MiB
PATIENCE = 60.0  # seconds without progress
PAUSE = 0.01  # seconds
LOOK_AFTER = 500  # flights between two turns of the other tasks
SHOW = 60  # seconds over which --open spreads the flights
WRITE_EVERY = 0.25  # seconds between two writings of the numbers
WATCHED = 6.0  # seconds without a question after which the page is closed
NOUNS = {"delays": "flights", "carriers": "results of delays", "alarms": "late results"}


def demo(
    kill: Annotated[int, typer.Option(min=0, max=50, help="Kill a worker with -9 this many times on the way.")] = 0,
    open: Annotated[bool, typer.Option("--open", help="Serve the console, with a button that kills a worker.")] = False,
    seconds: Annotated[
        int | None, typer.Option(min=0, max=86_400, help=f"Spread the flights over this time; with --open: {SHOW}.")
    ] = None,
) -> int:
    """Run three agents on flights, with an embedded broker and SQLite, and count every flight again. With
    `sluicegate[demo]` the flights are the real ones of 2013; without it they are invented."""
    from sluicegate.streams.demo import flights, show

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the run ends with the demo
    archive = flights.archive()
    total = flights.count(archive)
    if archive is None:
        print(f"{flights.HINT}\n", flush=True)
    began = time.monotonic()
    pace = FlightPace(total, (SHOW if open else 0) if seconds is None else seconds)
    with tempfile.TemporaryDirectory(prefix="sluicegate-demo-") as folder, _stage(Path(folder), total, open) as stage:
        with show.progress(total) as advance:
            stage.play(flights.flights(archive), pace, moments(kill, total, random.random), advance)
        if open:
            stage.stay()
        stage.finish()
    _show(stage, total, time.monotonic() - began)
    return _report({name: book.account() for name, book in stage.recount.books.items()})


def moments(kills: int, total: int, random_: Callable[[], float]) -> list[int]:
    """The numbers of flights after which a worker is killed: one random number in each of several equal parts."""
    return [int(total * (part + random_()) / (kills + 0.2)) for part in range(kills)]


class FlightPace:
    """When a flight is due, if all of them take so many seconds from the first question on; 0: at once."""

    def __init__(self, total: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._each, self._clock = seconds / max(1, total), clock
        self._began: float | None = None

    def due(self, number: int) -> bool:
        if self._began is None:
            self._began = self._clock()
        return self._clock() - self._began >= number * self._each


def _show(stage: "DemoStage", total: int, seconds: float) -> None:
    from sluicegate.streams.demo import show

    carriers = show.carriers(stage.results, stage.dead)
    print_table(show.COLUMNS, show.rows(carriers), "Departure delays by carrier, in minutes")
    print("Mean delay by carrier, in minutes\n")
    print("\n".join(show.plot(carriers)), end="\n\n")
    kills, starts = stage.run.kills.total(), stage.run.starts.total()
    print(f"{total:,} flights in {seconds:.1f} s; workers were killed {kills} times and started {starts} times")


def _report(accounts: "Mapping[str, Account]") -> int:
    """The recount of each agent, that of the flights at last."""
    print("Recount, from the file and the topics alone:")
    for name, account in [*accounts.items()][::-1]:
        outputs = ", ".join(f"{count:,} {kind}s" for kind, count in account.outputs.items())
        print(f"{name}: {outputs}; {account.copies:,} exact copies dropped by their id")
        for line in account.wrong[:10]:
            complain(line)
        print(account.line(NOUNS[name]))
    return DONE if all(account.balanced() for account in accounts.values()) else UNEXPECTED


@contextmanager
def _stage(folder: Path, total: int, console: bool) -> "Iterator[DemoStage]":
    """Starts the broker, the run and the Kafka clients, and ends them in reverse order."""
    from sluicegate.connectors.kafka.embedded import EmbeddedBroker
    from sluicegate.connectors.kafka.feed import Feed
    from sluicegate.connectors.kafka.tail import Tail
    from sluicegate.streams.cli.workers import demo_run
    from sluicegate.streams.demo import file
    from sluicegate.streams.demo.flights import PARTITIONS
    from sluicegate.streams.demo.numbers import DemoNumbers
    from sluicegate.streams.demo.worker import COMMAND, PYTHON, DemoRun

    with closing(EmbeddedBroker({file.INPUT: PARTITIONS, **file.OUTPUTS})) as broker:
        path, numbers = folder / "flights.yaml", DemoNumbers(folder / "numbers.json")
        path.write_text(file.text(broker.bootstrap, console), "utf-8")
        print(f"{path}:\n\n{path.read_text('utf-8')}", flush=True)
        command = (*PYTHON, demo_run.COMMAND, str(folder / "numbers.json")) if console else COMMAND
        run = DemoRun((*command, str(path)), folder / "run.log")
        try:
            if console:
                print(f"The console shows it while it runs: http://127.0.0.1:{run.listening()}/\n", flush=True)
            tail = Tail(broker.bootstrap, file.OUTPUTS)
            feed = Feed(broker.bootstrap, file.INPUT, PARTITIONS, file.GROUP, WINDOW)
            yield DemoStage(run, feed, tail, numbers, total)
            feed.close()
            tail.close()
        finally:
            run.end()


class DemoStage:
    """The run, its input and its outputs: `results` and `dead`, with repeats."""

    def __init__(self, run: "DemoRun", feed: "Feed", tail: "Tail", numbers: "DemoNumbers", total: int) -> None:
        from sluicegate.streams.demo.recount import Recount

        self.run, self._feed, self._tail, self._numbers, self._total = run, feed, tail, numbers, total
        self.recount = Recount()
        self.results: list[OutputRecord] = []
        self.dead: list[OutputRecord] = []
        self._killed = 0
        self._claimed = 0
        self._moved_at = self._wrote_at = time.monotonic()

    def play(self, flights: "Iterator[Flight]", pace: FlightPace, kills: Sequence[int], advance: "ShowAdvance") -> None:
        """Feeds all flights and waits until each is in a result or a dead letter, and the next agents have counted each
        result; or until there is no progress any more. Raises SystemNotReady when there is no progress before all
        flights are read."""
        for number, flight in enumerate(flights):
            while not (pace.due(number) and self._feed.send(flight.partition, flight.carrier.encode(), flight.value)):
                self._turn(kills, advance, PAUSE)
            self.recount.add(flight)
            if number % LOOK_AFTER == 0:
                self._turn(kills, advance, 0.0)
        while not self.recount.counted() and self._turn(kills, advance, PAUSE):
            pass

    def stay(self) -> None:
        """Lets the run go on while a page shows it, or until Ctrl-C."""
        print("\nAll flights are counted. The page stays until you close it, or press Ctrl-C.\n", flush=True)
        with suppress(KeyboardInterrupt):
            while self._numbers.unread() < WATCHED:
                self._take(PAUSE)
                self.run.turn()
                self._write(done=True)

    def finish(self) -> None:
        """Ends the run and reads the rest of its outputs."""
        self.run.stop()
        while not self._tail.at_the_end():
            self._take(PAUSE)

    def _turn(self, kills: Sequence[int], advance: "ShowAdvance", wait: float) -> bool:
        """False: all flights are read, and there has been no output for PATIENCE."""
        before = self._claimed
        self._take(wait)
        committed = self._feed.turn()
        self.run.turn()
        agents = tuple(self.recount.books)  # they take turns
        if self._killed < len(kills) and committed >= kills[self._killed]:
            self._killed += self.run.kill(agents[self._killed % len(agents)])
        self._write(done=False)
        advance(self.recount.delays.claimed, f"{self._killed} of {len(kills)} kills" if kills else "")
        self._claimed = sum(book.claimed for book in self.recount.books.values())
        now = time.monotonic()
        if self._claimed > before:
            self._moved_at = now
        moves = now - self._moved_at <= PATIENCE
        if not moves and committed < self._total:
            text = f"nothing moved for {PATIENCE:g} s at {self.recount.delays.claimed} flights"
            raise SystemNotReady(f"{text}; the end of its log:\n{self.run.log_end()}")
        return moves

    def _take(self, wait: float) -> None:
        from sluicegate.streams.demo import file
        from sluicegate.streams.demo.recount import OutputRecord

        for read in self._tail.take(wait):
            output = OutputRecord(read.key, read.value, dict(read.headers))
            if read.topic in (file.DELAYS, file.DEAD):
                (self.dead if read.topic == file.DEAD else self.results).append(output)
            self.recount.take(read.topic, read.partition, read.offset, output)
        self.recount.turn()

    def _write(self, done: bool) -> None:
        now = time.monotonic()
        if now - self._wrote_at >= WRITE_EVERY:
            self._wrote_at = now
            self._numbers.write({"total": self._total, "done": done, "agents": [*map(self._numbers_of, NOUNS)]})

    def _numbers_of(self, agent: str) -> dict[str, Any]:
        account = self.recount.books[agent].account(ended=False)
        starts, kills = self.run.starts[agent], self.run.kills[agent]
        counts = {"sent": account.records, "counted": account.accounted, "lost": account.lost}
        facts = {"agent": agent, "reads": NOUNS[agent], "kills": kills, "survived": min(kills, max(0, starts - 1))}
        return facts | counts | {"repeated": account.repeated, "wrong": len(account.wrong)}
