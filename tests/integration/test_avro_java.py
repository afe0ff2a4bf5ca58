"""Avro for Java is asked: its answers are the recorded ones, which ours must equal
(tests/unit/schemas/test_avro_java.py)."""

import pytest

from tests.servers.program import Unavailable
from tests.unit.schemas.avro_java import asked, pair, read, recorded

SOME = 1_000


def test_the_recorded_answers_are_those_of_avro_for_java() -> None:
    try:
        answers = asked([pair(seed) for seed in range(SOME)])
    except Unavailable as error:
        pytest.skip(str(error))
    assert [read(line) for line in answers] == recorded()[:SOME]
