"""The peers: how each is started at its documented best, and what it guarantees.

- Kafka Streams: RocksDB with a changelog topic, the record cache on (64 MiB), commits every 100 ms (the default of
  exactly_once_v2) or 1 s, with and without transactional state stores. Two workers are two threads.
- Flink: a keyed process function, state on the heap or in RocksDB, checkpoints every 100 ms or 1 s, which commit the
  transactions of the sink; object reuse. Two workers are a parallelism of two in one process.
- Quix Streams: RocksDB with a changelog topic, a checkpoint every second.
- Bytewax: one process a worker; with recovery a snapshot every second.
- Faust: uvloop, its Cython extensions, aiokafka, a table in memory with a changelog topic.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.servers import free_port

NONE, LEAST, ONCE = "none", "at least once", "exactly once"
KAFKA_STREAMS, FLINK = "Kafka Streams", "Flink"
PROGRAMS = "tests.bench.peers.programs"
RECOVERY_PARTITIONS = "4"


class Tools(NamedTuple):
    """The interpreter of the peers in Python, and the commands that run J1.java and FlinkJ1.java."""

    python: str
    java: Sequence[str]
    flink: Sequence[str] = ()


class Peer(NamedTuple):
    """`commands(tools, workers, folder)` are started at once, with `variables` as BENCH_name in their environment.
    `part`: it gets one record in so many, because it is slow. `lacks`: what it cannot express of J1."""

    guarantee: str
    commands: Callable[[Tools, int, Path], Sequence[Sequence[str]]]
    variables: Mapping[str, str]
    part: int = 1
    lacks: str = ""


def _java(tools: Tools, workers: int, folder: Path) -> Sequence[Sequence[str]]:
    return [tools.java]


def _local_cluster(tools: Tools, workers: int, folder: Path) -> Sequence[Sequence[str]]:
    return [tools.flink]


def _quix(tools: Tools, workers: int, folder: Path) -> Sequence[Sequence[str]]:
    return [[tools.python, "-m", f"{PROGRAMS}.quix_job"]] * workers


def _faust(tools: Tools, workers: int, folder: Path) -> Sequence[Sequence[str]]:
    return [[tools.python, "-m", f"{PROGRAMS}.faust_job"]] * workers


def _bytewax(tools: Tools, workers: int, folder: Path) -> Sequence[Sequence[str]]:
    run = [tools.python, "-m", "bytewax.run", f"{PROGRAMS}.bytewax_job"]
    if workers == 1:
        return [run]
    addresses = ";".join(f"127.0.0.1:{free_port()}" for _ in range(workers))
    return [[*run, "-i", str(number), "-a", addresses] for number in range(workers)]


def _recovering(tools: Tools, workers: int, folder: Path) -> Sequence[Sequence[str]]:
    kept = folder / "recovery"
    kept.mkdir()
    subprocess.run([tools.python, "-m", "bytewax.recovery", str(kept), RECOVERY_PARTITIONS], check=True)
    return [[*command, "-r", str(kept), "-s", "1", "-b", "0"] for command in _bytewax(tools, workers, folder)]


def _streams(guarantee: str, setting: str, milliseconds: int, state: str = "plain") -> Peer:
    return Peer(guarantee, _java, {"GUARANTEE": setting, "COMMIT": str(milliseconds), "STATE": state})


def _flink(state: str, milliseconds: int) -> Peer:
    return Peer(ONCE, _local_cluster, {"STATE": state, "COMMIT": str(milliseconds)})


NO_TIMEOUT = "the timeout"
PEERS = {
    f"{KAFKA_STREAMS} at least once 100 ms": _streams(LEAST, "at_least_once", 100),
    f"{KAFKA_STREAMS} at least once 1 s": _streams(LEAST, "at_least_once", 1000),
    f"{KAFKA_STREAMS} exactly once 100 ms": _streams(ONCE, "exactly_once_v2", 100),
    f"{KAFKA_STREAMS} exactly once 1 s": _streams(ONCE, "exactly_once_v2", 1000),
    f"{KAFKA_STREAMS} exactly once 100 ms transactional stores": _streams(
        ONCE, "exactly_once_v2", 100, "transactional"
    ),
    f"{KAFKA_STREAMS} exactly once 1 s transactional stores": _streams(ONCE, "exactly_once_v2", 1000, "transactional"),
    f"{FLINK} heap exactly once 100 ms": _flink("hashmap", 100),
    f"{FLINK} heap exactly once 1 s": _flink("hashmap", 1000),
    f"{FLINK} RocksDB exactly once 100 ms": _flink("rocksdb", 100),
    f"{FLINK} RocksDB exactly once 1 s": _flink("rocksdb", 1000),
    "Quix Streams at least once": Peer(LEAST, _quix, {"GUARANTEE": "at-least-once", "COMMIT": "1.0"}, lacks=NO_TIMEOUT),
    "Quix Streams exactly once": Peer(ONCE, _quix, {"GUARANTEE": "exactly-once", "COMMIT": "1.0"}, lacks=NO_TIMEOUT),
    "Bytewax no recovery": Peer(NONE, _bytewax, {}),
    "Bytewax recovery": Peer(LEAST, _recovering, {}),
    "Faust": Peer(LEAST, _faust, {"GUARANTEE": "at_least_once"}, part=10, lacks=NO_TIMEOUT),
}
