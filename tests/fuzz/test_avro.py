"""Random schemas, values and bytes of Avro, with the avro package as the judge."""

from collections.abc import Callable

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.seeds import SEED, TIMES, replayable
from tests.unit.schemas.avros import both_ways, by, cases, damaged, judged_alike

EACH = 10_000 if TIMES > 1 else 150
DRAWN = settings(database=None, deadline=None, max_examples=EACH, suppress_health_check=[*HealthCheck])


def test_random_values_of_random_schemas_are_the_same_for_the_judge(fuzzed: Callable[[int], None]) -> None:
    @seed(SEED)
    @DRAWN
    @given(cases())
    def drawn(case: tuple[object, object]) -> None:
        both_ways(*case)

    with replayable():
        drawn()
    fuzzed(EACH)


def test_damaged_bytes_of_random_schemas_are_records_only_where_the_judge_reads_the_same(
    fuzzed: Callable[[int], None],
) -> None:
    @seed(SEED)
    @DRAWN
    @given(cases(), st.data())
    def drawn(case: tuple[object, object], data: st.DataObject) -> None:
        schema, value = case
        judged_alike(schema, damaged(by(schema).encode(value), data))

    with replayable():
        drawn()
    fuzzed(EACH)
