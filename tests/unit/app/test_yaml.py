"""App.from_yaml and App.to_yaml are inverse for what a file can say."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sluicegate import App, ConfigurationError
from sluicegate.streams.app.text import as_yaml, of_yaml
from sluicegate.streams.config import load

PROJECT = Path(__file__).resolve().parents[3]
FOLDERS = ("docs", "examples", "tests", "README.md")
ENVIRON = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:9092", "STORE_URL": "sqlite:///state.db"}


def files() -> dict[str, tuple[str, Path]]:
    """The text and the folder of every file of agents in the repository, and of every one that its pages show."""
    results = {}
    for top in FOLDERS:
        start = PROJECT / top
        for path in sorted([start] if start.is_file() else start.rglob("*")):
            name = path.relative_to(PROJECT).as_posix()
            if path.suffix == ".yaml":
                texts = [path.read_text(encoding="utf-8")]
            elif path.suffix == ".md":
                texts = re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
            else:
                continue
            whole = [text for text in texts if re.search(r"^app: ", text, re.M) and re.search(r"^agents:", text, re.M)]
            results |= {f"{name}-{number}": (text, path.parent) for number, text in enumerate(whole)}
    return results


FILES = files()


def test_the_repository_has_such_files() -> None:
    assert len([name for name in FILES if ".yaml" in name]) >= 11
    assert len([name for name in FILES if ".md" in name]) >= 5


@pytest.mark.parametrize("name", FILES)
def test_a_file_means_the_same_after_from_yaml_and_to_yaml(name: str, tmp_path: Path) -> None:
    text, folder = FILES[name]
    first = App.from_yaml(text)
    written = first.to_yaml()
    assert App.from_yaml(written) == first
    assert App.from_yaml(written).to_yaml() == written
    meanings = []
    for item in (text, written):
        file = folder / ".as-app.yaml" if (folder / "schemas").is_dir() else tmp_path / "app.yaml"
        file.write_text(item, encoding="utf-8")
        try:
            outcome = load(file, ENVIRON, tolerant=True)
        finally:
            file.unlink()
        documents = [
            [(p.key, p.message.rpartition("expression: ")[2]) for p in problems]
            for problems in (outcome.problems, outcome.warnings, outcome.unset)
        ]
        meanings.append((outcome.app, *documents, [case.name for case in outcome.cases]))
    assert meanings[0] == meanings[1]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.sampled_from(
        ["", "yes", "no", "null", "~", "1", "1e3", "0x1f", "007", "true", "1:30", "a: b", "# c", "- d", "é"]
    )
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1, max_size=6), TREES, max_size=3))
def test_any_document_is_read_back_as_it_was_written(tree: dict[str, Any]) -> None:
    try:
        text = as_yaml(tree)
        read = of_yaml(text)
    except yaml.YAMLError:
        return  # characters that YAML has no place for
    assert read == tree


def test_a_variable_stays_a_variable() -> None:
    app = App.from_yaml("app: shop\nstore: ${STORE}\nkafka: {bootstrap.servers: '${KAFKA:-a:1}'}\nagents: {}\n")
    assert ("store: ${STORE}" in app.to_yaml(), "bootstrap.servers: ${KAFKA:-a:1}" in app.to_yaml()) == (True, True)


def test_problems_of_a_file_name_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(
        "app: shop\nstore: memory://\nkafka: {bootstrap.servers: a:1}\nagents:\n  a:\n    from: in\n    cuont: 2\n"
    )
    with pytest.raises(ConfigurationError, match=rf"{re.escape(str(file))}:7:5: agents.a.cuont: unknown key"):
        App.from_yaml(file).check()


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("shop.yaml", r"is text, and no path; write App.from_yaml\(Path\('shop.yaml'\)\)"),
        (Path("/nowhere/shop.yaml"), "nowhere/shop.yaml"),
        ("- a\n", "is not a mapping"),
        ("agents: [a]\n", "agents: is not a mapping of agents"),
        ("app: [\n", ":2:1: "),
    ],
)
def test_what_is_no_file_is_refused(source: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        App.from_yaml(source)


def test_an_app_of_a_file_is_extended_in_code() -> None:
    app = App.from_yaml("app: shop\nstore: memory://\nkafka: {bootstrap.servers: a:1}\n")
    app.add("pairs", from_="in", count=2, to="out")
    with app.test_driver() as driver:
        driver.send("in", {}, key="a", times=2)
        assert [output.value["count"] for output in driver.read("out")] == [2]
