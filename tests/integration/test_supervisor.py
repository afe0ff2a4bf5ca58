"""The supervisor with real processes; only what the workers do is made up (tests/integration/supervised/worker.py)."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sluicegate.streams.cli.terminal import outcome
from sluicegate.streams.processes.child import FENCED
from sluicegate.streams.processes.supervisor import KILLED, SAME_SIGNAL
from tests.integration.supervised.run import Run, made_up
from tests.waiting import wait_until

Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def make(*agents: str, **settings: Any) -> Run:
        runs.append(made_up(tmp_path, *agents, **settings))
        return runs[-1]

    yield make
    for run in runs:
        run.close()


def gone(pids: list[int]) -> bool:
    """No longer there, or dead and not yet waited for by whoever inherited it."""
    return all(not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in pids)


def test_224_each_agent_and_worker_is_a_process(start: Start) -> None:
    run = start("steady-a", "steady-b", workers=2)
    run.pids(4)
    started = {(line["agent"], line["worker"]): line["pid"] for line in run.events("worker.started")}
    assert set(started) == {("steady-a", 0), ("steady-a", 1), ("steady-b", 0), ("steady-b", 1)}
    assert len(set(started.values())) == 4
    assert {child.pid for child in psutil.Process(run.process.pid).children()} == set(started.values())


def test_it_is_not_ready_before_its_workers_are(start: Start) -> None:
    run = start("steady", "crashing")
    run.wait("worker.restarting", count=2)
    wait_until(
        lambda: (
            {"agent": "steady"}
            not in [{"agent": reason.get("agent")} for reason in json.loads(run.get("/readyz")[1])["reasons"]]
        )
    )
    status, body = run.get("/readyz")
    assert status == 503
    assert {reason["agent"] for reason in json.loads(body)["reasons"]} == {"crashing"}


def test_the_log_and_status_say_which_code_reads_avro_and_a_choice_that_cannot_be_kept_exits_2(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_NATIVE", "off")
    run = start("steady")
    wait_until(run.ready)
    assert [line["kernel"] for line in run.events("kernel.chosen")] == ["python (SLUICEGATE_NATIVE is off)"]
    assert json.loads(run.get("/status")[1])["kernel"] == "python (SLUICEGATE_NATIVE is off)"
    monkeypatch.setenv("SLUICEGATE_NATIVE", "perhaps")
    refused = start("steady")
    assert refused.exit_code() == 2
    assert refused.events("run.refused")[0]["error"] == "SLUICEGATE_NATIVE is 'perhaps'; write auto, off or require"


def test_only_the_named_agents_run(start: Start) -> None:
    run = start("steady-a", "steady-b", "steady-c", only=["steady-c", "steady-a"])
    wait_until(run.ready)
    assert sorted(line["agent"] for line in run.events("worker.started")) == ["steady-a", "steady-c"]


def test_an_agent_that_the_file_does_not_have_exits_2(start: Start) -> None:
    run = start("steady", only=["nobody"])
    assert run.exit_code() == 2
    assert run.events("run.refused")[0]["error"] == "there is no agent 'nobody'; the file has steady"


def test_with_a_memory_store_all_agents_share_one_process(start: Start) -> None:
    run = start("steady-a", "steady-b", store="memory://")
    wait_until(run.ready)
    assert len(set(run.pids(2))) == 1
    workers = json.loads(run.get("/status")[1])["workers"]
    assert [(worker["agent"], worker["ready"]) for worker in workers] == [("steady-a", True), ("steady-b", True)]
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 0


def test_in_a_shared_process_one_crash_restarts_all(start: Start) -> None:
    run = start("steady-a", "crashing", store="memory://")
    run.pids(4)
    assert len({line["pid"] for line in run.events("worker.started", agent="steady-a")}) >= 2
    assert run.events("worker.ended", agent="steady-a")[0]["code"] == 1


def test_a_killed_worker_is_started_again_and_counted(start: Start) -> None:
    run = start("steady-a", "steady-b")
    wait_until(run.ready)
    victim = run.events("worker.started", agent="steady-a")[0]["pid"]
    os.kill(victim, signal.SIGKILL)
    again = run.wait("worker.started", count=2, agent="steady-a")[1]["pid"]
    assert again != victim
    assert run.events("worker.ended", pid=victim)[0]["code"] == -signal.SIGKILL
    wait_until(run.ready)
    assert len(run.events("worker.started", agent="steady-b")) == 1
    assert 'sluicegate_worker_restarts_total{agent="steady-a",worker="0"} 1.0' in run.get("/metrics")[1]


def test_a_worker_that_the_kernel_ends_for_lack_of_memory_probes_first_once(start: Start, tmp_path: Path) -> None:
    counters = tmp_path / "vmstat"
    counters.write_text("pgfault 7\noom_kill 3\n")
    run = start("steady-a", "steady-b", counters=str(counters))
    for kills, number, ends in (
        (3, signal.SIGKILL, 1),
        (4, signal.SIGKILL, 2),
        (4, signal.SIGKILL, 3),
        (5, signal.SIGABRT, 4),
    ):
        wait_until(run.ready)
        victim = run.events("worker.started", agent="steady-a")[-1]["pid"]
        counters.write_text(f"pgfault 7\noom_kill {kills}\n")
        os.kill(victim, number)
        run.wait("worker.started", count=ends + 1, agent="steady-a")
    wait_until(run.ready)
    pids = [line["pid"] for line in run.events("worker.started", agent="steady-a")]
    assert [pid for pid in pids if (tmp_path / f"steady-a-{pid}-probes-first").exists()] == [pids[2]]
    assert [line["agent"] for line in run.events("worker.out_of_memory")] == ["steady-a"]


def test_no_worker_outlives_a_killed_supervisor(start: Start) -> None:
    run = start("stubborn-a", "stubborn-b")
    pids = run.pids(2)
    wait_until(run.ready)
    run.signal(signal.SIGKILL)
    wait_until(lambda: gone(pids), what="the end of the workers")


def test_a_worker_that_cannot_run_any_thread_dies_with_a_killed_supervisor(start: Start) -> None:
    run = start("frozen")
    pids = run.pids(1)
    wait_until(run.ready)
    run.signal(signal.SIGKILL)
    wait_until(lambda: gone(pids), what="the end of the worker")


def test_no_secret_is_in_a_workers_command_line_or_environment(start: Start) -> None:
    run = start("steady", store="rediss://user:canary@host")
    wait_until(run.ready)
    worker = psutil.Process(run.pids(1)[0])
    assert "canary" not in json.dumps([worker.cmdline(), worker.environ()])
    assert "canary" not in json.dumps(run.lines) + run.get("/status")[1] + run.get("/metrics")[1]


def test_sigterm_drains_the_workers_and_exits_0(start: Start) -> None:
    run = start("steady-a", "steady-b")
    pids = run.pids(2)
    wait_until(run.ready)
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 0
    assert [line["code"] for line in run.events("worker.ended")] == [0, 0]
    assert gone(pids)
    assert run.noise == []


def test_sigint_is_as_good_as_sigterm(start: Start) -> None:
    run = start("steady")
    wait_until(run.ready)
    run.signal(signal.SIGINT)
    assert run.exit_code() == 0


def test_ctrl_c_in_a_terminal_drains_too(start: Start) -> None:
    run = start("steady-a", "steady-b")
    wait_until(run.ready)
    os.killpg(run.process.pid, signal.SIGINT)  # to the whole foreground group, as a terminal does
    assert run.exit_code() == 0
    assert [line["code"] for line in run.events("worker.ended")] == [0, 0]
    assert run.noise == []


def test_a_service_manager_may_send_sigterm_to_every_process(start: Start, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    run = start("steady-a", "steady-b")
    wait_until(run.ready)
    for pid in run.pids(2):
        os.kill(pid, signal.SIGTERM)
    run.signal(signal.SIGTERM)
    run.wait("supervisor.stopping")
    assert run.events("worker.ended") == []
    (tmp_path / "hold").unlink()
    assert run.exit_code() == 0
    assert [line["code"] for line in run.events("worker.ended")] == [0, 0]


def test_a_worker_that_was_told_to_end_is_started_again(start: Start) -> None:
    run = start("steady")
    wait_until(run.ready)
    os.kill(run.pids(1)[0], signal.SIGTERM)
    assert run.wait("worker.ended")[0]["code"] == 0
    run.wait("worker.started", count=2)


def test_sigterm_before_the_workers_are_up_exits_0(start: Start) -> None:
    run = start("steady")
    run.pids(1)
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 0


def test_sigterm_during_the_checks_exits_0_without_a_worker(start: Start) -> None:
    run = start("steady", prepare="waits")
    run.wait("http.listening")
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 0
    assert run.events("worker.started") == []


def test_while_draining_it_is_alive_and_not_ready(start: Start, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    run = start("steady")
    wait_until(run.ready)
    run.signal(signal.SIGTERM)
    run.wait("supervisor.stopping")
    status, body = run.get("/readyz")
    assert (status, json.loads(body)["reasons"][0]) == (503, {"reason": "stopping"})
    assert run.get("/livez")[0] == 200
    assert run.process.poll() is None
    hold.unlink()
    assert run.exit_code() == 0


def test_a_second_signal_kills_at_once(start: Start) -> None:
    run = start("stubborn")
    pids = run.pids(1)
    wait_until(run.ready)
    run.signal(signal.SIGTERM)
    run.wait("supervisor.stopping")
    later = time.monotonic() + SAME_SIGNAL  # what comes sooner is the same signal
    wait_until(lambda: time.monotonic() > later)
    run.signal(signal.SIGINT)
    assert run.exit_code(timeout=5) == KILLED
    assert run.events("worker.ended")[0]["code"] == -signal.SIGKILL
    assert gone(pids)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_within_a_second_is_the_same_signal(
    start: Start, tmp_path: Path, second: signal.Signals
) -> None:
    """A wrapper forwards to its child what the terminal or the service already sent to it."""
    (tmp_path / "hold").touch()
    run = start("steady-a", "steady-b")
    pids = run.pids(2)
    wait_until(run.ready)
    run.signal(signal.SIGTERM)
    run.wait("supervisor.stopping")
    run.signal(second)
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: json.loads(run.get("/readyz")[1])["reasons"][0] == {"reason": "stopping"})
    (tmp_path / "hold").unlink()
    assert run.exit_code() == 0
    assert [line["code"] for line in run.events("worker.ended")] == [0, 0]
    assert run.events("supervisor.killing") == []


def test_without_that_rule_a_forwarded_signal_kills(start: Start) -> None:
    """The twin of the test above."""
    run = start("stubborn", same_signal=0.0)
    wait_until(run.ready)
    run.signal(signal.SIGTERM)
    run.wait("supervisor.stopping")
    run.signal(signal.SIGTERM)
    assert run.exit_code(timeout=5) == KILLED
    assert run.events("supervisor.killing") != []


def test_a_worker_that_overdraws_its_time_to_drain_is_killed(start: Start) -> None:
    run = start("stubborn", pace={"drain": 0.2, "grace": 0.2})
    wait_until(run.ready)
    run.signal(signal.SIGTERM)
    assert run.exit_code(timeout=5) == KILLED
    [killing] = run.events("supervisor.killing")
    assert (killing["reason"], killing["workers"]) == ("the time to drain is over", [["stubborn", 0]])
    assert outcome.KILLED == KILLED


def test_a_crash_loop_waits_longer_each_time(start: Start) -> None:
    run = start("crashing", pace={"first_restart": 0.02, "slowest_restart": 0.32})
    run.wait("worker.restarting", count=6)
    waits = [line["seconds"] for line in run.events("worker.restarting")][:6]
    for wait, bound in zip(waits, (0.02, 0.04, 0.08, 0.16, 0.32, 0.32), strict=True):
        assert bound / 2 <= wait <= bound
    assert "as its name says" in run.events("worker.crashed")[0]["exception"]


def test_a_worker_that_was_healthy_starts_its_back_off_anew(start: Start) -> None:
    run = start("crashing", pace={"first_restart": 0.02, "healthy": 0.0})
    run.wait("worker.restarting", count=5)
    assert all(line["seconds"] <= 0.02 for line in run.events("worker.restarting"))


@pytest.mark.parametrize(("agent", "code"), [("misconfigured", 2), ("unready", 3)])
def test_what_a_restart_cannot_mend_ends_the_run_with_its_code(start: Start, agent: str, code: int) -> None:
    run = start("steady", agent)
    assert run.exit_code() == code
    assert run.events("worker.ended", agent="steady") != []
    assert run.events("worker.restarting") == []


def test_a_system_that_fails_a_worker_which_was_ready_is_waited_for(start: Start, tmp_path: Path) -> None:
    run = start("failing", pace={"first_restart": 0.02})
    wait_until(run.ready)
    (tmp_path / "fail").touch()
    run.wait("worker.ended", code=3)
    (tmp_path / "fail").unlink()
    run.wait("worker.started", count=2)
    wait_until(run.ready)


def test_a_run_whose_worker_is_fenced_three_times_ends_with_7_and_stops_the_others(start: Start) -> None:
    run = start("steady", "fenced", pace={"first_restart": 0.02})
    assert run.exit_code() == FENCED
    assert len(run.events("worker.started", agent="fenced")) == 3
    assert run.events("worker.ended", agent="steady") != []
    assert "SLUICEGATE_INSTANCE" in run.events("run.fenced")[0]["reason"]


def test_a_worker_that_lived_long_before_it_was_fenced_is_started_again(start: Start) -> None:
    run = start("fenced", pace={"first_restart": 0.02, "slowest_restart": 0.02, "healthy": 0.0})
    run.wait("worker.started", count=5)
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 0


def test_a_check_that_fails_exits_3_before_any_worker(start: Start) -> None:
    run = start("steady", prepare="refuses")
    assert run.exit_code() == 3
    assert "topics FILE --create" in run.events("run.not_ready")[0]["error"]
    assert run.events("worker.started") == []


def test_the_port_tells_of_all_workers(start: Start) -> None:
    run = start("steady", workers=2)
    wait_until(run.ready)
    assert run.get("/livez")[0] == 200
    metrics = run.get("/metrics")[1]
    assert 'sluicegate_open_groups{agent="steady",partition="0",topic="t",worker="1"} 3.0' in metrics
    assert 'sluicegate_build_info{version="' in metrics
    status = json.loads(run.get("/status")[1])
    assert [(worker["pid"], worker["partitions"][0]["lag"]) for worker in status["workers"]] == [
        (pid, 7) for pid in run.pids(2)
    ]


def test_an_open_address_without_a_token_exits_2(start: Start) -> None:
    run = start("steady", http={"host": "0.0.0.0"})
    assert run.exit_code() == 2
    assert "token" in run.events("run.refused")[0]["error"]


def test_a_dead_log_reader_does_not_hurt_the_run(start: Start) -> None:
    run = start("steady")
    wait_until(run.ready)
    port = run.wait("http.listening")[0]["port"]
    victim = run.pids(1)[0]
    read_end = next(fd for fd in (run.process.stderr,) if fd is not None)
    os.dup2(os.open(os.devnull, os.O_RDONLY), read_end.fileno())  # closes the only reader of the log's pipe
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: any(child.pid != victim for child in psutil.Process(run.process.pid).children()))
    assert port
    wait_until(run.ready)
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 0
