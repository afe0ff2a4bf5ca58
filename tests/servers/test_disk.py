"""What a program finds on a disk that failed, or lost its power."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.disk import Disk, disk_or_skip

PROGRAM = """
import os, sys
files = {name: os.open(name, os.O_CREAT | os.O_RDWR | os.O_APPEND) for name in ("synced", "grown", "never", "renamed")}
for line in sys.stdin:
    name, what, more = line.split()
    try:
        if what == "write":
            os.write(files[name], more.encode())
        elif what == "rename":
            os.rename(name, more)
        else:
            getattr(os, what)(files[name])
        print("done", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    (tmp_path / "data").mkdir()
    made = disk_or_skip(tmp_path / "data", tmp_path / "kept")
    yield made
    made.close()


@pytest.fixture
def program(disk: Disk, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path / "data",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=disk.enter,
    ) as process:
        yield process
        process.kill()


def tell(program: subprocess.Popen[str], line: str) -> str:
    assert program.stdin
    assert program.stdout
    print(line, file=program.stdin, flush=True)
    return program.stdout.readline().strip()


def test_a_power_loss_takes_what_was_not_synced_of_each_file_whatever_its_name_is(
    disk: Disk, program: subprocess.Popen[str], tmp_path: Path
) -> None:
    lines = [
        "synced write one",
        "synced fsync -",
        "grown write one",
        "grown fdatasync -",
        "grown write two",
        "never write one",
        "renamed write one",
        "renamed fsync -",
        "renamed rename other",
    ]
    assert [tell(program, line) for line in lines] == ["done"] * len(lines)
    program.kill()
    program.wait()
    disk.lose_power()
    texts = {path.name: path.read_text() for path in (tmp_path / "data").iterdir()}
    assert texts == {"synced": "one", "grown": "one", "never": "", "other": "one"}
    assert (disk.synced, disk.failed) == (3, 0)


def test_a_sync_fails_while_the_disk_does_and_keeps_nothing(
    disk: Disk, program: subprocess.Popen[str], tmp_path: Path
) -> None:
    disk.fail()
    assert [
        tell(program, line) for line in ("synced write one", "synced fsync -", "grown write one", "grown fdatasync -")
    ] == ["done", "Input/output error", "done", "Input/output error"]
    disk.fail(False)
    assert tell(program, "grown fsync -") == "done"
    program.kill()
    program.wait()
    disk.lose_power()
    assert [(tmp_path / "data" / name).read_text() for name in ("synced", "grown")] == ["", "one"]
    assert (disk.synced, disk.failed) == (1, 2)
