"""`sluicegate test`: what it prints, and how it ends."""

import io
import json
import os
import subprocess
import sys

import pytest
import structlog
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from sluicegate.streams.cli import test as command
from tests.mutation.twins import without
from tests.unit.testing.files import FIRST, FULL, HEAD, text_of

BAD = "- send: {topic: flights, key: UA, value: {delay: 2}}\n- advance: 30s\n- expect: {topic: delays, reason: count}\n"


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    """`invoke(text, *options)`: the command on a file of this text, in the file's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLUICEGATE_LOG_LEVEL", raising=False)

    def call(text, *options):
        (tmp_path / "f.yaml").write_text(text)
        return CliRunner().invoke(main, ["test", "f.yaml", *options])

    return call


def test_a_line_for_each_test_and_0_when_all_pass(invoke):
    result = invoke(text_of(FULL) + "  again:\n    - advance: 1s\n")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ["ok      it", "ok      again", "2 of 2 tests passed"]


def test_1_when_one_fails_with_its_file_and_line(invoke):
    result = invoke(text_of(BAD) + "  again:\n    - advance: 1s\n")
    assert result.exit_code == 1
    first, *rest = result.stdout.splitlines()
    expected = (
        "expected an output on delays with reason count; the next one does not fit: its reason is timeout, not count"
    )
    assert first.startswith(f"FAILED  it: f.yaml:{FIRST + 2}: {expected} (key UA, reason timeout, value {{")
    assert rest == ["ok      again", "1 of 2 tests passed"]


def test_only_the_tests_that_are_named(invoke):
    result = invoke(text_of(BAD) + "  again:\n    - advance: 1s\n", "again")
    assert (result.exit_code, result.stdout) == (0, "ok      again\n1 of 1 tests passed\n")


def test_2_for_a_name_that_is_none_for_no_tests_and_for_a_bad_file(invoke):
    result = invoke(text_of(FULL), "its")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "sluicegate: f.yaml has no test 'its'; did you mean it?\n"
    result = invoke(HEAD.partition("tests:")[0])
    assert (result.exit_code, result.stderr) == (2, "sluicegate: f.yaml holds no tests; write some under `tests:`\n")
    result = invoke(text_of("- wait: 3s"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"f.yaml:{FIRST}:7: tests.it[0]: is not a step; ")
    assert CliRunner().invoke(main, ["test"]).exit_code == 2


def test_with_crash_it_says_what_was_survived(invoke):
    result = invoke(text_of(BAD.replace("count}", "timeout}")), "--crash")
    assert result.exit_code == 0
    line = result.stdout.splitlines()[0]
    assert line.startswith("ok      it (")
    assert line.endswith(" unanswered requests survived)")
    assert int(line.split()[2].strip("(")) > 30


def test_without_a_protection_it_says_which_place_was_not_survived(invoke):
    with without("seek"):
        result = invoke(text_of(FULL), "--crash")
    assert result.exit_code == 1
    line = result.stdout.splitlines()[0]
    assert line.startswith("FAILED  it with no answer from the store at c")
    assert " unanswered requests survived): f.yaml:" in line
    assert ": expected " in line


def test_for_machines_there_is_one_document(invoke):
    result = invoke(text_of(BAD), "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    document = json.loads(result.stdout)
    assert document["ok"] is False
    (test,) = document["tests"]
    text = test["failure"].pop("text")
    assert text.startswith("expected an output on delays")
    assert test == {
        "name": "it",
        "line": FIRST - 1,
        "ok": False,
        "failure": {"file": "f.yaml", "line": FIRST + 2, "observed": [], "trace": []},
        "deaths": 0,
        "lost": 0,
        "place": None,
        "warnings": [],
    }


def test_the_engine_s_log_is_left_as_it_was(invoke):
    before = structlog.get_config()
    assert invoke(text_of(FULL)).exit_code == 0
    assert structlog.get_config() == before


def test_it_loads_no_driver_of_a_store_or_of_kafka(tmp_path):
    (tmp_path / "f.yaml").write_text(text_of(FULL))
    code = (
        "import sys\nfrom sluicegate.streams.cli import main\nmain(['test', 'f.yaml'], standalone_mode=False)\n"
        "print(*sorted({*sys.modules} & {'confluent_kafka', 'redis', 'sqlite3', 'sqlalchemy', 'pymongo', "
        "'psycopg'}), file=sys.stderr)"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.splitlines()[-1], done.stderr.strip()) == ("1 of 1 tests passed", "")


def test_a_terminal_sees_how_far_it_is_and_nothing_is_left_of_it(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with command._progress("it") as progress:
        progress(3, 97)
    assert terminal.getvalue() == "\r\x1b[Kit: 3 of 97\r\x1b[K"


HANDLED = """\
app: shop
kafka: {bootstrap.servers: "${BROKER}"}
store: memory://
agents:
  a:
    from: in
    handler: brokenshop:enter
    retry: {attempts: 1}
