"""Records of an older schema are read, and defaults are written, as Avro for Java does it. Its answers are recorded;
tests/integration/test_avro_java.py asks it for some of them."""

import json

import pytest

from sluicegate.schemas import Avro, codec
from tests.unit.schemas.avro_java import PAIRS, pair, recorded
from tests.unit.schemas.avros import by

PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_random_records_of_another_schema_are_read_as_avro_for_java_reads_them(part: int) -> None:
    answers = recorded()
    assert len(answers) == PAIRS
    for seed in range(part, PAIRS, PARTS):
        case = pair(seed)
        record = codec("avro", Avro(json.dumps(case.reader), json.dumps(case.writer))).decode(case.datum)
        assert record == answers[seed].value, f"seed {seed}: {case.line()}"


def test_fields_that_are_left_out_are_written_as_avro_for_java_writes_their_defaults() -> None:
    answers, judged = recorded(), 0
    for seed in range(PAIRS):
        case = pair(seed)
        if not case.writer["fields"]:
            assert by(case.reader).encode({}) == answers[seed].written, f"seed {seed}: {case.line()}"
            judged += 1
    assert judged > PAIRS / 4
