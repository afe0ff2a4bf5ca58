"""A minute of hostile records of all kinds and codecs beside 1,000 good ones a second; `make hostile` takes ten."""

from pathlib import Path

import pytest

from tests.hostile import forged
from tests.hostile.agents import STANDS
from tests.hostile.kinds import CODECS
from tests.hostile.records import kinds
from tests.hostile.run import Attack, Plan
from tests.selection import today

SECONDS, RATE = 60.0, 1_000.0
LARGEST, MEMORY = 240_000_000, 256
"""Bytes of the record that ends a process, and MiB that its worker may take: ten minutes have 900 MB and a GiB, and
batches of 300 MB in place of 80."""


@pytest.mark.timeout(300)
def test_hostile_records_keep_no_good_one_from_its_result(tmp_path: Path, kafka: str, redis_url: str, ns: str) -> None:
    sent = kinds(LARGEST)
    report = Attack(tmp_path, kafka, redis_url, ns, Plan(SECONDS, RATE, sent, today(), MEMORY)).run()
    print(report)
    assert report.verdict.faults == []
    assert report.good > 0.5 * SECONDS * RATE
    assert {*report.kinds} == {kind.name for kind in sent}
    assert report.hostile > len(sent) * (len(CODECS) - 1)
    assert report.halted == STANDS
    assert report.letters > 100


@pytest.mark.timeout(200)
def test_twin_that_believes_any_header_loses_good_records(tmp_path: Path, kafka: str, redis_url: str, ns: str) -> None:
    plan = Plan(15.0, 200.0, forged.kinds(), today(), patience=10.0, without="no-proof")
    faults = Attack(tmp_path, kafka, redis_url, ns, plan).run().verdict.faults
    assert any("of windows/" in fault and "no result" in fault for fault in faults)
