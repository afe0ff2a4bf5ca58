"""The steady runs of the bench: their stream, what is measured of a part of it, and their tables."""

import random
from collections import Counter

import pytest

from tests.bench import arrivals, samples
from tests.bench.peers import price, steady
from tests.bench.peers.peers import PEERS, Tools
from tests.bench.processes import Mark
from tests.bench.samples import Part, Sample
from tests.bench.systems import Work

RECORDS, KEYS = 6000, 10
PEER = "Kafka Streams exactly once 1 s"


def test_a_steady_run_finds_all_results_right_and_measures_each_tenth(kafka, ns):
    stream = arrivals.fill(kafka, ns, RECORDS, KEYS)
    outcome = steady.once("sqlite", Work(kafka, ns), stream, Tools("", []))
    assert outcome.problems == []
    assert len(outcome.tenths) == steady.TENTHS
    assert sum(tenth.worker for tenth in outcome.tenths) >= outcome.steady.worker >= 0


def test_a_steady_run_notices_a_wrong_result(kafka, ns):
    stream = arrivals.fill(kafka, ns, RECORDS, KEYS)
    expected = stream.expected | {"k7": stream.expected["k7"]._replace(total=1)}
    outcome = steady.once("sqlite", Work(kafka, ns), stream._replace(expected=expected), Tools("", []))
    assert [problem.partition(":")[0] for problem in outcome.problems] == ["k7"]


def test_the_number_of_open_keys_stays_the_same_over_the_stream():
    seen: Counter[int] = Counter()
    numbers = []
    for key in arrivals.keys_of(100_000, 50, random.Random(1)):
        seen[key] += 1
        numbers.append(sum(0 < record < 100 for record in seen.values()) if sum(seen.values()) % 5000 == 0 else 0)
    assert set(seen.values()) == {100}
    assert len(seen) == 1000
    opened = [number for number in numbers if number][1:-1]
    assert 45 <= min(opened) <= max(opened) <= 50


def test_the_cpu_time_of_a_part_is_that_between_its_samples():
    moments = [Sample(0, Mark(0, 1, 0, 0), 0), Sample(100, Mark(1, 2, 0, 0), 2), Sample(200, Mark(2, 6, 0, 1), 3)]
    assert samples.part(moments, 50, 150, 2) == Part(1.0, 2.5, 1.5, 0.25)


@pytest.mark.parametrize("system", steady.SYSTEMS)
def test_steady_runs_compare_what_gives_each_result_once(system):
    assert system.split()[0] in ("sqlite", "redis", "postgresql") or PEERS[system].guarantee == "exactly once"


def test_the_table_names_the_price_of_a_billion_records():
    tenths = [Part(1.0, 2.0, 0.0, 0.0)] * steady.TENTHS
    of = {cpu: steady.Steady(tenths, Part(5.0, cpu, 0.0, 0.0), 100.0, []) for cpu in (10.0, 40.0)}
    row = steady.table({"sqlite": [of[10.0]], PEER: [of[40.0]]}, 1_000_000).splitlines()[2].split(" | ")
    assert row[3:7] == ["50 [50-50]", "4.00 [4.00-4.00]", "", ""]
    assert row[7] == f"{price.euros(20_000):.2f}"
    assert price.euros(3600) == pytest.approx(price.DOLLARS_AN_HOUR / price.VCPUS * price.EUROS_A_DOLLAR)
    assert f"{price.DOLLARS_AN_HOUR:g} USD" in price.line()
