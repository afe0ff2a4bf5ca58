"""The judge of books: folds the input by itself and compares with entries, balances and messages. It knows no engine
and no fault.

An entry covers the payments of its account from its first to its last offset; an account lives in one partition of the
input. Every good payment must be in exactly one entry, every entry in its balance and in exactly one message, every bad
payment in one dead letter.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.chaos.record import Seen
from tests.chaos.verdict import Place, Verdict, between, dead_letters, distinct, exact_copies, good

Entry = dict[str, Any]


def audit(
    inputs: Sequence[Seen],
    entries: Sequence[Entry],
    balances: Mapping[str, int],
    outputs: Sequence[Seen],
    dead: Sequence[Seen],
    poison: frozenset[Place] = frozenset(),
    stored: bool = True,
) -> Verdict:
    """The verdict over complete logs and the store. `poison`: good payments that must become dead letters. `stored`
    False: the handlers only send, and the messages are judged as the entries."""
    verdict = Verdict()
    counted = {record.place: record for record in inputs if good(record) and record.place not in poison}
    refused = {record.place: record for record in inputs if record.place not in counted}
    exact_copies([*outputs, *dead], verdict)
    entries_sent = [json.loads(output.value or b"{}") for output in distinct(outputs)]
    booked = entries if stored else entries_sent
    _covered(counted, booked, verdict)
    if stored:
        _balanced(booked, balances, verdict)
        _sent(booked, entries_sent, verdict)
    _in_order(outputs, verdict)
    dead_letters(counted, refused, distinct(dead), verdict)
    return verdict


def _covered(counted: Mapping[Place, Seen], entries: Sequence[Entry], verdict: Verdict) -> None:
    by_account: dict[str, list[Seen]] = {}
    for record in sorted(counted.values(), key=lambda record: record.offset):
        by_account.setdefault((record.key or b"").decode(), []).append(record)
    covered: Counter[Place] = Counter()
    for entry in entries:
        verdict.groups += 1
        members = between(by_account.get(entry["account"], ()), entry["first"], entry["last"])
        covered.update(record.place for record in members)
        amount = sum(json.loads(record.value or b"{}")["v"] for record in members)
        if (entry["count"], entry["amount"]) != (len(members), amount):
            verdict.lost.append(f"entry {entry}: its {len(members)} payments sum up to {amount}")
    for place in counted:
        if not covered[place]:
            verdict.lost.append(f"input {place}: {counted[place].key!r} is in no entry")
        elif covered[place] > 1:
            verdict.duplicate.append(f"input {place}: {counted[place].key!r} is in {covered[place]} entries")


def _balanced(entries: Sequence[Entry], balances: Mapping[str, int], verdict: Verdict) -> None:
    sums: Counter[str] = Counter()
    for entry in entries:
        sums[entry["account"]] += entry["amount"]
    for account in {*sums, *balances}:
        if sums[account] != balances.get(account, 0):
            problems = verdict.lost if balances.get(account, 0) < sums[account] else verdict.duplicate
            problems.append(
                f"balance of {account}: {balances.get(account)} where the entries sum up to {sums[account]}"
            )


def _sent(entries: Sequence[Entry], entries_sent: Sequence[Entry], verdict: Verdict) -> None:
    written, sent = (Counter(json.dumps(entry, sort_keys=True) for entry in some) for some in (entries, entries_sent))
    verdict.lost += [f"{count} times no message says {entry}" for entry, count in (written - sent).items()]
    verdict.duplicate += [f"{count} messages too many say {entry}" for entry, count in (sent - written).items()]


def _in_order(outputs: Sequence[Seen], verdict: Verdict) -> None:
    """For each account in each output partition, once repeats are dropped by shard and number."""
    last: dict[tuple[int, bytes | None], int] = {}
    for output in distinct(sorted(outputs, key=lambda record: record.place), by_number=True):
        line, first = (output.partition, output.key), json.loads(output.value or b"{}")["first"]
        if first <= last.get(line, -1):
            verdict.order.append(f"{output.key!r}: the payments from {first} came after those from {last[line]}")
        last[line] = first
