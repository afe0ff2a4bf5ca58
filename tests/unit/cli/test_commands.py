"""Every command: what it prints where, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.unit.cli.files import FILE, written

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
COMMANDS = ["run", "check", "topics", "migrate", "status"]


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("SLUICEGATE_LOG_LEVEL", raising=False)
    runner = CliRunner()
    return lambda *args: runner.invoke(main, list(args))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_file_ends_every_command_with_2_and_all_its_problems_on_stderr(invoke, tmp_path, command):
    file = written(tmp_path, text=FILE.replace("count: 2", "count: x").replace("store:", "stor:"))
    result = invoke(command, file)
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = [line.removeprefix(file) for line in result.stderr.splitlines() if line.startswith(file)]
    assert [line.split(": ")[1] for line in lines if ": warning: " not in line] == [
        "store",
        "stor",
        "agents.totals.aggregate.count",
    ]
    assert not (tmp_path / "state.db").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_a_missing_file_and_an_unknown_option_are_usage(invoke, tmp_path, command):
    assert invoke(command).exit_code == 2
    assert invoke(command, str(tmp_path / "none.yaml")).exit_code == 2
    assert invoke(command, written(tmp_path), "--no-such-option").exit_code == 2


def test_an_unknown_command_is_usage(invoke):
    assert invoke("fly").exit_code == 2


def test_the_version_is_that_of_the_distribution(invoke):
    from importlib.metadata import version

    result = invoke("version")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, f"sluicegate {version('sluicegate')}")


def test_the_version_says_which_code_reads_avro_and_refuses_a_choice_that_there_is_not(invoke, monkeypatch):
    monkeypatch.setenv("SLUICEGATE_NATIVE", "off")
    assert invoke("version").stdout.splitlines()[1:] == ["kernel: python (SLUICEGATE_NATIVE is off)"]
    monkeypatch.setenv("SLUICEGATE_NATIVE", "perhaps")
    result = invoke("version")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "write auto, off or require" in result.stderr


def test_help_names_what_is_built_and_nothing_else(invoke):
    text = invoke("--help").stdout
    assert all(
        f"\n  {command} " in text
        for command in [
            *COMMANDS,
            "version",
            "dead",
            "explain",
            "eval",
            "accept-gap",
            "replay",
            "init",
            "docs",
            "schema",
        ]
    )


def test_check_says_what_a_file_means_and_warns_on_stderr(invoke, tmp_path):
    file = written(tmp_path)
    result = invoke("check", file)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:3] == [
        "totals:",
        "  reads orders and refunds as json, one group per message key and partition",
        "  fires at exactly 2 records of one key, or 30 s after the first record, by the worker's clock, even if no "
        "record follows; "
        "a later record of the key starts a new group",
    ]
    assert result.stderr.splitlines() == [
        f"{file}:9:5: agents.totals.from: warning: has several topics: groups never span topics (nor partitions); "
        "write into one topic first if one group must hold records of both"
    ]


def test_check_says_once_for_a_file_what_another_count_means_for_open_groups(invoke, tmp_path):
    output = invoke("check", written(tmp_path)).stdout
    assert output.count("when the file changes:\n") == output.count("with reason count-lowered\n") == 1
    plain = 'app: a\nstore: memory://\ndead_letters: d\nagents: {a: {from: x, handler: "builtins:len"}}\n'
    assert "count-lowered" not in invoke("check", written(tmp_path, text=plain)).stdout


def test_check_as_json_is_one_document_with_the_promised_keys(invoke, tmp_path):
    bad = json.loads(
        invoke("check", written(tmp_path, text=FILE.replace("from: totals", "form: totals")), "--json").stdout
    )
    assert bad.keys() == {"ok", "problems", "warnings"}
    assert bad["ok"] is False
    file = str(tmp_path / "shop.yaml")
    assert bad["problems"] == [
        {
            "file": file,
            "line": 12,
            "key": "agents.alerts.from",
            "message": "is missing",
            "hint": "write the topic it reads",
        },
        {"file": file, "line": 13, "key": "agents.alerts.form", "message": "unknown key", "hint": "did you mean from?"},
    ]
    result = invoke("check", written(tmp_path), "--json")
    good = json.loads(result.stdout)
    assert (result.exit_code, good["ok"], good["problems"], result.stderr) == (0, True, [], "")
    assert [w["key"] for w in good["warnings"]] == ["agents.totals.from"]


def test_an_unset_variable_is_a_warning_of_check_and_an_error_of_run(invoke, tmp_path):
    file = written(tmp_path, text=FILE.replace("count: 2", "count: '${HOW_MANY}'"))
    result = invoke("check", file)
    assert result.exit_code == 0
    assert (
        "agents.totals.aggregate.count: warning: ${HOW_MANY} is not set; set HOW_MANY, or write ${HOW_MANY:-default}"
        in result.stderr
    )
    assert "  has variables that are not set: what it does depends on them" in result.stdout.splitlines()
    for command in (["run"], ["check", "--connect"], ["topics"], ["status"], ["migrate"]):
        result = invoke(command[0], file, *command[1:])
        assert result.exit_code == 2
        assert "agents.totals.aggregate.count: ${HOW_MANY} is not set;" in result.stderr


@pytest.mark.parametrize("args", [["check", "--connect"], ["topics"], ["topics", "--create"], ["run"]])
def test_a_broker_that_cannot_be_reached_ends_with_3(invoke, tmp_path, args):
    result = subprocess.run(
        [SLUICEGATE, args[0], written(tmp_path), *args[1:]], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 3
    assert "Kafka" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("args", [["check", "--connect"], ["migrate"], ["status"], ["run"]])
def test_a_store_that_cannot_be_reached_ends_with_3_and_its_password_is_not_said(tmp_path, args):
    file = written(tmp_path, text=FILE.replace("sqlite:///state.db", "redis://:hunter2@127.0.0.1:1/0"))
    result = subprocess.run([SLUICEGATE, args[0], file, *args[1:]], capture_output=True, text=True, timeout=60)
    assert result.returncode == 3
    assert "hunter2" not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_migrate_says_what_it_would_do_does_it_once_and_is_then_content(invoke, tmp_path):
    file = written(tmp_path)
    dry = invoke("migrate", file, "--dry-run")
    assert dry.exit_code == 0
    assert dry.stdout.startswith("would do: ")
    assert not (tmp_path / "state.db").exists()
    done = invoke("migrate", file)
    assert (done.exit_code, done.stdout) == (0, dry.stdout.replace("would do", "done"))
    again = invoke("migrate", file)
    assert (again.exit_code, again.stdout) == (0, "nothing to migrate\n")


def test_an_unexpected_error_is_one_line_and_1_and_shows_its_traceback_only_at_debug(invoke, tmp_path, monkeypatch):
    from sluicegate import connectors

    def broken(url, folder, app):
        raise RuntimeError("no idea:\nredis://:hunter2@host/0")

    monkeypatch.setattr(connectors, "open_store", broken)
    result = invoke("migrate", written(tmp_path))
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert (
        line
        == "sluicegate: unexpected RuntimeError: no idea: redis://***@host/0; SLUICEGATE_LOG_LEVEL=debug shows where"
    )
    monkeypatch.setenv("SLUICEGATE_LOG_LEVEL", "debug")
    result = invoke("migrate", written(tmp_path))
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "hunter2" not in result.stderr


def test_an_interrupted_command_does_not_say_that_it_is_done(invoke, tmp_path, monkeypatch):
    from sluicegate import connectors

    def interrupted(url, folder, app):
        raise KeyboardInterrupt

    monkeypatch.setattr(connectors, "open_store", interrupted)
    result = invoke("migrate", written(tmp_path))
    assert (result.exit_code, result.stderr) == (1, "sluicegate: interrupted\n")


def test_flush_and_drop_exclude_each_other_and_an_unknown_agent_is_usage(invoke, tmp_path):
    assert invoke("run", written(tmp_path), "--flush", "--drop").exit_code == 2
    result = subprocess.run(
        [SLUICEGATE, "run", written(tmp_path), "--agent", "nobody"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 2
    assert "nobody" in result.stderr


def test_run_hands_everything_to_the_supervisor(invoke, tmp_path, monkeypatch):
    from sluicegate.streams.processes import supervisor

    calls = []
    monkeypatch.setattr(supervisor, "run", lambda *args, **kwargs: calls.append((args, kwargs)) or 0)
    args = [
        "run",
        written(tmp_path),
        "--agent",
        "totals",
        "--agent",
        "alerts",
        "--workers",
        "3",
        "--drop",
        "--log-level",
        "warning",
    ]
    assert invoke(*args).exit_code == 0
    assert invoke("run", written(tmp_path)).exit_code == 0
    (app, *rest), options = calls[0]
    assert (app.name, list(rest[0]), rest[1:], options["log_level"]) == (
        "shop",
        ["totals", "alerts"],
        [3, "drop"],
        "warning",
    )
    (app, *rest), options = calls[1]
    assert (list(rest[0]), rest[1:], options["log_level"]) == ([], [1, "refuse"], "info")


def test_the_command_is_quick_to_say_what_it_can_do():
    """Drivers, pydantic and the engine are imported by the commands that need them."""
    code = "import sluicegate.streams.cli, sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {
        "pydantic",
        "confluent_kafka",
        "redis",
        "sqlite3",
        "yaml",
        "msgspec",
        "structlog",
        "rich",
        "prometheus_client",
    }


def test_the_command_loads_no_expressions_before_one_is_asked():
    code = "import sluicegate.streams.cli, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "sluicegate.streams.cli.evaluate" in loaded
    rooms = ("sluicegate.streams.expressions", "sluicegate.streams.aggregation", "sluicegate.streams.operations")
    assert [name for name in loaded if name.startswith(rooms)] == []


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    read, write = os.pipe()
    os.close(read)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [SLUICEGATE, "check", written(tmp_path)]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, env=buffered)
    os.close(write)
    errors = result.stderr.decode()
    assert result.returncode == 0
    assert "Traceback" not in errors
    assert "Broken" not in errors


@pytest.mark.parametrize(
    "url", ["redis://h:port/0", "redis://h/0?nonsense=1", "redis+sentinel://h", "redis+cluster://h/1"]
)
def test_check_refuses_a_store_that_run_would_refuse_at_its_line(invoke, tmp_path, url):
    file = written(tmp_path, text=FILE.replace("sqlite:///state.db", url))
    checked, run = invoke("check", file), invoke("migrate", file)
    assert (checked.exit_code, run.exit_code) == (2, 2)
    assert f"{file}:3:1: store: " in checked.stderr
    assert json.loads(invoke("check", file, "--json").stdout)["problems"][0]["key"] == "store"


def test_the_stores_that_a_file_may_name_are_those_that_can_be_opened():
    from sluicegate import connectors
    from sluicegate.streams.config.sections.fields import STORES

    assert set(STORES) == set(connectors._OPENERS)
