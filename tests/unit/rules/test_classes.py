"""The class of each change: no key of the file is without one, and none promises what the fold cannot keep."""

import typing
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pydantic import BaseModel

from sluicegate.schemas import codec
from sluicegate.streams import formats
from sluicegate.streams.aggregation.rule import Rule, fingerprint
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.keys import (
    CLASSES,
    COMPUTED,
    DUPLICATES,
    END,
    FILE,
    INPUT,
    KEPT,
    OUTPUT,
    POLICIES,
    REVISION,
    TAKEN,
    TOPICS,
)
from sluicegate.streams.rules.changes import Change, changes, kind_of, policies_of
from sluicegate.streams.rules.classes import OF_AN_AGENT, severity
from sluicegate.streams.rules.document import document
from sluicegate.streams.rules.identity import KEYS, rule_of
from tests.unit.config.files import agent as file_of
from tests.unit.config.files import loaded

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "m", "type": "long"}]}'
REGISTRY = "schema_registry: {url: 'http://localhost:8081'}\n"
REGISTERED = "from: t\naggregate: {{count: 2}}\nto: {{topic: o, format: avro, framing: confluent{}}}"
COUNTED = "from: t\naggregate: {{count: 100, {}}}\nto: {{topic: o}}"


def keys(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Each key below the model, with a dot before a nested one. The names of a mapping are left out."""
    for name, field in model.model_fields.items():
        key = f"{path}{field.alias or name}"
        yield key
        for inner in models(field.annotation):
            yield from keys(inner, f"{key}.")


def models(annotation: typing.Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for kind in typing.get_args(annotation):
        yield from models(kind)


def test_each_key_of_an_agent_is_in_a_class() -> None:
    assert sorted({*keys(AgentModel)}) == sorted(OF_AN_AGENT)


def test_a_key_that_is_new_in_the_file_is_found_missing() -> None:
    class Later(AgentModel):
        windows: int = 0

    assert {*keys(Later)} - {*OF_AN_AGENT} == {"windows"}


def test_the_rule_has_the_keys_of_every_class_but_those_of_the_file_and_of_topics() -> None:
    outer = {name: part for name, part in OF_AN_AGENT.items() if "." not in name}
    assert {name for name, kind in outer.items() if kind not in (FILE, TOPICS)} - {"repartition"} == {*KEYS}


def test_the_classes_are_ordered_from_the_one_that_demands_most() -> None:
    assert sorted(CLASSES, key=severity) == [*CLASSES]
    assert {*OF_AN_AGENT.values()} <= {*CLASSES}


ROW = "{c: {table: t, column: id, key: key, fields: [n]}}"
CASES = {
    "count": (COUNTED.format("max_groups: 9"), COUNTED.format("max_groups: 9").replace("100", "50"), END),
    "timeout": (COUNTED.format("timeout: {after: 30s}"), COUNTED.format("timeout: {after: 10s}"), END),
    "a timeout since last": (
        COUNTED.format("timeout: {first: 30s}"),
        COUNTED.format("timeout: {first: 30s, last: 1s}"),
        END,
    ),
    "until": (COUNTED.format("max_groups: 9"), COUNTED.format("until: {field: n, equals: 1}, max_groups: 9"), END),
    "until equals": (
        COUNTED.format("until: {field: n, equals: 1}"),
        COUNTED.format("until: {field: n, equals: 2}"),
        END,
    ),
    "on_timeout": (
        COUNTED.format("timeout: {after: 30s}"),
        COUNTED.format("timeout: {after: 30s}, on_timeout: discard"),
        END,
    ),
    "on_missing skip": (
        COUNTED.format("compute: {n: {sum: a}}"),
        COUNTED.format("compute: {n: {sum: a}}, on_missing: skip"),
        END,
    ),
    "on_missing ignore": (
        COUNTED.format("compute: {n: {sum: a}}"),
        COUNTED.format("compute: {n: {sum: a}}, on_missing: ignore"),
        COMPUTED,
    ),
    "on_missing no longer ignore": (
        COUNTED.format("compute: {n: {sum: a}}, on_missing: ignore"),
        COUNTED.format("compute: {n: {sum: a}}, on_missing: skip"),
        COMPUTED,
    ),
    "max_bytes": (COUNTED.format("max_groups: 9"), COUNTED.format("max_groups: 9, max_bytes: 1MiB"), END),
    "a field removed": (
        COUNTED.format("compute: {n: {sum: a}, m: {collect: b}}"),
        COUNTED.format("compute: {n: {sum: a}}"),
        KEPT,
    ),
    "a field renamed": (
        COUNTED.format("compute: {n: {collect: a}}"),
        COUNTED.format("compute: {m: {collect: a}}"),
        KEPT,
    ),
    "fields reordered": (
        COUNTED.format("compute: {n: {sum: a}, m: count}"),
        COUNTED.format("compute: {m: count, n: {sum: a}}"),
        KEPT,
    ),
    "a count added": (
        COUNTED.format("compute: {n: {sum: a}}"),
        COUNTED.format("compute: {n: {sum: a}, m: count}"),
        KEPT,
    ),
    "another statistic": (COUNTED.format("compute: {n: {sum: a}}"), COUNTED.format("compute: {n: {max: a}}"), KEPT),
    "a statistic of another field": (
        COUNTED.format("compute: {n: {sum: a}}"),
        COUNTED.format("compute: {n: {sum: b}}"),
        COMPUTED,
    ),
    "a statistic of what is collected": (
        COUNTED.format("compute: {n: {collect: a}}"),
        COUNTED.format("compute: {n: {sum: a}}"),
        COMPUTED,
    ),
    "a field added": (
        COUNTED.format("compute: {n: {sum: a}}"),
        COUNTED.format("compute: {n: {sum: a}, m: {last: b}}"),
        COMPUTED,
    ),
    "a function": (
        COUNTED.format("compute: {n: {reduce: 'operator:add'}}"),
        COUNTED.format("compute: {n: {reduce: 'operator:mul'}}"),
        COMPUTED,
    ),
    "key": (
        "from: t\nkey: a\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nkey: b\naggregate: {count: 2}\nto: {topic: o}",
        COMPUTED,
    ),
    "a let of the key": (
        "from: t\nlet: {k: a + 1}\nkey: k\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nlet: {k: a + 2}\nkey: k\naggregate: {count: 2}\nto: {topic: o}",
        COMPUTED,
    ),
    "a let behind a let of a reducer": (
        "from: t\nlet: {j: a + 1, k: j * 2}\naggregate: {count: 2, compute: {n: {sum: k}}}\nto: {topic: o}",
        "from: t\nlet: {j: a + 2, k: j * 2}\naggregate: {count: 2, compute: {n: {sum: k}}}\nto: {topic: o}",
        COMPUTED,
    ),
    "a let in the place of a field": (
        "from: t\naggregate: {count: 2, compute: {n: {sum: k}}}\nto: {topic: o}",
        "from: t\nlet: {k: a + 2}\naggregate: {count: 2, compute: {n: {sum: k}}}\nto: {topic: o}",
        COMPUTED,
    ),
    "the order of lets that a reducer reads": (
        "from: t\nlet: {j: a + 1, k: b}\naggregate: {count: 2, compute: {n: {sum: k}, m: {sum: j}}}\nto: {topic: o}",
        "from: t\nlet: {k: b, j: a + 1}\naggregate: {count: 2, compute: {n: {sum: k}, m: {sum: j}}}\nto: {topic: o}",
        COMPUTED,
    ),
    "a let of where": (
        "from: t\nlet: {k: a + 1}\nwhere: k > 2\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nlet: {k: a + 2}\nwhere: k > 2\naggregate: {count: 2}\nto: {topic: o}",
        TAKEN,
    ),
    "the order of lets that only where reads": (
        "from: t\nlet: {j: a, k: b}\nwhere: j > k\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nlet: {k: b, j: a}\nwhere: j > k\naggregate: {count: 2}\nto: {topic: o}",
        TAKEN,
    ),
    "where": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nwhere: a > 1\naggregate: {count: 2}\nto: {topic: o}",
        TAKEN,
    ),
    "having": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nhaving: count > 1\naggregate: {count: 2}\nto: {topic: o}",
        OUTPUT,
    ),
    "to": ("from: t\naggregate: {count: 2}\nto: {topic: o}", "from: t\naggregate: {count: 2}\nto: {topic: p}", OUTPUT),
    "subject": (REGISTERED.format(""), REGISTERED.format(", subject: record"), OUTPUT),
    "register": (REGISTERED.format(""), REGISTERED.format(", register: true"), OUTPUT),
    "select": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\naggregate: {count: 2}\nto: {topic: o, select: [key]}",
        OUTPUT,
    ),
    "a route": (
        "from: t\naggregate: {count: 2}\nto: [{topic: o, where: count > 1}, {topic: p}]",
        "from: t\naggregate: {count: 2}\nto: [{topic: o, where: count > 2}, {topic: p}]",
        OUTPUT,
    ),
    "one more route": (
        "from: t\naggregate: {count: 2}\nto: [{topic: o, where: count > 1}, {topic: p}]",
        "from: t\naggregate: {count: 2}\nto: [{topic: o, where: count > 1}, {topic: p, where: count > 2}, drop]",
        OUTPUT,
    ),
    "drop in the place of a route": (
        "from: t\naggregate: {count: 2}\nto: [{topic: o, where: count > 1}, {topic: p}]",
        "from: t\naggregate: {count: 2}\nto: [{topic: o, where: count > 1}, drop]",
        OUTPUT,
    ),
    "a lookup": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        f"from: t\naggregate: {{count: 2}}\nlookup: {ROW}\nto: {{topic: o}}",
        OUTPUT,
    ),
    "what a missing row means": (
        f"from: t\naggregate: {{count: 2}}\nlookup: {ROW}\nto: {{topic: o}}",
        f"from: t\naggregate: {{count: 2}}\nlookup: {ROW.replace(']', '], missing: dead-letter')}\nto: {{topic: o}}",
        OUTPUT,
    ),
    "dedupe": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\ndedupe: {id: key}\naggregate: {count: 2}\nto: {topic: o}",
        DUPLICATES,
    ),
    "the id of dedupe": (
        "from: t\ndedupe: {id: key}\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\ndedupe: {id: 'header:id'}\naggregate: {count: 2}\nto: {topic: o}",
        DUPLICATES,
    ),
    "the horizon of dedupe": (
        "from: t\ndedupe: {id: n}\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\ndedupe: {id: n, horizon: 1h}\naggregate: {count: 2}\nto: {topic: o}",
        DUPLICATES,
    ),
    "format": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nformat: raw\naggregate: {count: 2}\nto: {topic: o}",
        INPUT,
    ),
    "schema": (
        "from: t\nformat: avro\nschema: a.avsc\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nformat: avro\nschema: b.avsc\naggregate: {count: 2}\nto: {topic: o}",
        INPUT,
    ),
    "scope": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nscope: shared\naggregate: {count: 2}\nto: {topic: o}",
        INPUT,
    ),
    "revision": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nrevision: 2\naggregate: {count: 2}\nto: {topic: o}",
        REVISION,
    ),
    "a topic": (
        "from: [t, u]\naggregate: {count: 2}\nto: {topic: o}",
        "from: [t, v]\naggregate: {count: 2}\nto: {topic: o}",
        TOPICS,
    ),
    "repeats of a topic": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: {topic: t, dedupe: sluicegate}\naggregate: {count: 2}\nto: {topic: o}",
        FILE,
    ),
    "dead letters": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\ndead_letters: d\naggregate: {count: 2}\nto: {topic: o}",
        FILE,
    ),
    "retry": (
        "from: t\naggregate: {count: 2}\nhandler: operator:not_\nretry: {attempts: 2}",
        "from: t\naggregate: {count: 2}\nhandler: operator:not_\nretry: {attempts: 3, backoff: 1s..2s}",
        FILE,
    ),
    "handler": (
        "from: t\naggregate: {count: 2}\nhandler: operator:not_",
        "from: t\naggregate: {count: 2}\nhandler: operator:truth",
        FILE,
    ),
    "on_change": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\non_change: finish\naggregate: {count: 2}\nto: {topic: o}",
        FILE,
    ),
    "history": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\nhistory: h\naggregate: {count: 2}\nto: {topic: o}",
        FILE,
    ),
    "on_error": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: t\non_error: {decode: skip}\naggregate: {count: 2}\nto: {topic: o}",
        FILE,
    ),
    "an envelope of a source": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}",
        "from: {topic: t, envelope: cloudevents}\naggregate: {count: 2}\nto: {topic: o}",
        INPUT,
    ),
    "an envelope of an output": (
        "from: t\naggregate: {count: 2}\nto: {topic: o, envelope: {cloudevents: binary, type: a}}",
        "from: t\naggregate: {count: 2}\nto: {topic: o, envelope: {cloudevents: structured, type: b, source: /c}}",
        OUTPUT,
    ),
    "the headers of dead letters": (
        "from: t\naggregate: {count: 2}\nto: {topic: o}\ndead_letters: d",
        "from: t\naggregate: {count: 2}\nto: {topic: o}\ndead_letters: {topic: d, headers: connect}",
        FILE,
    ),
    "aggregate": ("from: t\naggregate: {count: 2}\nhandler: operator:not_", "from: t\nhandler: operator:not_", INPUT),
}


@pytest.mark.parametrize("name", CASES)
def test_the_class_of_a_change(tmp_path, name):
    one, other, kind = CASES[name]
    differences = both(tmp_path, one, other)
    assert differences
    assert {difference.kind for difference in differences} == {kind}
    assert kind_of(differences) == kind


@pytest.mark.parametrize("name", CASES)
def test_the_way_back_is_a_change_of_the_same_keys(tmp_path, name):
    one, other, _ = CASES[name]
    there, back = both(tmp_path, one, other), both(tmp_path, other, one)
    assert [(change.path, change.old, change.new) for change in there] == [
        (change.path, change.new, change.old) for change in back
    ]


@pytest.mark.parametrize("name", CASES)
def test_only_the_class_of_the_file_leaves_the_digest(tmp_path, name):
    one, other, kind = CASES[name]
    equal = rule_of(agent(tmp_path, one)).digest == rule_of(agent(tmp_path, other)).digest
    assert equal == (kind in (FILE, TOPICS))


@pytest.mark.parametrize("name", CASES)
def test_a_group_that_may_be_converted_has_the_same_slots(tmp_path, name):
    """What the store compares, and what `run` refuses to go on with. KEPT needs the old slots in other places."""
    one, other = (agent(tmp_path, text) for text in CASES[name][:2])
    differences = changes(document(one), document(other))
    if "convert" in policies_of(differences) and kind_of(differences) != KEPT:
        assert fingerprint(one) == fingerprint(other)
        before, after = (Rule(agent, formats.reads(agent)).plan.blank for agent in (one, other))
        assert before == after


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2] == KEPT])
def test_what_is_kept_needs_no_slot_that_was_not_there(tmp_path, name):
    """A field of the new rule is one of the old rule under any name, or its plan needs no slot and no bag more."""
    one, other = (agent(tmp_path, text) for text in CASES[name][:2])
    names = {replace(field, name="") for field in one.aggregation.compute}
    more = tuple(replace(field, name=f"new {field.name}") for field in other.aggregation.compute)
    more = tuple(reducer for reducer in more if replace(reducer, name="") not in names)
    together = replace(one, aggregation=replace(one.aggregation, compute=one.aggregation.compute + more))
    before, after = (Rule(agent, codec("json")).plan for agent in (one, together))
    assert (after.blank, len(after.bags)) == (before.blank, len(before.bags))


def test_the_changes_name_the_keys_and_both_values(tmp_path):
    one = "from: t\naggregate: {count: 100, timeout: {after: 30s}, compute: {n: {sum: a}}}\nto: {topic: o}"
    other = "from: t\nwhere: a>1\naggregate: {count: 50, timeout: {after: 10s}, compute: {n: {max: a}}}\nto: {topic: p}"
    differences = both(tmp_path, one, other)
    assert [(difference.path, difference.old, difference.new) for difference in differences] == [
        ("aggregate.compute.n", {"sum": "a"}, {"max": "a"}),
        ("aggregate.count", 100, 50),
        ("aggregate.timeout.first", 30, 10),
        ("to.topic", "o", "p"),
        ("where", None, "a > 1"),
    ]
    assert kind_of(differences) == KEPT
    assert policies_of(differences) == POLICIES


def test_a_topic_that_is_removed_and_one_that_is_added_are_two_changes(tmp_path):
    differences = both(tmp_path, *CASES["a topic"][:2])
    assert [(difference.path, difference.old, difference.new) for difference in differences] == [
        ("from", "u", None),
        ("from", None, "v"),
    ]


def test_nothing_changed():
    assert (kind_of([]), policies_of([])) == (FILE, POLICIES)


POLICIES_OF = {
    "count": ("finish", "convert", "rewind", "flush", "drop"),
    "another statistic": ("finish", "convert", "rewind", "flush", "drop"),
    "a field added": ("finish", "rewind", "flush", "drop"),
    "key": ("finish", "rewind", "flush", "drop"),
    "to": ("finish", "convert", "rewind", "flush", "drop"),
    "a lookup": ("finish", "convert", "rewind", "flush", "drop"),
    "dedupe": ("finish", "convert", "rewind", "flush", "drop"),
    "where": ("finish", "convert", "rewind", "flush", "drop"),
    "format": ("flush", "drop"),
    "scope": ("flush", "drop"),
    "a topic": (),
}


@pytest.mark.parametrize("name", POLICIES_OF)
def test_the_policies_of_a_class(tmp_path, name):
    assert policies_of(both(tmp_path, *CASES[name][:2])) == POLICIES_OF[name]


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        ("aggregate: {count: 2}\nto: {topic: o}", ("finish", "convert", "rewind", "flush", "drop")),
        (
            "aggregate: {count: 2, compute: {n: {reduce: 'operator:add'}}}\nto: {topic: o}",
            ("convert", "rewind", "flush", "drop"),
        ),
        ("aggregate: {count: 2}\nhandler: operator:not_", ("convert", "rewind", "flush", "drop")),
        (
            "format: tests.unit.aggregation.formats:backwards\naggregate: {count: 2}\nto: {topic: o}",
            ("convert", "rewind", "flush", "drop"),
        ),
    ],
    ids=["no code", "reduce", "a handler", "a codec"],
)
def test_the_code_of_an_older_revision_is_gone_where_there_is_code(tmp_path, functions, expected):
    one, other = (f"from: t\nrevision: {number}\n{functions}" for number in (1, 2))
    assert policies_of(both(tmp_path, one, other)) == expected


SHARED = "from: t\nscope: shared\n{}aggregate: {{count: {}, compute: {{n: {{sum: {}}}}}}}\nto: {{topic: o}}"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (SHARED.format("", 3, "a"), ("convert",)),
        (SHARED.format("", 2, "b"), ("convert",)),
        (SHARED.format("format: tests.unit.aggregation.formats:backwards\n", 2, "a"), ()),
        (SHARED.format("", 2, "a").replace("scope: shared\n", ""), ("drop",)),
    ],
)
def test_a_shared_buffer_holds_records_that_are_folded_again(tmp_path, other, expected):
    assert policies_of(both(tmp_path, SHARED.format("", 2, "a"), other)) == expected


def both(tmp_path, one: str, other: str) -> list[Change]:
    return changes(document(agent(tmp_path, one)), document(agent(tmp_path, other)))


def agent(tmp_path, text: str):
    (tmp_path / "a.avsc").write_text(AVRO)
    (tmp_path / "b.avsc").write_text(AVRO.replace('"m"', '"o"'))
    file = loaded(tmp_path, file_of(text) + REGISTRY)
    assert file.problems == ()
    return file.app.agents[0]


HOPPING = "from: t\naggregate: {{window: {{hopping: 10m, every: 5m{}}}{}}}\nto: {{topic: o}}"


@pytest.mark.parametrize(
    ("window", "rule", "policies"),
    [
        (", grace: 1m", "", ("finish", "convert", "flush", "drop")),
        ("", ", count: 3", ("finish", "flush", "drop")),
        ("", ", until: {field: a, equals: 1}", ("finish", "flush", "drop")),
        (", late: {new: 1m}", "", ("finish", "flush", "drop")),
    ],
)
def test_hopping_windows_go_on_only_if_they_are_kept_in_the_same_way(tmp_path, window, rule, policies):
    before, after = (agent(tmp_path, HOPPING.format(*more)) for more in (("", ""), (window, rule)))
    assert policies_of(changes(document(before), document(after))) == policies
    assert (fingerprint(before) == fingerprint(after)) is ("convert" in policies)


JOINED = """
correlate:
  legs: {{o: orders, p: {{from: payments, key: id{}}}{}}}
  complete: has(o)
  timeout: {{after: 1m{}}}
to: {{topic: o}}
"""


@pytest.mark.parametrize(
    ("leg", "legs", "timeout", "policies"),
    [
        (", keep: all", "", "", ("finish", "flush", "drop")),
        ("", ", q: refunds", "", ("finish", "flush", "drop")),
        ("", "", ", clock: wall", ("flush", "drop")),
        ("", "", ", at_most: 2h", ("finish", "convert", "flush", "drop")),
    ],
)
def test_a_correlation_finishes_under_the_legs_that_it_began_with(tmp_path, leg, legs, timeout, policies):
    before, after = (
        loaded(tmp_path, file_of(JOINED.format(*more))).app.agents[-1] for more in (("", "", ""), (leg, legs, timeout))
    )
    assert policies_of(changes(document(before), document(after))) == policies