tests:
  it:
"""
BROKEN = """\
def enter(value):
    secret = 'a local'
    check(value)


def check(value):
    raise ValueError(f"no {value['name']}")
"""


def test_the_traceback_of_a_handler_stands_below_the_test_that_failed_without_locals(invoke, tmp_path):
    (tmp_path / "brokenshop.py").write_text(BROKEN)
    try:
        result = invoke(text_of("- send: {topic: in, value: {name: Bob}}\n", HANDLED))
        as_json = invoke(text_of("- send: {topic: in, value: {name: Bob}}\n", HANDLED), "--json")
    finally:
        sys.modules.pop("brokenshop", None)
    assert (result.exit_code, result.stderr) == (1, "")
    first, *rest = result.stdout.splitlines()
    assert first.startswith("FAILED  it: f.yaml:")
    trace = [
        "ValueError: no Bob",
        "  brokenshop.py:3 in enter: check(value)",
        "  brokenshop.py:7 in check: raise ValueError(f\"no {value['name']}\")",
    ]
    assert rest == [*(f"        {line}" for line in trace), "0 of 1 tests passed"]
    assert json.loads(as_json.stdout)["tests"][0]["failure"]["observed"] == []
    assert "a local" not in result.stdout
    assert json.loads(as_json.stdout)["tests"][0]["failure"]["trace"] == trace


def test_what_a_handler_raised_on_purpose_is_not_shown(invoke, tmp_path):
    (tmp_path / "brokenshop.py").write_text(BROKEN)
    steps = "- send: {topic: in, value: {name: Bob}}\n- expect: {topic: shop.dead, reason: handler-failed}\n"
    try:
        result = invoke(text_of(steps, HANDLED))
    finally:
        sys.modules.pop("brokenshop", None)
    assert result.stdout.splitlines() == ["ok      it", "1 of 1 tests passed"]


UNREADABLE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
dead_letters: shop.dead
agents:
  pairs:
    from: orders
    aggregate: {count: 2, compute: {rows: collect}}
    having: size(rows) > 0
    to: {topic: pairs}
tests:
  a number that no double holds, in a field that nothing reads:
    - send: {topic: orders, key: k, partition: 0, value_base64: eyJ2IjoxLCJ4IjoxZTk5OX0=}  # {"v":1,"x":1e999}
    - send: {topic: orders, key: k, partition: 0, value: {v: 2}}
    - send: {topic: orders, key: k, partition: 0, value: {v: 3}}
    - expect: {topic: shop.dead, reason: undecodable}
    - expect: {topic: pairs, key: k, value: {rows: [{v: 2}, {v: 3}]}}
  a text that is not UTF-8:
    - send: {topic: orders, key: k, value_base64: eyJ0Ijoi6SJ9}
    - expect: {topic: shop.dead, reason: undecodable}
"""


@pytest.mark.parametrize("options", [(), ("--crash",)])
def test_records_that_cannot_be_read_are_dead_letters_at_intake(invoke, options):
    result = invoke(UNREADABLE, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("2 of 2 tests passed\n")


@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_value_of_a_test_that_is_not_utf8_ends_no_other_command(invoke, command):
    """They read the tests for the fields of records."""
    invoke(UNREADABLE)
    arguments = ["f.yaml", "--against", "f.yaml"] if command == "plan" else ["f.yaml"]
    result = CliRunner().invoke(main, [command, *arguments])
    assert (result.exit_code, result.exception) == (0, None), result.output
