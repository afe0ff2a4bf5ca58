"""A minute of hostile records of all kinds and codecs beside 1,000 good ones a second; `make hostile` takes ten."""

from pathlib import Path

from tests.hostile.records import CODECS, kinds
from tests.hostile.run import Attack
from tests.selection import today

SECONDS, RATE = 60.0, 1_000.0


def test_hostile_records_keep_no_good_one_from_its_result(tmp_path: Path, kafka: str, redis_url: str, ns: str) -> None:
    report = Attack(tmp_path, kafka, redis_url, ns, RATE, today()).run(SECONDS)
    print(report)
    assert report.verdict.faults == []
    assert report.good > 0.5 * SECONDS * RATE
    assert {*report.kinds} == {kind.name for kind in kinds()}
    assert report.hostile > len(kinds()) * (len(CODECS) - 1)
    assert report.halted
    assert report.letters > 100
