"""The pages of docs/recipes have the same parts in the same order, and docs/recipes.md names each of them. Their files
run in tests/integration/docs/test_recipes.py."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[3]
RECIPES = PROJECT / "docs" / "recipes"
PAGES = sorted(RECIPES.glob("*.md"))
INDEX = (PROJECT / "docs" / "recipes.md").read_text(encoding="utf-8")
CHART = PROJECT / "deploy" / "helm" / "sluicegate"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LAST = [re.compile(r"^## When .* killed$"), re.compile(r"^## In production$")]


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def lacks(page: str) -> list[str]:
    """The parts that a page has not, or has in another order."""
    headings = re.findall(r"^## .*$", page, re.MULTILINE)[-2:]
    strs = [pattern.pattern for pattern, line in zip(LAST, headings, strict=False) if not pattern.match(line)]
    if len(headings) < 2:
        strs.append("the last two headings")
    before, _, _ = page.partition("\n## ")
    if "\n```yaml\n" not in before or "\ntests:\n" not in before:
        strs.append("a file with tests before the first heading")
    if re.match(r"# [^\n]+\n\n[A-Z]", page) is None:
        strs.append("the problem in words, before all else")
    return strs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_recipe_has_a_problem_a_tested_file_a_death_and_advice(page: Path) -> None:
    assert lacks(page.read_text(encoding="utf-8")) == []
    assert f"(recipes/{page.name})" in INDEX


@pytest.mark.parametrize("part", ["tests:", "## In production", "## When the process is killed"])
def test_a_page_without_a_part_is_found(part: str) -> None:
    page = (RECIPES / "debounce.md").read_text(encoding="utf-8")
    assert lacks(page.replace(f"\n{part}\n", "\n")) != []


def test_the_settings_for_the_chart_are_keys_of_the_chart() -> None:
    [values] = [text for text in blocks(RECIPES / "kubernetes.md", "yaml") if text.startswith("# values.yaml")]
    known: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    for key, value in yaml.safe_load(values).items():
        assert key in known
        if isinstance(value, dict) and key != "files":
            assert value.keys() <= known[key].keys()


@pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on this machine")
def test_the_chart_runs_the_file_of_the_recipe(tmp_path: Path) -> None:
    for text in blocks(RECIPES / "kubernetes.md", "yaml"):
        name = text.split("\n", 1)[0].removeprefix("# ")
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = ["helm", "template", "shop", str(CHART), "--values", "values.yaml"]
    command += ["--set-file", "files.shop\\.yaml=shop.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    made = {
        (document["kind"], document["metadata"]["name"]): document
        for document in yaml.safe_load_all(done.stdout)
        if document
    }
    assert list(made["ConfigMap", "shop"]["data"]) == ["shop.yaml"]
    [container] = made["Deployment", "shop"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["run", "/etc/sluicegate/shop.yaml", "--workers", "1"]
