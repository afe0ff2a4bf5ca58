"""docs/formats.md says what is there: its file passes its own tests, its keys and values are those of the codec."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from sluicegate.streams.config.formats.schemas import KEYS
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play, play_with_crashes
from tests.unit.schemas.avros import by

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "formats.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(?!agents:)(.*?)```", DOCUMENT, re.S)[number]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    texts = {
        "shop.yaml": block("yaml"),
        "order.avsc": block("json"),
        "invoice.avsc": block("json", 1),
        "billing.py": block("python"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "billing", raising=False)
    return tmp_path / "shop.yaml"


def test_its_file_passes_its_own_tests_with_a_death_at_every_place(file: Path) -> None:
    outcome = loaded(file)
    assert outcome.app is not None, outcome.problems
    [case] = outcome.cases
    assert play(outcome.app, case) is None
    assert play_with_crashes(outcome.app, case, lambda done, total: None).failure is None


def test_its_table_names_every_key() -> None:
    assert {key for key in KEYS if not re.search(rf"^\| `{key}[:`]", DOCUMENT, re.M)} == set()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "2026-01-01T10:00:00"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "2026-01-01T10:00:00.000001"),
        ({"type": "int", "logicalType": "date"}, "2026-01-01"),
        ({"type": "int", "logicalType": "time-millis"}, "10:00:00"),
        ({"type": "long", "logicalType": "time-micros"}, "10:00:00"),
        ({"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}, "10.00"),
        ({"type": "long", "logicalType": "nobody-knows"}, 7),
    ],
)
def test_values_are_as_its_table_says(kind: Any, value: Any) -> None:
    form = by({"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]})
    assert form.decode(form.encode({"v": value})) == {"v": value}


def test_what_is_finer_than_milliseconds_is_cut() -> None:
    kind = {"type": "long", "logicalType": "timestamp-millis"}
    form = by({"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]})
    assert form.decode(form.encode({"v": "2026-01-01T10:00:00.123456Z"})) == {"v": "2026-01-01T10:00:00.123Z"}


def test_check_prints_the_schema_of_its_results(file: Path) -> None:
    result = CliRunner().invoke(main, ["check", str(file), "--json"])
    schemas = json.loads(result.stdout)["schemas"]
    assert [field["name"] for field in schemas["baskets"]["fields"]][-2:] == ["total", "last"]
    assert schemas["invoices"] == json.loads(block("json", 1))
