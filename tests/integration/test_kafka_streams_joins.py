"""Kafka Streams 4.2.1 is asked through its TopologyTestDriver: what it says of outer joins is what was recorded, which
ours must equal (tests/unit/correlation/test_same_as_kafka_streams.py)."""

import pytest

from tests.servers.program import Unavailable
from tests.unit.correlation.kafka_streams import asked, logs, read, recorded


def test_the_recorded_answers_are_those_of_kafka_streams() -> None:
    try:
        answers = asked(logs())
    except Unavailable as error:
        pytest.skip(str(error))
    assert [read(line) for line in answers] == recorded()
