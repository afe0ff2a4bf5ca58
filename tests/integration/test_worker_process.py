"""A worker's process by itself, without a supervisor above it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from sluicegate.streams.agent import Agent, Aggregation, App, Destination
from sluicegate.streams.processes.child import ProcessJob


def test_a_worker_ends_with_its_stdin_even_while_its_parent_lives(tmp_path: Path) -> None:
    read, write = os.pipe()
    agent = Agent("stubborn", ("t",), Aggregation(count=1), Destination("o"), "d")
    job = ProcessJob(
        App("app", "sqlite:///s.db", (agent,), folder=str(tmp_path)),
        ("stubborn",),
        (0,),
        "refuse",
        write,
        os.getpid(),
        30.0,
    )
    command = [sys.executable, "-m", "tests.integration.supervised.worker"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[write])
    os.close(write)
    process.stdin.write(msgspec.json.encode(job) + b"\n")
    process.stdin.flush()
    with os.fdopen(read) as reports:
        assert json.loads(reports.readline())["agent"] == "stubborn"
        process.stdin.close()
        assert process.wait(10) == 1
