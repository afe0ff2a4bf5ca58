"""Runs several commands as one: SIGTERM ends them all, and the exit code is 0 if each of them ended as it should.

    python -m tests.bench.several SPECIFICATION

What they write to stderr goes to this process's stderr.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tests.servers.process import die_with_parent

PATIENCE = 30.0  # seconds from SIGTERM to SIGKILL


def command(
    commands: Sequence[Sequence[str]], endings: Sequence[int] = (0,), environment: Mapping[str, str] | None = None
) -> list[str]:
    """The command that runs these. `endings` are the exit codes of a clean end after SIGTERM; `environment` is added to
    that of each."""
    specification = {"commands": commands, "endings": endings, "environment": environment or {}}
    return [sys.executable, "-m", "tests.bench.several", json.dumps(specification)]


def main(commands: list[list[str]], endings: list[int], environment: dict[str, str]) -> int:
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    started = [
        subprocess.Popen(process, env=os.environ | environment, preexec_fn=die_with_parent(signal.SIGKILL))
        for process in commands
    ]
    while not stop:
        if ended := [code for process in started if (code := process.poll()) is not None]:
            print(f"one of {len(started)} processes ended by itself, with {ended[0]}", file=sys.stderr)
            for process in started:
                process.kill()
            return 1
        time.sleep(0.1)
    for process in started:
        process.terminate()
    return 0 if all(_ended(process) in endings for process in started) else 1


def _ended(process: "subprocess.Popen[bytes]") -> int:
    with suppress(subprocess.TimeoutExpired):
        return process.wait(PATIENCE)
    process.kill()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(**json.loads(sys.argv[1])))
