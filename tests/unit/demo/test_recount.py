"""The recount must find every way in which the account can be wrong."""

import json
from collections.abc import Sequence

import pytest

from sluicegate.streams.cli.workers.demo import _report, moments
from sluicegate.streams.demo.flights import Flight
from sluicegate.streams.demo.recount import Account, OutputRecord, Recount

Outputs = tuple[list[OutputRecord], list[OutputRecord]]


def flight(number: int) -> Flight:
    carrier = ("UA", "B6", "HA")[number % 3]
    delay = None if number % 7 == 0 else number % 50 - 10
    return Flight(carrier, delay, json.dumps({"flight": number, "dep_delay": delay}).encode())


FLIGHTS = [flight(number) for number in range(600)]


def placed() -> list[tuple[int, Flight]]:
    """Each flight with its offset."""
    ends: dict[int, int] = {}
    delays = []
    for placed_flight in FLIGHTS:
        delays.append((ends.get(placed_flight.partition, 0), placed_flight))
        ends[placed_flight.partition] = delays[-1][0] + 1
    return delays


def result(name: str, group: Sequence[tuple[int, Flight]], **changed: object) -> OutputRecord:
    first, carrier = group[0][1], group[0][1].carrier
    delays = [flight.delay or 0 for _, flight in group]
    document = {
        "key": carrier,
        "count": len(delays),
        "flights": len(delays),
        "total": sum(delays),
        "worst": max(delays),
    }
    document |= {"mean": sum(delays) / len(delays), **changed}
    headers = {
        "id": name,
        "count": str(len(group)),
        "first": f"flights/{first.partition}/{group[0][0]}",
        "last": f"flights/{first.partition}/{group[-1][0]}",
    }
    return OutputRecord(
        carrier.encode(),
        json.dumps(document).encode(),
        {f"sluicegate-{key}": value.encode() for key, value in headers.items()},
    )


def dead_letter(name: str, offset: int, dead: Flight) -> OutputRecord:
    headers = {"id": name, "dead-topic": "flights", "dead-partition": str(dead.partition), "dead-offset": str(offset)}
    return OutputRecord(
        dead.carrier.encode(), dead.value, {f"sluicegate-{key}": value.encode() for key, value in headers.items()}
    )


@pytest.fixture
def right() -> Outputs:
    """Results of up to 50 flights and the dead letters, as they should be."""
    results = []
    for carrier in ("UA", "B6", "HA"):
        mine = [
            (offset, flight) for offset, flight in placed() if flight.carrier == carrier and flight.delay is not None
        ]
        results += [result(f"{carrier}-{start}", mine[start : start + 50]) for start in range(0, len(mine), 50)]
    dead = [
        dead_letter(f"dead-{number}", offset, flight)
        for number, (offset, flight) in enumerate(placed())
        if flight.delay is None
    ]
    return results, dead


def recounted(outputs: Outputs) -> Account:
    recount = Recount(FLIGHTS)
    for topic, messages in zip(("delays", "flights.dead"), outputs, strict=True):
        for offset, message in enumerate(messages):
            recount.take(topic, 0, offset, message)
    return recount.delays.account()


def test_right_outputs_balance(right: Outputs, capsys: pytest.CaptureFixture[str]) -> None:
    account = recounted(right)
    assert account.balanced()
    assert _report({"delays": account}) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "600 flights in, 600 accounted for, 0 lost, 0 repeated"


def test_a_missing_result_is_lost_flights(right: Outputs, capsys: pytest.CaptureFixture[str]) -> None:
    size = json.loads(right[0].pop(2).value or b"")["count"]
    account = recounted(right)
    assert (account.lost, account.accounted, account.balanced()) == (size, 600 - size, False)
    assert _report({"delays": account}) == 1
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == f"600 flights in, {600 - size} accounted for, {size} lost, 0 repeated"
    )


def test_a_missing_dead_letter_is_a_lost_flight(right: Outputs) -> None:
    del right[1][5]
    account = recounted(right)
    assert (account.lost, account.balanced()) == (1, False)


def test_an_exact_copy_is_dropped_by_its_id(right: Outputs) -> None:
    right[0].append(right[0][0])
    right[1].insert(0, right[1][3])
    account = recounted(right)
    assert account.balanced()
    assert account.copies == 2


def test_the_same_result_under_another_id_is_repeated_flights(right: Outputs) -> None:
    again = right[0][0]
    right[0].append(again._replace(headers={**again.headers, "sluicegate-id": b"another"}))
    account = recounted(right)
    assert (account.repeated, account.lost, account.balanced()) == (50, 0, False)


def test_the_same_dead_letter_under_another_id_is_a_repeated_flight(right: Outputs) -> None:
    again = right[1][0]
    right[1].append(again._replace(headers={**again.headers, "sluicegate-id": b"another"}))
    assert recounted(right).repeated == 1


def test_two_messages_with_one_id_that_differ_are_wrong(right: Outputs) -> None:
    right[0].append(right[0][0]._replace(value=b"{}"))
    account = recounted(right)
    assert (len(account.wrong), account.balanced()) == (1, False)


@pytest.mark.parametrize(
    "changed", [{"count": 49}, {"flights": 51}, {"total": 1}, {"worst": 99}, {"mean": 0.5}, {"key": "B6"}]
)
def test_a_result_that_says_something_else_than_its_flights_counts_for_nothing(
    right: Outputs, changed: dict[str, object]
) -> None:
    group = [(offset, flight) for offset, flight in placed() if flight.carrier == "UA" and flight.delay is not None][
        :50
    ]
    assert right[0][0] == result("UA-0", group)
    right[0][0] = result("UA-0", group, **changed)
    account = recounted(right)
    assert (account.lost, len(account.wrong), account.balanced()) == (50, 1, False)


@pytest.mark.parametrize("where", ["other/0/1", "flights/9/1", "flights/0/99999", "flights/0/x", "", "1"])
def test_a_result_from_nowhere_counts_for_nothing(right: Outputs, where: str) -> None:
    right[0][0].headers["sluicegate-last"] = where.encode()
    assert len(recounted(right).wrong) == 1


def test_a_dead_letter_of_a_flight_with_a_delay_or_with_other_bytes_is_wrong(right: Outputs) -> None:
    offset, fine = next((offset, flight) for offset, flight in placed() if flight.delay is not None)
    right[1].append(dead_letter("fine", offset, fine))
    right[1][0] = right[1][0]._replace(value=b"{}")
    account = recounted(right)
    assert (len(account.wrong), account.lost, account.repeated) == (2, 1, 0)


def test_kills_are_spread_over_the_whole_way() -> None:
    assert moments(0, 1000, lambda: 0.5) == []
    for draw in (0.0, 0.5, 0.999):
        times = moments(5, 1000, lambda draw=draw: draw)
        assert times == sorted(times)
        assert len(set(times)) == 5
        assert times[-1] < 1000
