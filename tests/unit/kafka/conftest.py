from collections.abc import Iterator

import pytest

from sluicegate.connectors.kafka.embedded import EmbeddedBroker


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """An embedded broker with the topics `one` (1 partition) and `four` (4)."""
    made = EmbeddedBroker({"one": 1, "four": 4})
    yield made
    made.close()
