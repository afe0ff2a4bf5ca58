"""The judge convicts what it should, and nothing else: without this its silence would mean nothing."""

import json
from dataclasses import replace

from tests.chaos.record import Seen
from tests.chaos.verdict import Verdict, balance, judge


def source(offset: int, key: bytes | None = b"k", value: bytes | None = None) -> Seen:
    return Seen("a.in", 0, offset, key, json.dumps({"v": 10**offset}).encode() if value is None else value)


def fire(
    offset: int, number: int, *members: int, records: int | None = None, key: bytes = b"k", lineage: str = "x"
) -> Seen:
    count = len(members) if records is None else records
    value = json.dumps({"count": count, "total": sum(10**member for member in members)}).encode()
    headers = {
        "sluicegate-id": f"id-{members[0]}",
        "sluicegate-shard": f"a>out#{lineage}",
        "sluicegate-seq": str(number),
        "sluicegate-first": f"a.in/0/{members[0]}",
        "sluicegate-last": f"a.in/0/{members[-1]}",
    }
    return Seen("a.out", 0, offset, key, value, headers)


def letter(record: Seen, number: int = 9) -> Seen:
    headers = {"sluicegate-id": f"dead-{record.offset}", "sluicegate-shard": "a>dead#x", "sluicegate-seq": str(number)}
    place = {"sluicegate-dead-partition": "0", "sluicegate-dead-offset": str(record.offset)}
    return Seen("a.dead", 0, number, record.key, record.value, headers | place)


INPUT = [source(0), source(1), source(2), source(3)]
BAD = source(4, value=b"{")
GOOD_OUTPUT = [fire(0, 1, 0, 1), fire(1, 2, 2, 3)]


def findings(verdict: Verdict) -> set[str]:
    return {name for name in ("lost", "duplicate", "order", "unseen", "refused") if getattr(verdict, name)}


def test_what_is_right_is_clean_and_exact_copies_are_allowed() -> None:
    copies = [*GOOD_OUTPUT, replace(GOOD_OUTPUT[0], offset=2)]
    verdict = judge([*INPUT, BAD], copies, [letter(BAD)])
    assert (findings(verdict), verdict.copies, verdict.groups) == (set(), 1, 2)


def test_a_record_in_no_group_is_lost() -> None:
    assert findings(judge(INPUT, GOOD_OUTPUT[:1], [])) == {"lost"}


def test_a_record_in_two_groups_is_a_duplicate() -> None:
    assert findings(judge(INPUT, [fire(0, 1, 0, 1, 2), fire(1, 2, 2, 3)], [])) == {"duplicate"}


def test_a_group_that_counts_more_or_other_records_than_it_spans_is_found() -> None:
    assert findings(judge(INPUT, [fire(0, 1, 0, 1, records=3), GOOD_OUTPUT[1]], [])) == {"duplicate"}
    assert findings(judge(INPUT, [fire(0, 1, 0, 1, records=1), GOOD_OUTPUT[1]], [])) == {"lost"}
    other = replace(GOOD_OUTPUT[0], value=b'{"count": 2, "total": 12}')
    assert findings(judge(INPUT, [other, GOOD_OUTPUT[1]], [])) == {"lost"}


def test_an_id_with_another_number_other_contents_or_another_partition_is_a_duplicate() -> None:
    for changed in (
        fire(2, 7, 0, 1),
        replace(GOOD_OUTPUT[0], offset=2, value=b"{}"),
        replace(GOOD_OUTPUT[0], offset=2, partition=1),
    ):
        assert findings(judge(INPUT, [*GOOD_OUTPUT, changed], [])) >= {"duplicate"}


def test_a_number_that_is_used_twice_loses_a_result_for_receivers() -> None:
    assert findings(judge(INPUT, [fire(0, 1, 0, 1), fire(1, 1, 2, 3)], [])) == {"lost"}


def test_groups_of_a_key_out_of_order_are_found_but_a_late_copy_is_none() -> None:
    swapped = [fire(0, 2, 2, 3), fire(1, 1, 0, 1)]
    assert findings(judge(INPUT, swapped, [])) == {"order"}
    assert not findings(judge(INPUT, [*GOOD_OUTPUT, fire(2, 1, 0, 1)], []))


def test_dead_letters_are_missed_when_absent_changed_doubled_or_of_good_records() -> None:
    records = [*INPUT, BAD]
    assert findings(judge(records, GOOD_OUTPUT, [])) == {"unseen"}
    assert findings(judge(records, GOOD_OUTPUT, [replace(letter(BAD), value=b"}")])) == {"unseen"}
    twice = replace(letter(BAD, 10), headers=letter(BAD, 10).headers | {"sluicegate-id": "another"})
    assert findings(judge(records, GOOD_OUTPUT, [letter(BAD), twice])) == {"duplicate"}
    assert findings(judge(INPUT, GOOD_OUTPUT, [letter(INPUT[0])])) == {"refused"}


def test_the_balance_further_down_misses_and_recounts_results() -> None:
    def further(*fires: Seen) -> list[Seen]:
        documents = [json.loads(fire.value or b"") for fire in fires]
        document = {
            "records": sum(document["count"] for document in documents),
            "totals": [document["total"] for document in documents],
        }
        return [Seen("a.totals", 0, 0, b"k", json.dumps(document).encode(), {"sluicegate-id": "t"})]

    assert not findings(balance(INPUT, GOOD_OUTPUT, further(*GOOD_OUTPUT)))
    assert findings(balance(INPUT, GOOD_OUTPUT, further(GOOD_OUTPUT[0]))) == {"lost"}
    assert findings(balance(INPUT, GOOD_OUTPUT, further(*GOOD_OUTPUT, GOOD_OUTPUT[0]))) == {"duplicate"}
