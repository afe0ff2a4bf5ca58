"""The faults that nothing else in the tests makes: a clock that is off, a disk that is full."""

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

from tests.soak.crew import CLOCKS
from tests.soak.faults import limit_files


def test_the_wall_clock_of_a_process_is_off_by_what_the_file_says(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("d", 86_400.0))
    program = "import time; print(time.time()); input(); print(time.time())"
    path = os.pathsep.join(filter(None, (str(CLOCKS), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path, "SOAK_CLOCK": str(clock)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    ahead = float(process.stdout.readline()) - time.time()
    with open(clock, "r+b") as file:
        file.write(struct.pack("d", -3600.0))
    back = float(process.communicate("\n", timeout=30)[0]) - time.time()
    assert -300 < ahead - 86_400 < 300
    assert -300 < back + 3600 < 300


def test_a_process_whose_disk_is_full_can_write_again_when_it_is_not(tmp_path: Path) -> None:
    program = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in sys.stdin:
    try:
        print("written" if os.write(file, bytes(20_000)) == 20_000 else "in part", flush=True)
    except OSError as error:
        print(error, flush=True)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "file")]
    process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tried() -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        print("", file=process.stdin, flush=True)
        return process.stdout.readline().strip()

    assert tried() == "written"
    assert limit_files(process.pid, 8192)
    assert "too large" in tried()
    assert limit_files(process.pid, -1)
    assert tried() == "written"
    process.communicate(timeout=30)
    assert not limit_files(process.pid, -1)
