"""The report says what was planted, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.audit import audit
from tests.chaos.record import Seen
from tests.chaos.verdict import distinct, judge
from tests.soak.field import Setting
from tests.soak.report import Report, as_markdown, found, write
from tests.soak.run import aborted_reads


def source(offset: int, value: bytes | None = None) -> Seen:
    return Seen("soak.in", 0, offset, b"k", json.dumps({"v": 10**offset}).encode() if value is None else value)


def group(offset: int, *members: int, more: tuple[int, ...] = ()) -> Seen:
    values = [*(10**member for member in members), *more]
    document = {"count": len(values), "total": sum(values), "v": sum(values), "all": values}
    headers = {
        "sluicegate-id": f"id-{members[0]}",
        "sluicegate-shard": "soak/sums/soak.in/0>soak.out#x",
        "sluicegate-seq": str(offset),
        "sluicegate-first": f"soak.in/0/{members[0]}",
        "sluicegate-last": f"soak.in/0/{members[-1]}",
    }
    return Seen("soak.out", 0, offset, b"k", json.dumps(document).encode(), headers)


def entry(out: Seen) -> dict[str, Any]:
    return {
        "account": "k",
        "amount": json.loads(out.value or b"")["v"],
        "count": 1,
        "first": out.offset,
        "last": out.offset,
    }


def message(offset: int, out: Seen) -> Seen:
    headers = {
        "sluicegate-id": f"paid-{out.offset}",
        "sluicegate-shard": "soak/book/soak.out/0>soak.paid#x",
        "sluicegate-seq": str(offset),
    }
    return Seen("soak.paid", 0, offset, b"k", json.dumps(entry(out)).encode(), headers)


INPUT = [source(number) for number in range(6)]
OUT = [group(0, 0, 1), group(1, 2, 3), group(2, 4, 5)]


def report(inputs: list[Seen], outputs: list[Seen], entries: list[dict[str, Any]], paid: list[Seen]) -> Report:
    balances = {"k": sum(entry["amount"] for entry in entries)}
    booked = audit(distinct(outputs), entries, balances, paid, [])
    return Report(
        setting=Setting(),
        faulty=90.0,
        fed=100.0,
        drained=3.0,
        load=(1.0, 1.0, 1.0),
        processors=2,
        faults={"kill-child": 3},
        process_faults=3,
        missed={},
        broken=[],
        recoveries={"kill-child": [1.0, 2.0, 6.0]},
        slowest=["6.0 s"],
        unrecovered=0,
        records=6,
        messages=12,
        copies=0,
        aborted_transactions=1,
        ended_alone={},
        unclean=[],
        last_ends=[0, 0, 0],
        anomalies=found(judge(inputs, outputs, []), booked, aborted_reads(outputs)),
    )


def of(outputs: list[Seen], inputs: list[Seen] = INPUT) -> Report:
    """What the handler does with these groups is right."""
    kept = distinct(outputs)
    return report(
        inputs, outputs, [entry(item) for item in kept], [message(number, entry) for number, entry in enumerate(kept)]
    )


def anomalies(soak_report: Report) -> set[str]:
    return {name for name, lines in soak_report.anomalies.items() if lines}


def test_what_is_right_is_clean() -> None:
    assert of(OUT).clean
    assert not replace(of(OUT), drained=None).clean


@pytest.mark.parametrize(
    ("outputs", "name"),
    [
        (OUT[:2], "lost"),
        ([*OUT, group(3, 1, 2)], "duplicate"),
        ([OUT[0], replace(OUT[2], offset=1), replace(OUT[1], offset=2)], "order"),
        ([*OUT[:2], group(2, 4, 5, more=(-3,))], "aborted read"),
    ],
)
def test_a_planted_violation_is_named(outputs: list[Seen], name: str) -> None:
    soak_report = of(outputs)
    assert name in anomalies(soak_report)
    assert not soak_report.clean
    assert "Violations were found" in as_markdown(soak_report)


def test_a_bad_record_without_a_dead_letter_is_unseen() -> None:
    assert anomalies(of(OUT, [*INPUT, source(6, b"{no json")])) == {"unseen"}


def test_what_the_handler_lost_or_did_twice_is_named() -> None:
    entries, paid = [entry(output) for output in OUT], [message(number, output) for number, output in enumerate(OUT)]
    assert "lost" in anomalies(report(INPUT, OUT, entries[:2], paid[:2]))
    assert "lost" in anomalies(report(INPUT, OUT, entries, paid[:2]))
    assert "duplicate" in anomalies(report(INPUT, OUT, [*entries, entries[0]], paid))


def test_both_files_say_the_same(tmp_path: Path) -> None:
    soak_report = of(OUT[:2])
    write(soak_report, tmp_path / "proof" / "soak")
    document, text = (
        json.loads((tmp_path / "proof" / "soak.json").read_text()),
        (tmp_path / "proof" / "soak.md").read_text(),
    )
    assert document["anomalies"]["lost"]["count"] == 2 == len(soak_report.anomalies["lost"])
    assert "| lost | 2 |" in text
    assert document["recoveries"]["all"] == {"measured": 3, "p50": 2.0, "p99": 6.0, "most": 6.0}
    assert "| kill-child | 3 | 0 | 2.0 | 6.0 | 6.0 |" in text
    assert (document["clean"], document["total_faults"], document["records_per_second"]) == (False, 3, 0.1)
