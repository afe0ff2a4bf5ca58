"""What a failing test says came instead, on one screen: `sluicegate test` on files with mistakes of beginners."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sluicegate.streams.cli import main

HEAD = """\
app: m
kafka: {bootstrap.servers: "localhost:1"}
store: sqlite:///m.db
dead_letters: m.dead
http: false
agents:
  a:
    from: m.in
"""
GROUP = """\
    aggregate:
      count: 3
      timeout: {after: 10s, since: first}
      compute: {n: count, total: {sum: amount}}
    to: {topic: m.out}
"""
WINDOW = """\
    aggregate:
      window: {tumbling: 5m, time: {field: ts, unit: ms}}
      compute: {n: count, total: {sum: amount}}
    to: {topic: m.out}
"""
TESTS = "tests:\n  t:\n"
SEND = "    - send: {topic: m.in, key: k, partition: 0, value: {amount: 1}, times: 3}\n"
EXPECT = "    - expect: {topic: m.out, key: k, value: {n: 3}}\n"
NONE = 'expected an output on m.out with key k and value {"n":3}; none came'

MILLISECONDS = (
    "the times in the field ts (unit: ms) are 56 years before Kafka's timestamps, such as 1970-01-21T10:53:45.660Z; "
    "correct the `unit` of the time, if they have another one"
)

Invoke = Callable[[str], Result]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Invoke:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLUICEGATE_LOG_LEVEL", raising=False)

    def call(text: str) -> Result:
        (tmp_path / "m.yaml").write_text(text)
        return CliRunner().invoke(main, ["test", "m.yaml"])

    return call


@pytest.mark.parametrize(
    ("agent", "steps", "lines"),
    [
        pytest.param(
            GROUP.replace("amount", "amuont"),
            SEND + EXPECT,
            [
                "agent a: 3 dead letters on m.dead, missing-field: Object missing required field `amuont` (the first "
                "at m.in/0 offset 0)"
            ],
            id="a field that no record has",
        ),
        pytest.param(
            "    where: amuont > 0\n" + GROUP,
            SEND + EXPECT,
            [
                "agent a: 3 dead letters on m.dead, expression-failed: where: amuont is missing (the first at m.in/0 "
                "offset 0)"
            ],
            id="a field of an expression",
        ),
        pytest.param(
            "    where: amount > 1\n" + GROUP,
            SEND + EXPECT,
            ['agent a: `where` (amount > 1) left out 3 records: key k, value {"amount":1}, and 2 more'],
            id="where leaves out",
        ),
        pytest.param(
            "    having: total > 3\n" + GROUP, SEND + EXPECT, ["agent a: `having` was false 1 time"], id="having"
        ),
        pytest.param(
            GROUP.replace("count: 3", "count: 3\n      on_missing: skip").replace("amount", "amuont"),
            SEND + EXPECT,
            ["agent a: skipped 3 records (on_null or on_missing: skip)"],
            id="skipped",
        ),
        pytest.param(
            "    dedupe: {id: key}\n" + GROUP,
            SEND + EXPECT,
            [
                "agent a: dropped 2 records as duplicates (dedupe)",
                "agent a: 1 group still open: key k, 1 record, ends in 10 s",
            ],
            id="duplicates",
        ),
        pytest.param(
            GROUP,
            SEND.replace("3}", "2}") + EXPECT,
            ["agent a: 1 group still open: key k, 2 records, ends in 10 s"],
            id="a group that is not complete",
        ),
        pytest.param(
            WINDOW,
            SEND.replace("1}", "1, ts: 1767225660}") + EXPECT,
            [
                f"warning: agent a, m.in: {MILLISECONDS}",
                "agent a: 1 group still open: key k, 3 records, window 1970-01-21T10:50:00.000Z to "
                "1970-01-21T10:55:00.000Z, ends in 1 min",
            ],
            id="seconds as milliseconds",
        ),
        pytest.param(
            WINDOW.replace("ms", "s"),
            SEND.replace("1}", "1, ts: 1767225660000}") + EXPECT,
            [
                "agent a: 3 dead letters on m.dead, bad-time: the field ts is outside of the years 1970 to 9999 (the "
                "first at m.in/0 offset 0)"
            ],
            id="milliseconds as seconds",
        ),
        pytest.param(
            WINDOW.replace("{field: ts, unit: ms}", "ts"),
            SEND.replace("1}", "1, ts: 1767225660000}") + EXPECT,
            [
                "agent a: 3 dead letters on m.dead, bad-time: the field ts is not RFC 3339 text; a number needs `unit:`"
                " (the first at m.in/0 offset 0)"
            ],
            id="a number where a text is expected",
        ),
        pytest.param(
            "    handler: tests.unit.testing.test_observed:silent\n" + GROUP,
            SEND + EXPECT,
            ["agent a: its handler got 1 group that ended by count"],
            id="a handler that sends nothing",
        ),
    ],
)
def test_a_failure_says_what_came_instead(invoke: Invoke, agent: str, steps: str, lines: list[str]) -> None:
    result = invoke(HEAD + agent + TESTS + steps)
    assert (result.exit_code, result.stderr) == (1, "")
    line = (HEAD + agent + TESTS + steps).count("\n")
    assert result.stdout.splitlines() == [
        f"FAILED  t: m.yaml:{line}: {NONE}",
        *(f"        {text}" for text in lines),
        "0 of 1 tests passed",
    ]


def test_a_test_that_passes_warns_of_times_in_another_unit_once(invoke: Invoke) -> None:
    sends = SEND.replace("1}", "1, ts: 1767225660}") * 2
    result = invoke(HEAD + WINDOW + TESTS + sends + "    - advance: 3h\n" + EXPECT.replace("3", "6") + SEND_AGAIN)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "ok      t",
        f"        warning: agent a, m.in: {MILLISECONDS}",
        "ok      again",
        "2 of 2 tests passed",
    ]


SEND_AGAIN = "  again:\n" + SEND.replace("1}", "1, ts: 1767225660000}")


def silent(batch: object) -> None:
    """A handler that forgets to send."""


def test_the_outputs_of_other_topics_are_shown_and_what_a_step_expected_is_not(invoke: Invoke) -> None:
    bad = "    - send: {topic: m.in, value: {amount: 1}}\n"
    expected = "    - expect: {topic: m.dead, reason: no-key}\n"
    other = SEND.replace("m.in", "m.other") + "    - expect: {topic: m.out, key: k, value: {n: 9}}\n"
    more = "  b:\n    from: m.other\n" + GROUP.replace("m.out", "m.more")
    result = invoke(HEAD + GROUP + more + TESTS + bad + expected + bad + bad + other)
    assert result.exit_code == 1
    _, letters, came, last = result.stdout.splitlines()
    assert letters.startswith("        agent a: 2 dead letters on m.dead, no-key: the record has no key")
    assert letters.endswith("(the first at m.in/0 offset 1)")
    assert came.startswith('        1 output on m.more that no step expects: key k, reason count, value {"key":"k"')
    assert last == "0 of 1 tests passed"


def test_many_dead_letters_stay_on_one_screen(invoke: Invoke) -> None:
    sends = "".join(f'    - send: {{topic: m.in, key: k, value: {{amount: "{at}"}}}}\n' for at in range(9))
    broken = "".join(
        f"    - send: {{topic: m.in, key: k, value_base64: {code}}}\n" for code in ("ew==", "fQ==", "Ww==")
    )
    missing = "    - send: {topic: m.in, key: k, value: {}}\n    - send: {topic: m.in, value: {amount: 1}}\n"
    result = invoke(HEAD + GROUP + TESTS + sends + broken + missing + EXPECT)
    lines = result.stdout.splitlines()
    assert next(line for line in lines if "dead letter" in line).startswith("        agent a: 9 dead letters on m.dead")
    assert len(lines) < 8
    assert any(line.startswith("        dead letters of ") for line in lines)


def test_the_internal_topic_of_a_correlation_and_its_time_marks_are_not_shown(invoke: Invoke) -> None:
    pairs = HEAD.replace("    from: m.in\n", "    correlate: {legs: {l: m.l, r: m.r}, timeout: 1m}\n    to: m.out\n")
    only = "    - send: {topic: m.l, key: k, value: {amount: 1}}\n    - advance: 30s\n"
    result = invoke(pairs + TESTS + only + EXPECT)
    assert result.exit_code == 1
    assert "1 group still open" in result.stdout
    assert "that no step expects" not in result.stdout
