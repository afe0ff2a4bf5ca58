"""Kafka Streams 4.2.1 is asked through its TopologyTestDriver: its answers are the recorded ones, which ours must equal
(tests/unit/windows/test_same_as_kafka_streams.py)."""

import pytest

from tests.servers.program import Unavailable
from tests.unit.windows.kafka_streams import KINDS, asked, logs, read, recorded


@pytest.mark.parametrize("kind", KINDS)
def test_the_recorded_answers_are_those_of_kafka_streams(kind: str) -> None:
    try:
        answers = asked(logs(kind))
    except Unavailable as error:
        pytest.skip(str(error))
    assert [read(line) for line in answers] == recorded(kind)
