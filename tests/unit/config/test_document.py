"""YAML 1.2, read with care: nothing is executed, nothing costs more than it should."""

import pytest

from tests.unit.config.files import GOOD, agent, lines, loaded

SYNTAX = [
    (
        "a: [",
        "f.yaml:1:5: file: is not valid YAML (expected the node content, but found '<stream end>'); correct the "
        "syntax here or just above",
    ),
    (
        "app: x\n\tb: 1",
        "f.yaml:2:1: file: is not valid YAML (found character '\\t' that cannot start any token); correct the syntax "
        "here or just above",
    ),
    (
        "app: x\n---\napp: y",
        "f.yaml:2:1: file: is not valid YAML (but found another document); correct the syntax here or just above",
    ),
    (
        "app: *x",
        "f.yaml:1:6: file: is not valid YAML (found undefined alias 'x'); correct the syntax here or just above",
    ),
    (
        "app: !!python/object/apply:os.system [id]",
        "f.yaml:1:6: file: a tag is not allowed; remove the word that begins with '!'; quote text that must stay text",
    ),
    (
        "app: !!str 5",
        "f.yaml:1:6: file: a tag is not allowed; remove the word that begins with '!'; quote text that must stay text",
    ),
    (b"app: \xff", "f.yaml:1:1: file: is not UTF-8; save it as UTF-8"),
    ("app: x\nstore: \x07", "f.yaml:2:1: file: has a character that YAML does not allow; remove it"),
    ("a: " + "[" * 5000, "f.yaml:1:35: file: nested deeper than 32 levels; write it flatter"),
    ("x" * (1 << 20) + "y", "f.yaml:1:1: file: is larger than 1 MiB; make it smaller"),
    ("a: &a 1\nb: [" + "*a, " * 101 + "]", "f.yaml:2:405: file: more than 100 aliases; write the repeated parts out"),
    ("a: &a [*a]", "f.yaml:1:4: file: has too many values when its aliases are written out; use fewer aliases"),
    (
        "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else ['x'])}]\n" for n in range(9)),
        "f.yaml:1:5: file: has too many values when its aliases are written out; use fewer aliases",
    ),
]


@pytest.mark.parametrize(("text", "expected"), SYNTAX, ids=range(len(SYNTAX)))
def test_what_is_no_readable_document_is_one_problem(tmp_path, text, expected):
    assert lines(loaded(tmp_path, text).problems, tmp_path) == [expected]


def test_a_file_that_is_not_there_is_a_problem_of_the_file(tmp_path):
    from sluicegate.streams.config import load

    [problem] = load(tmp_path / "nope.yaml", {}).problems
    assert str(problem) == (
        f"{tmp_path}/nope.yaml:1:1: file: cannot be read (No such file or directory); give the path of an "
        "existing YAML file"
    )
    [problem] = load(tmp_path, {}).problems
    assert "cannot be read (Is a directory)" in str(problem)


def test_a_duplicate_key_names_both_places(tmp_path):
    text = GOOD.replace("store:", "app: twice\nstore:").replace(
        "    from: orders\n", "    from: orders\n    from: other\n"
    )
    assert lines(loaded(tmp_path, text).problems, tmp_path) == [
        "f.yaml:3:1: app: is written twice (first in line 1); keep one of them",
        "f.yaml:9:5: agents.a.from: is written twice (first in line 8); keep one of them",
    ]


def test_a_key_that_is_no_scalar_is_refused(tmp_path):
    assert lines(loaded(tmp_path, GOOD + "? [a]\n: 1\n").problems, tmp_path) == [
        "f.yaml:10:3: file: a key must be text; write a plain word as the key"
    ]


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "True", "TRUE", "y", "1", "'true'"])
def test_only_true_and_false_are_booleans(tmp_path, word):
    assert [p.key for p in loaded(tmp_path, GOOD + f"auto_migrate: {word}\n").problems] == ["auto_migrate"]


@pytest.mark.parametrize(("word", "value"), [("true", True), ("false", False)])
def test_true_and_false_are_booleans(tmp_path, word, value):
    assert loaded(tmp_path, GOOD + f"auto_migrate: {word}\n").app.auto_migrate is value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("-7", -7),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("~", None),
        ("null", None),
        ("", None),
        ("'5'", "5"),
        ('"true"', "true"),
        ("true", True),
        ("1e", "1e"),
        ("<<", "<<"),
        ("=", "="),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_plain_scalars_have_the_types_of_yaml_1_2(tmp_path, written, value):
    file = loaded(
        tmp_path, agent(f"from: t\naggregate:\n  until:\n    field: a\n    equals: {written}\nto: {{topic: o}}")
    )
    equals = file.app.agents[0].aggregation.until.equals
    assert (equals, type(equals)) == (value, type(value))


def test_an_anchor_stands_for_its_value(tmp_path):
    text = (
        agent("from: t\naggregate: &rule {count: 5}\nto: {topic: o}")
        + "  b: {from: t, aggregate: *rule, to: {topic: p}}\n"
    )
    assert [a.aggregation.count for a in loaded(tmp_path, text).app.agents] == [5, 5]


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path):
    plain = loaded(tmp_path, GOOD)
    assert loaded(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()).app == plain.app
