"""A worker as a process of its own: it does what its standard input tells it, one line each, and answers with one line.

`claim TOKEN` · `commit OFFSET` · `work OFFSET` (a unit of work that enters the offset in the books, says `working` and
waits for one more line before it returns) · `loop` (commits for ever, prints each offset once acknowledged) · `stall
TEXT` (the SQL statement that begins with TEXT never returns; SQLite calls us before it runs) · the twins' switches:
`no-transactions`, and `synchronous LEVEL` of SQLite.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import SluicegateError
from tests.contracts.application import Books
from tests.contracts.given import rows
from tests.contracts.sql import no_transactions
from tests.servers.process import die_with_parent

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """The other end: starts the process and talks to it. `enter` is called in it first (a Disk's)."""

    def __init__(self, url: str, partition: Partition, enter: Callable[[], None] | None = None) -> None:
        die = die_with_parent(9)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.contracts.worker", url, *map(str, partition)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die if enter is None else lambda: (die(), enter()),
        )

    def tell(self, line: str) -> None:
        assert self.process.stdin
        print(line, file=self.process.stdin, flush=True)

    def heard(self) -> str:
        """Its next line; empty once it ended."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.heard()

    def kill9(self) -> list[str]:
        """SIGKILL; returns the lines that it had said and nobody read."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        with self.process.stdout as output:
            return output.read().split()


def next_changes(claim: Claim, offset: int) -> Changes:
    """One entry and two rows per commit, the older rows reported: all of it follows from the offset."""
    number = 2 * offset
    return Changes(
        offset,
        entries=[b"%d" % offset * 1000],
        keep_from=max(1, claim.last - 5),
        outbox=rows(number, number + 1),
        dispatched=[number - 2, number - 1],
    )


def serve(store: Store, store_url: str, partition: Partition) -> None:
    claim: Claim | None = None
    for line in sys.stdin:
        command, _, word = line.strip().partition(" ")
        answer = "done"
        try:
            if command == "claim":
                claim = store.claim(partition, word, "member")
            elif command == "commit" and claim is not None:
                claim = store.commit(claim, next_changes(claim, int(word)))
            elif command == "work" and claim is not None:
                claim = work(store, claim, Books(store_url, partition), int(word))
            elif command == "stall":
                stall(store, word)
            elif command == "synchronous":
                store._product.file.connection(create=False).execute(f"pragma synchronous = {word}")  # type: ignore[attr-defined]
            elif command == "no-transactions":
                no_transactions(setattr)
            elif command == "loop" and claim is not None:
                loop(store, claim)
        except SluicegateError as error:
            answer = type(error).__name__
        print(answer, flush=True)


def work(store: Store, claim: Claim, books: Books, offset: int) -> Claim:
    def wait(session: object) -> Changes:
        books.enter(session, str(offset))
        print("working", flush=True)
        sys.stdin.readline()
        return next_changes(claim, offset)

    return store.commit_with(claim, wait)


def loop(store: Store, claim: Claim) -> None:
    while True:
        claim = store.commit(claim, next_changes(claim, max(claim.offset, 0) + 1))
        print(claim.offset, flush=True)


def stall(store: Store, text: str) -> None:
    def stop(statement: str) -> None:
        if statement.startswith(text):
            print("stalled", flush=True)
            threading.Event().wait()

    store._product.file.connection(create=False).set_trace_callback(stop)  # type: ignore[attr-defined]


if __name__ == "__main__":
    _, url, app, agent, topic, number = sys.argv
    serve(open_store(url), url, Partition(app, agent, topic, int(number)))
