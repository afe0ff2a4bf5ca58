"""The lock: made of pip's report, and of what the project asks for."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.lock import locked

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "0" * 64


def item(name, version, download):
    return {"metadata": {"name": name, "version": version}, "download_info": download}


def test_each_package_is_locked_with_its_hash_and_the_project_itself_is_not():
    report = {
        "install": [
            item("B_b", "2", {"archive_info": {"hashes": {"sha256": DIGEST}}}),
            item("sluicegate", "1", {"dir_info": {}}),
        ]
    }
    lines = locked(report, "Linux", "3.11").splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["b-b==2 \\", f"    --hash=sha256:{DIGEST}"]


def test_a_package_without_a_hash_is_refused():
    with pytest.raises(ValueError, match="b 2 has no SHA-256"):
        locked({"install": [item("b", "2", {"archive_info": {}})]}, "Linux", "3.11")


def test_the_lock_holds_what_the_project_asks_for_in_a_version_that_it_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [
        *project["dependencies"],
        *(requirement for extra in project["optional-dependencies"].values() for requirement in extra),
    ]
    text = (ROOT / "requirements.lock").read_text()
    matches = dict(re.findall(r"^([a-z0-9.-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE))
    assert len(matches) == text.count("==")
    for requirement in (
        requirement for requirement in map(Requirement, asked) if not requirement.name.startswith("sluicegate")
    ):
        assert requirement.specifier.contains(matches[requirement.name.lower()]), requirement


def test_the_image_installs_what_was_tested_and_what_its_extras_need() -> None:
    tested, image = (
        set(_pins((ROOT / name).read_text())) for name in ("requirements.lock", "deploy/requirements.lock")
    )
    assert image < tested
    assert {"psycopg", "pymongo", "pymysql", "redis", "sqlalchemy", "confluent-kafka", "msgspec"} <= {
        pin.split("==")[0] for pin, _ in image
    }
    assert not {pin.split("==")[0] for pin, _ in image} & {"pytest", "ruff", "mypy"}


def _pins(text: str) -> list[tuple[str, str]]:
    lines = [line.strip() for line in text.splitlines() if not line.startswith("#")]
    return list(zip(lines[::2], lines[1::2], strict=True))
