"""The recount of the agents that read results must find every way in which they can be wrong, also while they run."""

import json
from collections.abc import Sequence

import pytest

from sluicegate.streams.demo.flights import Flight
from sluicegate.streams.demo.recount import OutputRecord, Recount
from tests.unit.demo.test_recount import result

CARRIER = "UA"
FLIGHTS = [Flight(CARRIER, 60 if 20 <= number < 30 else 1, b"{}") for number in range(60)]
OF_ONE = 10  # flights of a result


def numbered(start: int, end: int) -> OutputRecord:
    return result(f"result-{start}", [(at, FLIGHTS[at]) for at in range(start, end)])


def sum_of(results: Sequence[OutputRecord], name: str, first: int, **changed: object) -> OutputRecord:
    """What `carriers` makes of results at `delays/0/FIRST` and later."""
    documents = [result.document() for result in results]
    value = {
        "count": len(documents),
        "flights": sum(document["flights"] for document in documents),
        "total": sum(document["total"] for document in documents),
        "worst": max(document["worst"] for document in documents),
        **changed,
    }
    places = {"first": f"delays/0/{first}", "last": f"delays/0/{first + len(results) - 1}"}
    headers = {"id": name, "count": str(len(results)), **places}
    encoded = {f"sluicegate-{header}": text.encode() for header, text in headers.items()}
    return OutputRecord(CARRIER.encode(), json.dumps(value).encode(), {**encoded})


def alarm(name: str, offset: int, mean: float) -> OutputRecord:
    value = {"mean": mean, "partition": 0, "offset": offset}
    return OutputRecord(CARRIER.encode(), json.dumps(value).encode(), {"sluicegate-id": name.encode()})


RESULTS = [numbered(start, start + OF_ONE) for start in range(0, len(FLIGHTS), OF_ONE)]
SUMS = [sum_of(RESULTS[:3], "first", 0), sum_of(RESULTS[3:], "second", 3)]
ALARM = alarm("alarm", 2, 60.0)


def recounted(sums: Sequence[OutputRecord] = SUMS, alarms: Sequence[OutputRecord] = (ALARM,)) -> Recount:
    recount = Recount(FLIGHTS)
    outputs = {"carriers": sums, "alarms": alarms, "delays": RESULTS}  # some are read before their records
    for topic, messages in outputs.items():
        for offset, message in enumerate(messages):
            recount.take(topic, 0, offset, message)
        recount.turn()
    return recount


def test_right_outputs_balance_in_whatever_order_they_are_read() -> None:
    recount = recounted()
    assert recount.counted()
    assert [(book.account().records, book.account().balanced()) for book in recount.books.values()] == [
        (60, True),
        (6, True),
        (1, True),
    ]


def test_an_output_waits_for_its_records() -> None:
    recount = Recount(FLIGHTS)
    recount.take("carriers", 0, 0, SUMS[0])
    for offset in range(3):
        recount.turn()
        assert (recount.counted(), recount.carriers.account().accounted) == (False, 0)
        recount.take("delays", 0, offset, RESULTS[offset])
    recount.turn()
    assert recount.carriers.account().accounted == 3


def test_a_lost_sum_is_seen_at_the_end_and_a_passed_one_at_once() -> None:
    assert [recounted(SUMS[:1]).carriers.account(ended).lost for ended in (False, True)] == [0, 3]
    assert [recounted(SUMS[1:]).carriers.account(ended).lost for ended in (False, True)] == [3, 3]
    assert [recounted(alarms=()).alarms.account(ended).lost for ended in (False, True)] == [0, 1]


def test_a_repeated_sum_or_alarm_is_seen() -> None:
    again = sum_of(RESULTS[:3], "other", 0)
    assert recounted([*SUMS, again]).carriers.account(False).repeated == 3
    assert recounted(alarms=[ALARM, alarm("other", 2, 60.0)]).alarms.account(False).repeated == 1


def test_a_sum_that_lost_one_result_and_has_another_twice_is_wrong() -> None:
    """Each result has ten flights: their number alone is right."""
    [*_, account] = [recounted([sum_of([RESULTS[0], RESULTS[1], RESULTS[1]], "first", 0), SUMS[1]]).carriers.account()]
    assert (account.lost, len(account.wrong), account.balanced()) == (3, 1, False)


@pytest.mark.parametrize("changed", [{"count": 2}, {"flights": 31}, {"total": 0}, {"worst": 61}])
def test_a_sum_that_says_something_else_than_its_results_counts_for_nothing(changed: dict[str, object]) -> None:
    account = recounted([sum_of(RESULTS[:3], "first", 0, **changed), SUMS[1]]).carriers.account()
    assert (account.lost, len(account.wrong)) == (3, 1)


@pytest.mark.parametrize("wrong", [alarm("alarm", 1, 1.0), alarm("alarm", 2, 59.0), ALARM._replace(value=b"{}")])
def test_an_alarm_of_a_result_that_is_not_late_or_is_another_is_wrong(wrong: OutputRecord) -> None:
    account = recounted(alarms=[wrong]).alarms.account()
    assert (account.accounted, account.lost, len(account.wrong)) == (0, 1, 1)


def test_a_copy_of_a_result_is_no_record_of_the_next_agents() -> None:
    recount = recounted()
    recount.take("delays", 0, len(RESULTS), RESULTS[2])
    accounts = [book.account() for book in recount.books.values()]
    assert ([account.balanced() for account in accounts], accounts[0].copies) == ([True] * 3, 1)
