"""Windows of a file on a real broker while its workers are killed, beside what the oracles of its partitions say."""

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer

from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.outputs import taken
from tests.integration.supervised.run import Run
from tests.unit.windows.oracle import Step
from tests.waiting import wait_until

KILLS = 4


class OracleLog:
    """Records of twenty keys, 4 ms after each other and up to `disorder` ms out of order, and the oracles that took
    them, one for each partition."""

    def __init__(self, seed: int, records: int, disorder: Sequence[int], oracle: Callable[[], Any]) -> None:
        chance = random.Random(seed)
        self.oracles = [oracle() for _ in range(PARTITIONS)]
        self.records: list[tuple[int, bytes, int, int]] = []  # partition, key, time, amount
        self._offsets = [0] * PARTITIONS
        for number in range(records):
            time = 100_000 + 4 * number - chance.randint(0, chance.choice(disorder))
            key = chance.randrange(20)
            self.add(key % PARTITIONS, b"k%d" % key, time, chance.randint(-5, 5))

    def add(self, partition: int, key: bytes, time: int, amount: int) -> None:
        self.records.append((partition, key, time, amount))
        self.oracles[partition].take(self._offsets[partition], Step(0.0, key, time, amount))
        self._offsets[partition] += 1

    @property
    def results(self) -> list[Any]:
        return [result for oracle in self.oracles for result in oracle.results]

    @property
    def late(self) -> int:
        return sum(len(oracle.refused) for oracle in self.oracles)


@contextmanager
def outputs_of(kafka: str, ns: str) -> Iterator[tuple[Consumer, Consumer]]:
    """The topics of the file, and consumers of its results and of its dead letters."""
    create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "dead")))
    both = reader(kafka, f"{ns}-out"), reader(kafka, f"{ns}-dead")
    yield both
    for consumer in both:
        consumer.close()


def stormed(
    text: str, log: OracleLog, kafka: str, ns: str, folder: Path, outputs: tuple[Consumer, Consumer]
) -> tuple[list[dict[str, Any]], list[Message]]:
    """The results and the dead letters, each once, after a worker was killed with -9 at each part of the log."""
    (folder / "sums.yaml").write_text(text)
    feed = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(folder / "sums.yaml"), "--workers", "2")
    results, dead = dict[bytes, Message](), dict[bytes, Message]()
    share = -(-len(log.records) // (KILLS + 1))
    try:
        for turn in range(KILLS + 1):
            for partition, key, time, amount in log.records[turn * share : (turn + 1) * share]:
                feed.produce(f"{ns}-in", json.dumps({"at": time, "amount": amount}).encode(), key, partition)
            assert feed.flush(30) == 0
            if turn < KILLS:
                known = len(results)
                wait_until(lambda known=known: taken(outputs[0], results) > known, 60, "a result of this part")
                os.kill(run.pids(2 + turn)[-1], signal.SIGKILL)
        wait_until(lambda: taken(outputs[0], results) >= len(log.results), 120, "all results")
        wait_until(lambda: taken(outputs[1], dead) >= log.late, 60, "all late records")
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
    finally:
        run.close()
        print(*run.lines[-10:], *run.noise[-10:], sep="\n")
    return [json.loads(message.value()) for message in results.values()], list(dead.values())
