"""A store that is lost after so many records, and rebuilt from the topics."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.growth.inputs import Input, difference
from tests.bench.growth.trials import FOLD, Cost, running, sampled
from tests.bench.jobs import consumed
from tests.waiting import wait_until


def cost(bootstrap: str, source: Input) -> Cost:
    """A run takes all records. Then its store is gone, and `replay --rebuild` makes it anew with equal groups."""
    with running(bootstrap, source.topic, FOLD) as place:
        _, values = sampled(bootstrap, place.run, source)
        problems = difference(values, source.wanted)
        port = place.run.process.port
        wait_until(lambda: consumed(port) == source.records, 60, "the count of records in /metrics", pause=0.2)
        if code := place.run.process.stop():
            problems.append(f"it ended with {code}")
        before = _groups(place.file)
        for file in place.file.parent.glob("bench.db*"):
            file.unlink()
        _called("migrate", str(place.file))
        spent = _children()
        _called("replay", str(place.file), "bench", "--rebuild", "--json")
        spent = _children() - spent
        if _groups(place.file) != before:
            problems.append("the groups are not those that were there")
    return Cost(spent / source.records * 1e6, 0.0, {"open groups": len(before)}, problems)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _called(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("sluicegate")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(arguments[1]).parent)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _groups(file: Path) -> list[Any]:
    answer = json.loads(_called("groups", "ls", str(file), "bench", "--json"))
    return sorted((group["key"], group["count"], group["first"], group["last"]) for group in answer["groups"])
