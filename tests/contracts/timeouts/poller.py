"""A process that polls: `drain N` takes batches of N until none is due, emits each, and prints the ids that it emitted;
`take N` prints those of one batch, and keeps it. Its leases are SECONDS long."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.options import LeasedOptions, TimeoutOptions
from tests.servers.process import die_with_parent

ROOT = Path(__file__).resolve().parents[3]


class Poller:
    """The other end."""

    def __init__(self, url: str, lease: timedelta) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.contracts.timeouts.poller", url, str(lease.total_seconds())],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent(9),
        )
        assert self.heard() == ["ready"]

    def tell(self, line: str) -> None:
        assert self.process.stdin
        print(line, file=self.process.stdin, flush=True)

    def heard(self) -> list[str]:
        assert self.process.stdout
        return self.process.stdout.readline().split()

    def kill9(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def drained(timeouts: TimeoutStore, size: int) -> list[str]:
    lines: list[str] = []
    while batch := timeouts.get_batch(size):
        if timeouts.emit(batch) != len(batch):
            lines.append("lost")
        lines += [str(row.id) for row in batch]
    return lines


def serve(timeouts: TimeoutStore) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        command, size = line.split()
        print(
            *(
                drained(timeouts, int(size))
                if command == "drain"
                else [timeout.id for timeout in timeouts.get_batch(int(size))]
            ),
            flush=True,
        )


if __name__ == "__main__":
    options = LeasedOptions(timeouts=TimeoutOptions(timedelta(seconds=float(sys.argv[2]))))
    serve(open_store(sys.argv[1], options=options).timeouts)  # type: ignore[attr-defined]
