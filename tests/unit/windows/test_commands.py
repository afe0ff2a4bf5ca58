"""What commands say of agents with windows: which records a result is made of, what becomes of a record, and what is
refused."""

from sluicegate.streams.agent import Agent, Correlation, Reducer, Window
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.operations.answering import record_verdict
from sluicegate.streams.operations.explaining import Explained, ExplainedOutput, GroupHistory, OffsetSpan, explained
from sluicegate.streams.operations.rebuilding.rebuild import unaccountable
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.shadow.refusals import unshadowable
from sluicegate.streams.testing.log import LogRecord
from tests.unit.windows.turning import an_agent, record

SPAN = OffsetSpan(("in", 0), 0, 5)
MINUTE = an_agent(Window(60.0, time="amount", unit="s"))


def test_explain_names_the_records_of_the_window_and_of_no_other() -> None:
    reader = GroupHistory(Partition("app", "sums", "in", 0), MINUTE, 1, b"k")
    seconds = [(0, 0), (1, 61), (2, 5), (3, 119), (4, 120), (5, 62)]
    assert [offset for offset, second in seconds if reader.takes(record(offset, b"k", 0, second))] == [1, 3, 5]


def test_explain_names_the_records_of_a_session_and_of_no_other() -> None:
    sessions = an_agent(Window(60.0, time="amount", unit="s", kind="session"))
    reader = GroupHistory(Partition("app", "sums", "in", 0), sessions, 1, b"k", (41_000, 180_000))
    seconds = [(0, 41), (1, 61), (2, 300), (3, 119), (4, 120), (5, 121), (6, 41), (7, 40)]
    assert [offset for offset, second in seconds if reader.takes(record(offset, b"k", 0, second))] == [1, 3, 4, 6]


def test_explain_names_the_records_of_a_hopping_window_and_of_no_other() -> None:
    hopping = an_agent(Window(60.0, time="amount", unit="s", kind="hopping", every=20.0))
    reader = GroupHistory(Partition("app", "sums", "in", 0), hopping, 1, b"k", (40_000, 100_000))
    seconds = [(0, 41), (1, 61), (2, 300), (3, 99), (4, 100), (5, 40), (6, 39)]
    assert [offset for offset, second in seconds if reader.takes(record(offset, b"k", 0, second))] == [1, 3, 5]


def test_explain_names_the_records_of_a_sliding_window_and_of_no_other() -> None:
    sliding = an_agent(Window(60.0, time="amount", unit="s", kind="sliding"))
    reader = GroupHistory(Partition("app", "sums", "in", 0), sliding, 1, b"k", (40_000, 100_000))
    seconds = [(0, 41), (1, 61), (2, 300), (3, 100), (4, 101), (5, 40), (6, 39)]
    assert [offset for offset, second in seconds if reader.takes(record(offset, b"k", 0, second))] == [1, 3, 5]


def test_explain_names_the_last_records_of_a_key_and_no_others() -> None:
    """The window begins at 40 s. It has three records, and of the two at 40 s the second one."""
    last = an_agent(Window(0.0, time="amount", unit="s", kind="sliding", grace=60.0, last=3))
    output = ExplainedOutput("out/0/0", "i", "f", "sums", "window", 3, b"k", SPAN, (40_000, 100_000))
    log = [record(offset, b"k", 0, second) for offset, second in enumerate((61, 40, 39, 40, 101, 100))]
    assert explained("app", last, output, SPAN, log, 0) == Explained([0, 3, 5], [])


def test_a_record_is_judged_without_a_clock() -> None:
    assert record_verdict("app", MINUTE, record(0, b"k", 0, 4_000_000_000), HeaderProof()).outcome == "taken"
    late = record_verdict("app", MINUTE, LogRecord("in", 0, 0, b"k", b'{"amount":"yesterday"}'), HeaderProof())
    assert (late.outcome, late.reason) == ("dead-letter", "wrong-type")
    other = an_agent(Window(60.0, time="at", unit="s"))
    bad = record_verdict("app", other, LogRecord("in", 0, 0, b"k", b'{"amount":1,"at":"yesterday"}'), HeaderProof())
    assert (bad.outcome, bad.reason) == ("dead-letter", "bad-time")


def test_rebuild_takes_windows_of_all_kinds_and_correlations() -> None:
    for kind, every in (("tumbling", 0.0), ("session", 0.0), ("sliding", 0.0), ("hopping", 20.0)):
        assert unaccountable(an_agent(Window(60.0, time="amount", unit="s", kind=kind, every=every))) is None  # type: ignore[arg-type]
    assert unaccountable(correlated()) is None


def test_shadow_takes_windows_and_correlations() -> None:
    assert unshadowable(MINUTE) is None
    assert unshadowable(correlated()) is None


def a_leg(offset: int, second: int, key: bytes = b"k") -> LogRecord:
    document = {"agent": "order", "origin": f"orders/0/{offset}", "time": str(1_000 * second)}
    headers = [(f"sluicegate-{name}", text.encode()) for name, text in document.items()]
    return LogRecord("in", 0, offset, key, b'{"order":{"id":1}}', headers)


def correlated() -> Agent:
    window = Window(60.0, kind="correlation", origins=("order/orders", "payment/payments"))
    legs = (Reducer("order", "first", "order"), Reducer("payment", "last", "payment"))
    until = "has(group.order) && has(group.payment)"
    return an_agent(window, compute=legs, until=until, on_missing="ignore", correlation=Correlation())


def test_explain_names_the_records_of_a_correlation_and_of_no_other() -> None:
    reader = GroupHistory(Partition("app", "sums", "in", 0), correlated(), 1, b"k", (40_000, 100_000))
    seconds = [(0, 39), (1, 61), (2, 300), (3, 99), (4, 100), (5, 40), (6, 101)]
    assert [offset for offset, second in seconds if reader.takes(a_leg(offset, second))] == [1, 3, 4, 5]


def test_a_leg_is_judged_without_a_clock() -> None:
    assert record_verdict("app", correlated(), a_leg(0, 1), HeaderProof()).outcome == "taken"
    untimed = record_verdict("app", correlated(), LogRecord("in", 0, 0, b"k", b'{"order":{"id":1}}'), HeaderProof())
    assert (untimed.outcome, untimed.reason) == ("dead-letter", "no-time")
