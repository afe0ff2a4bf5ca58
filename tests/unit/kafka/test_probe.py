"""What the ends of processes that fetch a partition show, and how much memory they may take."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluicegate.connectors.kafka import probe
from sluicegate.connectors.kafka.apart import free
from sluicegate.connectors.kafka.probe import DEATHS, ApartEnd, ApartSource, KafkaProbe, judged
from sluicegate.streams.contracts.values import Fetchable
from tests.waiting import wait_until

DIED = "signal 9"


class Runs:
    """Gives these ends, one after the other, and notes what was asked."""

    def __init__(self, *ends: ApartEnd | None) -> None:
        self._ends, self.asked = list(ends), list[tuple[str, int]]()

    def __call__(self, does: str, offset: int) -> ApartEnd | None:
        self.asked.append((does, offset))
        return self._ends.pop(0)


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ([ApartEnd(9)], Fetchable()),
        ([None], Fetchable()),  # it could not begin, which blames nobody
        ([ApartEnd(5, DIED), None], Fetchable()),
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
def test_only_deaths_at_the_same_batch_prove_it(ends: Sequence[ApartEnd | None], shown: Fetchable) -> None:
    runs = Runs(*ends)
    assert judged(runs, 5) == shown
    assert len(runs.asked) == len(ends)
    assert runs.asked[0] == ("answer", 5)
    assert all(does == "batches" for does, _ in runs.asked[1:])


def test_the_memory_that_is_free_is_that_of_the_container_or_else_of_the_machine(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    assert free(tmp_path, meminfo) == 0
    meminfo.write_text("MemTotal:       100 kB\nMemAvailable:       40 kB\n")
    assert free(tmp_path, meminfo) == 40 << 10
    (tmp_path / "memory.current").write_text("300\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert free(tmp_path, meminfo) == 40 << 10
    (tmp_path / "memory.max").write_text("1000\n")
    assert free(tmp_path, meminfo) == 700


@pytest.mark.parametrize("error", [OSError("no more processes"), RuntimeError("a defect")], ids=str)
def test_a_probe_that_fails_itself_shows_nothing_and_ends(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def process(job: bytes) -> None:
        raise error

    monkeypatch.setattr(probe, "ApartProcess", process)
    monkeypatch.setattr(threading, "excepthook", lambda error: None)
    running = KafkaProbe(ApartSource({}, "g", ("in", 0)), 0)
    assert wait_until(running.result, 10, "the end of the probe") == Fetchable()
