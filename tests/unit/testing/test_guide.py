"""docs/testing.md says what is there: its tests pass, its table names every call and every step."""

import re
from pathlib import Path

from sluicegate.streams.config.sections.cases import KINDS
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play

PROJECT = Path(__file__).resolve().parents[3]
GUIDE = (PROJECT / "docs" / "testing.md").read_text(encoding="utf-8")


def test_its_tests_pass_on_the_readme_s_file_with_smaller_baskets(tmp_path: Path) -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (shop, _) = re.findall(r"```yaml\n(.*?)```", readme, re.S)
    tests, _ = re.findall(r"```yaml\n(.*?)```", GUIDE, re.S)
    (tmp_path / "shop.yaml").write_text(shop.replace("count: 100 ", "count: 2 ") + tests, encoding="utf-8")
    file = loaded(tmp_path / "shop.yaml")
    assert file.app is not None, file.problems
    assert [play(file.app, case) for case in file.cases] == [None]


def test_it_names_every_call_of_the_driver_and_every_step() -> None:
    calls = {name for name in vars(TestDriver) if not name.startswith("_")} - {
        "close",
        "dead_letter_topics",
        "output_topics",
    }
    assert {name for name in calls if f"| `{name}" not in GUIDE} == set()
    assert {kind for kind in KINDS if f"| `{kind}` |" not in GUIDE} == set()
