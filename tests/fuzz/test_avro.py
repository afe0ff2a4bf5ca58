"""Random schemas, values and bytes of Avro, with the avro package as the judge."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.seeds import SEED, TIMES, replayable
from tests.selection import run
from tests.unit.schemas.avros import both_ways, by, cases, damaged, judged_alike

BOTH_WAYS = 10_000 if TIMES > 1 or run() == "rest" else 150  # 10,000 take about 100 s
DAMAGED = 10_000 if TIMES > 1 else 150


def drawn_often(examples: int) -> settings:
    return settings(database=None, deadline=None, max_examples=examples, suppress_health_check=[*HealthCheck])


@pytest.mark.timeout(600)
def test_random_values_of_random_schemas_are_the_same_for_the_judge(fuzzed: Callable[[int], None]) -> None:
    @seed(SEED)
    @drawn_often(BOTH_WAYS)
    @given(cases())
    def drawn(case: tuple[object, object]) -> None:
        both_ways(*case)

    with replayable():
        drawn()
    fuzzed(BOTH_WAYS)


def test_damaged_bytes_of_random_schemas_are_records_only_where_the_judge_reads_the_same(
    fuzzed: Callable[[int], None],
) -> None:
    @seed(SEED)
    @drawn_often(DAMAGED)
    @given(cases(), st.data())
    def drawn(case: tuple[object, object], data: st.DataObject) -> None:
        schema, value = case
        judged_alike(schema, damaged(by(schema).encode(value), data))

    with replayable():
        drawn()
    fuzzed(DAMAGED)
