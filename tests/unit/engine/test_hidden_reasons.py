"""A dead letter that cannot be written keeps the reason for which it is one."""

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from tests.unit.engine.driver import Driver, Log, ManualClock, header

TEXT = "tests.unit.engine.test_hidden_reasons:codec"


class Codec:
    """Of the user's: it writes no group."""

    def decode(self, value: bytes) -> object:
        return {"amount": value.decode()}

    def encode(self, value: object) -> bytes:
        raise ValueError("no schema for it")


codec = Codec()


def test_a_group_that_timed_out_and_cannot_be_written_says_both(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    rule = Aggregation(count=2, since_first=10.0, on_timeout="dead-letter", compute=(Reducer("x", "last", "amount"),))
    log.append("in", 0, b"k", b'{"amount":1}')
    agent = Agent("sums", ("in",), rule, Destination("out", TEXT), "dead")
    Driver(agent, store, log, clock).give(0).turns().later(20).turns(4)
    [letter] = log.topics["dead"][0]
    assert (header(letter, "sluicegate-dead-reason"), header(letter, "sluicegate-dead-stage")) == (
        "timeout",
        "aggregate",
    )
    error = header(letter, "sluicegate-dead-error") or ""
    assert error.startswith("the group timed out and on_timeout is dead-letter; the result cannot be written as ")
    assert "ValueError: no schema for it); its records are 0 to 0" in error
