"""Whatever the bytes, loading ends with an App or with problems."""

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sluicegate.streams.config.checking import values
from tests.unit.config.files import GOOD, loaded
from tests.unit.config.test_build import EVERYTHING

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KEYS = sorted({word.strip(" -{}:,") for line in EVERYTHING.splitlines() for word in line.split() if word.endswith(":")})
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [
            "count",
            "collect",
            "30s",
            "1MiB",
            "message",
            "orders",
            "json",
            "raw",
            "first",
            "fire",
            "${X}",
            "${",
            "sluicegate",
        ]
    ),
)
TREES = st.recursive(
    SCALARS,
    lambda t: st.lists(t, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), t, max_size=4),
)


def judged(tmp_path, text):
    for tolerant in (False, True):
        file = loaded(tmp_path, text, tolerant=tolerant)
        assert (file.app is None) == bool(file.problems)
        for problem in (*file.problems, *file.warnings, *file.unset):
            line = str(problem).removeprefix(f"{tmp_path}/")
            assert len(line.splitlines()) == 1
            assert problem.line >= 1
            assert problem.column >= 1
            assert problem.message
            assert problem.hint
        if file.app is not None and not file.unset and not tolerant:
            values.check(file.app)
    return file


@QUICK
@given(st.binary(max_size=200))
@example(b"\x00")
@example(b"app: ${X")
@example(b"? \n")
@example(b"!!binary x")
@example(b"a: " + b"9" * 5000)
def test_any_bytes_are_judged(tmp_path, data):
    judged(tmp_path, data)


@QUICK
@given(st.dictionaries(st.sampled_from(["app", "kafka", "store", "agents", "http", "x"]), TREES))
@example({"kafka": {"\r": {}, "x": {}}})
def test_any_tree_is_judged(tmp_path, tree):
    judged(tmp_path, yaml.safe_dump(tree, allow_unicode=True))


def replaced(tree, path, value):
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


def paths(tree, path=()):
    yield path
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from paths(value, (*path, key))


WHOLE = yaml.safe_load(EVERYTHING.replace("2026-01-31T12:00:00+01:00", "latest").replace(', format: "json:loads"', ""))


@QUICK
@given(st.sampled_from(sorted(paths(WHOLE), key=str)), TREES)
def test_a_good_file_with_anything_in_one_place_is_judged(tmp_path, path, value):
    judged(tmp_path, yaml.safe_dump(replaced(WHOLE, path, value), allow_unicode=True))


@QUICK
@given(st.integers(0, len(GOOD) - 1), st.characters(codec="utf-8"))
def test_a_good_file_with_one_character_changed_is_judged(tmp_path, at, character):
    judged(tmp_path, GOOD[:at] + character + GOOD[at + 1 :])


@pytest.mark.parametrize("path", sorted(paths(WHOLE), key=str), ids=str)
@pytest.mark.parametrize("value", [None, [], {}, "", 0, "${UNSET}"], ids=repr)
def test_nothing_in_the_place_of_a_value_is_judged(tmp_path, path, value):
    judged(tmp_path, yaml.safe_dump(replaced(WHOLE, path, value)))
