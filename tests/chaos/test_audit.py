"""The judge of books convicts what it should, and nothing else."""

import json
from dataclasses import replace
from typing import Any

from tests.chaos.audit import audit
from tests.chaos.record import Seen
from tests.chaos.test_verdict import findings, letter

Entry = dict[str, Any]


def payment(offset: int, amount: int) -> Seen:
    return Seen("a.in", 0, offset, b"k", json.dumps({"v": amount}).encode())


def entry(*offsets: int, amount: int | None = None) -> Entry:
    total = sum(10**offset for offset in offsets) if amount is None else amount
    return {"account": "k", "amount": total, "count": len(offsets), "first": offsets[0], "last": offsets[-1]}


def message(offset: int, content: Entry) -> Seen:
    headers = {"sluicegate-id": f"id-{offset}", "sluicegate-shard": "a>out#x", "sluicegate-seq": str(offset)}
    return Seen("a.out", 0, offset, b"k", json.dumps(content).encode(), headers)


PAID = [payment(offset, 10**offset) for offset in range(3)]
BAD = Seen("a.in", 0, 3, b"k", b"{")
ENTRIES = [entry(0), entry(1), entry(2)]
SENT = [message(offset, entry) for offset, entry in enumerate(ENTRIES)]
RIGHT = {"k": 111}


def test_books_that_balance_are_clean_and_copies_of_messages_are_allowed() -> None:
    verdict = audit([*PAID, BAD], ENTRIES, RIGHT, [*SENT, replace(SENT[0], offset=9)], [letter(BAD)])
    assert (findings(verdict), verdict.copies, verdict.groups) == (set(), 1, 3)


def test_an_entry_of_several_payments_is_judged_by_its_span() -> None:
    both = entry(0, 1, 2)
    assert not findings(audit(PAID, [both], RIGHT, [message(0, both)], []))
    assert findings(audit(PAID, [both | {"count": 2}], RIGHT, [message(0, both | {"count": 2})], [])) == {"lost"}


def test_a_repeated_entry_and_a_missing_one_are_found() -> None:
    assert findings(audit(PAID, [*ENTRIES, ENTRIES[1]], {"k": 121}, SENT, [])) == {"duplicate", "lost"}
    assert findings(audit(PAID, [*ENTRIES, ENTRIES[1]], {"k": 121}, [*SENT, message(7, ENTRIES[1])], [])) == {
        "duplicate",
        "order",
    }
    assert findings(audit(PAID, ENTRIES[:2], {"k": 11}, SENT[:2], [])) == {"lost"}


def test_a_balance_that_is_not_the_sum_of_its_entries_is_found() -> None:
    assert findings(audit(PAID, ENTRIES, {"k": 121}, SENT, [])) == {"duplicate"}
    assert findings(audit(PAID, ENTRIES, {"k": 101}, SENT, [])) == {"lost"}
    assert findings(audit(PAID, ENTRIES, RIGHT | {"other": 5}, SENT, [])) == {"duplicate"}


def test_messages_that_are_missing_too_many_or_of_no_entry_are_found() -> None:
    assert findings(audit(PAID, ENTRIES, RIGHT, SENT[:2], [])) == {"lost"}
    assert "duplicate" in findings(audit(PAID, ENTRIES, RIGHT, [*SENT, message(3, ENTRIES[2])], []))
    assert findings(audit(PAID, ENTRIES, RIGHT, [*SENT[:2], message(2, entry(2, amount=7))], [])) == {
        "lost",
        "duplicate",
    }


def test_an_account_whose_messages_come_out_of_order_is_found() -> None:
    swapped = [SENT[1], replace(SENT[0], offset=1), SENT[2]]
    swapped[0] = replace(SENT[1], offset=0)
    assert findings(audit(PAID, ENTRIES, RIGHT, swapped, [])) == {"order"}


def test_dead_letters_are_owed_for_bad_payments_and_for_no_others() -> None:
    assert findings(audit([*PAID, BAD], ENTRIES, RIGHT, SENT, [])) == {"unseen"}
    assert "refused" in findings(audit(PAID, ENTRIES, RIGHT, SENT, [letter(PAID[1])]))
    poison = frozenset({(0, 1)})
    books = [ENTRIES[0], ENTRIES[2]]
    assert not findings(audit(PAID, books, {"k": 101}, [SENT[0], SENT[2]], [letter(PAID[1])], poison))
    assert findings(audit(PAID, ENTRIES, RIGHT, SENT, [letter(PAID[1])], poison)) == {"lost"}


def test_without_a_store_the_messages_are_judged_as_the_entries() -> None:
    assert not findings(audit(PAID, [], {}, SENT, [], stored=False))
    assert findings(audit(PAID, [], {}, [*SENT, message(3, ENTRIES[2])], [], stored=False)) == {"duplicate", "order"}
