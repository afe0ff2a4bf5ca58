"""The bench of the peers: several processes as one, and its tables. `make bench PEERS=1` runs the peers themselves."""

import subprocess
import sys

import pytest

from tests.bench import load, several
from tests.bench.jobs import Outcome
from tests.bench.peers import contest, report
from tests.bench.peers.__main__ import chosen
from tests.bench.peers.peers import PEERS, Tools

SLEEPS = [sys.executable, "-c", "import os, time; os.write(1, b'up\\n'); time.sleep(60)"]
TOOLS = Tools("", [])


@pytest.mark.parametrize("system", ["loop", "sqlite transactional"])
def test_the_records_of_a_topic_are_shared_by_two_workers_and_their_results_are_found_right(system, kafka, ns):
    source = contest.Input(ns, 4000, load.fill(kafka, ns, 4000))
    outcome = contest.once(system, 2, kafka, source, TOOLS)
    assert outcome.problems == []
    assert outcome.peak > 30  # two processes


@pytest.mark.parametrize(("endings", "code"), [((-15,), 0), ((0,), 1)], ids=["clean", "not clean"])
def test_several_processes_end_together_as_one(endings, code):
    process = subprocess.Popen(several.command([SLEEPS, SLEEPS], endings), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == [b"up\n"] * 2
    process.terminate()
    assert process.wait(20) == code
    process.stdout.close()


@pytest.mark.parametrize(
    "commands", [[SLEEPS, [sys.executable, "-c", ""]], [[sys.executable, "-c", "exit(2)"], SLEEPS]]
)
def test_one_process_that_ends_by_itself_ends_the_others(commands):
    assert subprocess.run(several.command(commands), timeout=20, capture_output=True).returncode == 1


def test_the_ratios_are_those_of_each_round_and_per_record():
    slow, fast = (f"Kafka Streams exactly once {name}" for name in ("100 ms", "1 s"))
    records = {"loop": 1000, "sqlite": 1000, slow: 1000, fast: 1000, "Faust": 100}
    results = {
        "loop": [outcome(1, 1), outcome(2, 2)],
        "sqlite": [outcome(2, 2), outcome(2, 4)],
        slow: [outcome(8, 20), outcome(10, 30)],
        fast: [outcome(10, 10), outcome(8, 8)],
        "Faust": [outcome(1, 2), outcome(1, 2, "k7 came twice")],
    }
    rows = [line.strip("| ").split(" | ") for line in report.throughput("J1", records, results).splitlines()[5:10]]
    rows_by_name = {row[0]: row for row in rows}
    assert rows_by_name["sqlite"][3:7] == ["0 [0-0]", "0.50 [0.50-0.50]", "3.50 [2.00-5.00]", "4.00 [4.00-4.00]"]
    assert rows_by_name["Faust"][5:7] == ["0.45 [0.40-0.50]", "0.80 [0.80-0.80]"]
    assert (rows_by_name["Faust"][-1], rows_by_name["loop"][-1]) == ("1/2", "2/2")


def outcome(seconds: float, cpu: float, *problems: str) -> Outcome:
    return Outcome(seconds, cpu, 0.0, 10.0, 0.0, list(problems))


def test_the_loop_always_runs_and_names_are_chosen_by_their_begin():
    assert chosen(contest.SYSTEMS, "sqlite,Faust", "") == ("loop", "sqlite", "sqlite transactional", "Faust")
    assert chosen(contest.SYSTEMS, "", "Kafka,Flink,Quix,Bytewax") == (*contest.OURS, "Faust")
    assert set(chosen(contest.SYSTEMS, "", "")) == {*contest.OURS, *PEERS}
