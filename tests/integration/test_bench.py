"""The bench itself: that it runs the product and the loop, and that it notices a wrong result."""

import json
from hashlib import blake2b

import pytest

from tests.bench import failing, handled, jobs, latency, load
from tests.bench.__main__ import arguments, dispatcher, handlers, throughput, verdict
from tests.bench.results import judge
from tests.bench.systems import LOOP, Work

RECORDS = 5000


def test_the_bench_measures_the_loop_and_the_product_and_finds_their_results_right(kafka, ns, capsys):
    options = arguments(["--rounds", "1", "--jobs", "J1,J2", "--stores", "memory,sqlite", "--records", str(RECORDS)])
    assert list(throughput(kafka, ns, options)) == []
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[-1]) for row in rows if row and row[0] in (LOOP, "memory", "sqlite")] == [
        (LOOP, "1/1"),
        ("memory", "1/1"),
        ("sqlite", "1/1"),
        (LOOP, "1/1"),
        ("memory", "1/1"),
        ("sqlite", "1/1"),
    ]


def test_the_bench_measures_handlers_with_and_without_a_database_and_finds_their_books_right(kafka, ns, capsys):
    options = arguments(["--rounds", "1", "--jobs", ",".join(handled.JOBS), "--records", str(RECORDS)])
    assert list(handlers(kafka, ns, options)) == []
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    without, within = [(LOOP, "1/1"), ("memory", "1/1"), ("sqlite", "1/1")], [(LOOP, "1/1"), ("postgresql", "1/1")]
    assert [
        (row[0], row[-1]) for row in rows if row and row[0] in (LOOP, "memory", "sqlite", "postgresql")
    ] == 2 * without + 2 * within


def test_the_bench_measures_failing_handlers_and_notices_a_wrong_count(kafka, ns, capsys, monkeypatch):
    load.fill(kafka, ns, 1000)
    assert failing.run(kafka, ns, "memory", 1000, rounds=1) == []
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[-1]) for row in rows if row[1:2] == ["%"]] == [("0", "1/1"), ("1", "1/1"), ("10", "1/1")]
    monkeypatch.setattr(failing, "failing", lambda number, rate: True)
    assert failing.once("memory", kafka, ns, 1000, 1).problems[0].endswith("not 0 and 1000")


@pytest.mark.parametrize("job", ["H1", "H1-send"])
def test_a_handlers_wrong_sum_is_noticed(job, kafka, ns):
    load.fill(kafka, ns, 500)
    outcome = handled.once("memory", handled.Task(job, kafka, ns, "memory://", 500, 1))
    assert any(problem.startswith("sum of calls: ") for problem in outcome.problems)


def test_a_system_that_fires_too_early_is_noticed(kafka, ns):
    expected = load.fill(kafka, ns, RECORDS)
    outcome = jobs.once(LOOP, Work(kafka, ns, count=50), RECORDS, expected)
    assert any("50 records, not 100" in problem for problem in outcome.problems)
    assert any("100 results and 0 dead letters were written, not 50 and 0" in problem for problem in outcome.problems)


def test_latency_is_measured_for_every_record_that_was_sent(kafka):
    outcome = latency.once("memory", kafka, seconds=0.5, warm_up=0.5)
    assert outcome.problems == []
    assert 0 < outcome.p50 <= outcome.p99 <= outcome.worst


def payloads(key: str) -> list[bytes]:
    return [b'{"key":"%s","amount":%d}' % (key.encode(), number) for number in range(100)]


def expected() -> dict[str, load.Expected]:
    return {
        key: load.Expected(4950, 99, blake2b(b"".join(payloads(key)), digest_size=16).digest()) for key in ("k0", "k1")
    }


def numbers(key: str, **changed: object) -> bytes:
    return json.dumps({"key": key, "n": 100, "sum": 4950, "max": 99, **changed}).encode()


def rows(key: str, records: list[bytes]) -> bytes:
    return b'{"key":"%s","n":100,"rows":[%s]}' % (key.encode(), b",".join(records))


def test_right_results_are_found_right():
    assert judge([numbers("k1"), numbers("k0")], expected(), rows=False) == []
    assert judge([rows(key, payloads(key)) for key in ("k0", "k1")], expected(), rows=True) == []


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ([], "k1 is missing"),
        ([numbers("k1", sum=4951)], "k1: sum 4951"),
        ([numbers("k1", max=98)], "k1: sum 4950 and max 98"),
        ([numbers("k1", n=99)], "k1: 99 records"),
        ([numbers("k1"), numbers("k0")], "k0 came twice"),
        ([numbers("k1"), numbers("k2")], "k2 is nobody's key"),
    ],
)
def test_each_wrong_number_is_named(second, problem):
    [complaint] = judge([numbers("k0"), *second], expected(), rows=False)
    assert complaint.startswith(problem)


@pytest.mark.parametrize(
    "records",
    [payloads("k1")[:-1], payloads("k1")[::-1], payloads("k0"), [*payloads("k1")[:-1], b'{"key":"k1","amount":99 }']],
    ids=["one less", "another order", "another key's", "one byte more"],
)
def test_other_payloads_than_those_sent_are_noticed(records):
    problems = judge([rows("k0", payloads("k0")), rows("k1", records)], expected(), rows=True)
    assert problems == ["k1: other records than those that were sent"]


def test_a_wrong_result_fails_the_bench(capsys):
    assert verdict([]) == 0
    assert verdict(["J1, redis: k7 came twice"]) == 1
    assert capsys.readouterr().out == "WRONG: J1, redis: k7 came twice\n"


def test_the_bench_measures_the_dispatcher_and_finds_every_row_in_the_topic(kafka, capsys):
    options = arguments(["--rounds", "1", "--jobs", "outbox,timeouts", "--stores", "sqlite", "--records", "2000"])
    assert list(dispatcher(kafka, 0, options)) == []
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("outbox", "sqlite", "right"),
        ("timeouts", "sqlite", "right"),
    ]
