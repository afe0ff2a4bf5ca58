"""What the ends of processes that fetch a partition show, and how much memory they may take."""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluicegate.connectors.kafka import apart, probe
from sluicegate.connectors.kafka.memory import MemoryFiles, free
from sluicegate.connectors.kafka.probe import DEATHS, ApartEnd, ApartSource, KafkaProbe, fetchable
from sluicegate.streams.contracts.values import Fetchable
from tests.waiting import wait_until

DIED = "signal 9"


class Runs:
    """Gives these ends, one after the other, and notes what was asked."""

    def __init__(self, *ends: ApartEnd | str) -> None:
        self._ends, self.asked = list(ends), list[tuple[str, int]]()

    def __call__(self, does: str, offset: int) -> ApartEnd | str:
        self.asked.append((does, offset))
        return self._ends.pop(0)


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ([ApartEnd(9)], Fetchable()),
        (["no memory"], Fetchable(failure="no memory")),  # it could not begin, which blames nobody
        ([ApartEnd(5, DIED), "no memory"], Fetchable(failure="no memory")),
        ([ApartEnd(5, DIED), *[ApartEnd(5, DIED)] * DEATHS], Fetchable(5, DIED)),
        ([ApartEnd(5, DIED), ApartEnd(8, DIED), ApartEnd(8, DIED), ApartEnd(8, DIED)], Fetchable(8, DIED)),
        # a killed process is no proof, and the batches behind it are tried
        (
            [
                ApartEnd(5, DIED),
                ApartEnd(5, DIED),
                ApartEnd(5, DIED),
                ApartEnd(9, DIED),
                ApartEnd(9, DIED),
                ApartEnd(9, DIED),
            ],
            Fetchable(9, DIED),
        ),
        # batches that are too much together are fetched one at a time
        ([ApartEnd(5, DIED), ApartEnd(30)], Fetchable(30)),
        ([ApartEnd(5, DIED), ApartEnd(5, DIED), ApartEnd(5, DIED), ApartEnd(30)], Fetchable(30)),
        ([ApartEnd(5, DIED), ApartEnd(5)], Fetchable()),
    ],
)
def test_only_deaths_at_the_same_batch_prove_it(ends: Sequence[ApartEnd | str], shown: Fetchable) -> None:
    runs = Runs(*ends)
    assert fetchable(runs, 5) == shown
    assert len(runs.asked) == len(ends)
    assert runs.asked[0] == ("answer", 5)
    assert all(does == "batches" for does, _ in runs.asked[1:])


def group(folder: Path, names: tuple[str, str], limit: str, used: int, cached: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\ntotal_inactive_file {cached}\n")


@pytest.mark.parametrize(
    ("below", "names", "line"),
    [
        ("", ("memory.max", "memory.current"), "0::"),
        ("memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "7:cpu:/other\n4:hugetlb,memory:"),
    ],
    ids=["v2", "v1"],
)
def test_the_memory_that_is_free_is_the_least_of_its_groups_and_the_machine(
    tmp_path: Path, below: str, names: tuple[str, str], line: str
) -> None:
    files = MemoryFiles(tmp_path / "groups", tmp_path / "own", tmp_path / "meminfo", tmp_path)
    assert free(files) == 0
    files.machine.write_text("MemTotal:       100 kB\nMemAvailable:       40 kB\n")
    assert free(files) == 40 << 10
    top = tmp_path / "groups" / below
    group(top, names, "max", 300)
    assert free(files) == 40 << 10
    group(top, names, "1000", 300)
    assert free(files) == 700
    files.own.write_text(f"{line}/a/b\n")  # a container that sees its own group as the top one
    assert free(files) == 700
    group(top / "a" / "b", names, "900", 800)
    assert free(files) == 100
    group(top / "a" / "b", names, "900", 800, cached=150)
    assert free(files) == 250
    group(top / "a", names, "500", 490)
    assert free(files) == 10
    group(top / "a", names, "500", 600)
    assert free(files) == 1


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (OSError("no more processes"), "no process can be started: no more processes"),
        (RuntimeError("a defect"), "an error of the probe itself, please report it"),
    ],
    ids=str,
)
def test_a_probe_that_fails_itself_shows_nothing_and_ends(
    monkeypatch: pytest.MonkeyPatch, error: Exception, failure: str
) -> None:
    def process(job: bytes) -> None:
        raise error

    monkeypatch.setattr(probe, "ApartProcess", process)
    monkeypatch.setattr(threading, "excepthook", lambda error: None)
    running = KafkaProbe(ApartSource({}, "g", ("in", 0)), 0)
    assert wait_until(running.result, 10, "the end of the probe") == Fetchable(failure=failure)


@pytest.mark.parametrize(
    ("program", "longest", "failure"),
    [
        ("import time; time.sleep(60)", 0.5, "its process was not done within 0.5 s"),
        ("raise SystemExit(3)", 30.0, "its process ended before it could fetch (exit code 3)"),
    ],
)
def test_a_process_that_does_not_begin_is_named(
    monkeypatch: pytest.MonkeyPatch, program: str, longest: float, failure: str
) -> None:
    monkeypatch.setattr(probe, "COMMAND", (sys.executable, "-c", program))
    monkeypatch.setattr(probe, "LONGEST", longest)
    running = KafkaProbe(ApartSource({}, "g", ("in", 0)), 0)
    assert wait_until(running.result, 30, "the end of the probe") == Fetchable(failure=failure)


@pytest.mark.parametrize(
    ("share", "waits"), [(0.005, False), (0.05, True)], ids=["idle", "unpacks on a shared processor"]
)
def test_a_client_without_records_is_waited_for_as_long_as_it_works(
    monkeypatch: pytest.MonkeyPatch, share: float, waits: bool
) -> None:
    """`share` is the part of a processor that it has."""
    now = [0.0]
    times = SimpleNamespace(monotonic=lambda: now[0], process_time=lambda: now[0] * share)
    monkeypatch.setattr(apart, "time", times)
    patience = apart.Patience()
    for now[0] in (1.0, 29.0):
        assert not patience.over
    for now[0] in (31.0, 45.0, 62.0):
        assert patience.over != waits
    if waits:
        times.process_time = lambda: 62.0 * share  # it is done
        now[0] += apart.IDLE_SECONDS
        assert patience.over


def test_a_process_that_did_nothing_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    report = 'print(\'{"next":0,"done":true,"idle":true}\')'
    monkeypatch.setattr(probe, "COMMAND", (sys.executable, "-c", report))
    running = KafkaProbe(ApartSource({}, "g", ("in", 0)), 0)
    assert wait_until(running.result, 30, "the end of the probe") == Fetchable(failure="it did nothing for 30 s")


@pytest.mark.parametrize(
    ("limit", "room"),
    [
        ("Max address space         20480                20480                bytes", 20_480 - (12 << 10)),
        ("Max data size             10240                unlimited            bytes", 10_240 - (7 << 10)),
        ("Max address space         unlimited            unlimited            bytes", 0),
    ],
)
def test_a_limit_of_the_worker_bounds_what_is_fetched_in_its_place(tmp_path: Path, limit: str, room: int) -> None:
    """A worker has taken more than a new process: a batch that only fits into the latter would end it again and
    again."""
    (tmp_path / "limits").write_text(
        f"Limit                     Soft Limit           Hard Limit           Units\n{limit}\n"
    )
    (tmp_path / "status").write_text("Name:\tpython\nVmSize:\t      12 kB\nVmData:\t       7 kB\n")
    assert free(MemoryFiles(tmp_path / "groups", tmp_path / "own", tmp_path / "meminfo", tmp_path)) == room
