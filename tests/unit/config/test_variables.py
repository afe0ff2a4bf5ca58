"""Variables are substituted in scalars, after parsing, and what they hold is never printed."""

import pytest

from sluicegate.streams.config.text.variables import NotAVariable, substitute
from tests.unit.config.files import GOOD, HEAD, agent, lines, loaded

ENVIRON = {"N": "25", "EMPTY": "", "TEXT": "a: [b", "ZEROS": "0071234567890123", "FLAG": "true", "BACK": r"\1 ${N}"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${N}", "25"),
        ("x${N}y${N}", "x25y25"),
        ("${NONE:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${N:-d}", "25"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("$${N}", "${N}"),
        ("$N", "$N"),
        ("$", "$"),
        ("${BACK}", r"\1 ${N}"),
        ("$$${N}", "$${N}"),
    ],
)
def test_a_variable_becomes_its_value_and_nothing_else_changes(tmp_path, text, expected):
    assert substitute(text, ENVIRON, tmp_path).text == expected


@pytest.mark.parametrize("text", ["${", "${N", "${}", "${1}", "${N-d}", "${N:?x}", "${a b}", "${${N}}"])
def test_what_begins_like_a_variable_and_is_none_is_refused(tmp_path, text):
    with pytest.raises(NotAVariable):
        substitute(text, ENVIRON, tmp_path)


def test_a_file_is_read_without_its_last_line_end(tmp_path):
    (tmp_path / "secret").write_text("a\nb\r\n")
    (tmp_path / "large").write_bytes(b"x" * (64 * 1024 + 1))
    assert substitute(f"${{file:{tmp_path}/secret}}", {}, tmp_path / "elsewhere").text == "a\nb"
    assert substitute("${file:secret}", {}, tmp_path).text == "a\nb"
    assert substitute("${file:large}", {}, tmp_path).unset == ("file:large",)
    assert substitute("${file:none}", {}, tmp_path).unset == ("file:none",)


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_a_scalar_that_is_only_a_variable_is_typed_as_if_it_were_written(tmp_path, quote):
    rule = f"aggregate: {{count: {quote or chr(34)}${{N}}{quote or chr(34)}}}"
    app = loaded(
        tmp_path, agent(f"from: t\n{rule}\nto: {{topic: o}}") + f"auto_migrate: {quote}${{FLAG}}{quote}\n", ENVIRON
    ).app
    assert app.agents[0].aggregation.count == 25
    assert app.auto_migrate is True


def test_a_scalar_that_holds_more_than_a_variable_is_text(tmp_path):
    text = agent("from: t\naggregate:\n  count: 1${N}\nto: {topic: o}")
    assert lines(loaded(tmp_path, text, ENVIRON).problems, tmp_path) == [
        "f.yaml:9:7: agents.a.aggregate.count: must be a whole number; write a whole number, such as 100"
    ]


def test_where_text_is_wanted_digits_stay_as_they_were_written(tmp_path):
    text = GOOD + "http: {token: '${ZEROS}'}\n"
    assert loaded(tmp_path, text, ENVIRON).app.http.token == "0071234567890123"
    text = GOOD.replace('"localhost:9092"', '"localhost:9092", sasl.password: 0042')
    assert loaded(tmp_path, text).app.kafka["sasl.password"] == "0042"


def test_a_value_cannot_add_structure_to_the_file(tmp_path):
    file = loaded(tmp_path, GOOD.replace("from: orders", "from: ${TEXT}"), ENVIRON)
    assert [(p.key, p.line) for p in file.problems] == [("agents.a.from", 7)]


UNSET = agent("from: ${TOPIC}\naggregate:\n  count: ${COUNT}\n  timeout: {after: '${AFTER}'}\nto: {topic: o}").replace(
    "sqlite:///state.db", "${STORE}"
)


def test_an_unset_variable_is_a_problem_where_values_are_needed(tmp_path):
    file = loaded(tmp_path, UNSET)
    assert file.app is None
    assert lines(file.problems, tmp_path) == [
        "f.yaml:3:1: store: ${STORE} is not set; set STORE, or write ${STORE:-default}",
        "f.yaml:7:5: agents.a.from: ${TOPIC} is not set; set TOPIC, or write ${TOPIC:-default}",
        "f.yaml:9:7: agents.a.aggregate.count: ${COUNT} is not set; set COUNT, or write ${COUNT:-default}",
        "f.yaml:10:17: agents.a.aggregate.timeout.after: ${AFTER} is not set; set AFTER, or write ${AFTER:-default}",
    ]


def test_checking_works_while_variables_are_unset_and_still_finds_what_is_wrong(tmp_path):
    file = loaded(tmp_path, UNSET, tolerant=True)
    assert (file.problems, len(file.unset), file.vague) == ((), 4, {"a"})
    assert file.app.agents[0].topics == ("${TOPIC}",)
    wrong = loaded(tmp_path, UNSET + "acept_level: lossy\n", tolerant=True)
    assert [p.key for p in wrong.problems] == ["acept_level"]


@pytest.mark.parametrize(
    "place",
    [
        "app: ${X}",
        "store: ${X}",
        "dead_letters: ${X}",
        "accept_level: ${X}",
        "auto_migrate: ${X}",
        "start_timeout: ${X}",
        "http: ${X}",
        "http: {port: '${X}'}",
        "http: {host: '${X}'}",
        "http: {token: '${X}'}",
        "kafka: {bootstrap.servers: '${X}'}",
        "kafka: ${X}",
        "agents: ${X}",
        "kafka: {bootstrap.servers: localhost, linger.ms: '${X}', group.protocol: '${X}'}",
    ],
)
def test_any_value_at_the_top_may_be_a_variable_that_is_not_set(tmp_path, place):
    key = place.partition(":")[0]
    text = "".join(line for line in HEAD.splitlines(True) if not line.startswith(key + ":")) + place + "\n"
    if key != "agents":
        text += "agents: {a: {from: t, aggregate: {count: 1}, to: {topic: o}}}\n"
    file = loaded(tmp_path, text, tolerant=True)
    assert lines(file.problems, tmp_path) == []
    assert file.unset


@pytest.mark.parametrize(
    "value",
    [
        "count: X",
        "timeout: X",
        "timeout: {after: X, since: X}",
        "timeout: {first: X, last: X}",
        "until: X",
        "until: {field: X, equals: X}",
        "compute: X",
        "compute: {n: X}",
        "compute: {n: {sum: X}}",
        "compute: {n: {reduce: X}}",
        "on_timeout: X, timeout: {after: 1s}",
        "on_missing: X",
        "on_null: X",
        "on_full: X",
        "max_items: X",
        "max_bytes: X",
        "max_groups: X",
        "max_buffered_bytes: X",
    ],
)
def test_any_value_of_a_rule_may_be_a_variable_that_is_not_set(tmp_path, value):
    text = agent(f"from: t\naggregate: {{{value.replace('X', repr('${X}'))}}}\nto: {{topic: o}}")
    file = loaded(tmp_path, text, tolerant=True)
    assert lines(file.problems, tmp_path) == []
    assert file.unset


@pytest.mark.parametrize(
    "key", ["from", "format", "key", "scope", "dead_letters", "start", "max_record_bytes", "aggregate", "to"]
)
def test_any_value_of_an_agent_may_be_a_variable_that_is_not_set(tmp_path, key):
    values = {"from": "t", "aggregate": "{count: 1}", "to": "{topic: o}"} | {key: "${X}"}
    file = loaded(tmp_path, agent("\n".join(f"{k}: {v}" for k, v in values.items())), tolerant=True)
    assert lines(file.problems, tmp_path) == []
    assert file.unset
