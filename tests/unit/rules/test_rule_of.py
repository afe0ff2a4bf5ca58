"""The rule of an agent and its digest: what changes it, and what does not."""

from dataclasses import fields, replace
from hashlib import sha256

import msgspec
import pytest

from sluicegate.schemas.options import Avro
from sluicegate.streams import formats
from sluicegate.streams.agent import (
    Agent,
    Aggregation,
    Correlation,
    DataDeadline,
    Deduplication,
    Destination,
    Emit,
    EventEnvelope,
    Handler,
    Let,
    Lookup,
    OnError,
    RateLimit,
    Reducer,
    Selected,
    Throttle,
    Until,
    Window,
)
from sluicegate.streams.demo.file import text
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.document import document
from sluicegate.streams.rules.versions import FIELDS, with_rule
from tests.unit.config.files import agent as file_of
from tests.unit.config.files import loaded

PLAIN = Agent("a", ("orders",), Aggregation(count=10), Destination("totals"), "shop.dead")
SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
OTHER_AVRO = Avro(SCHEMA.replace("long", "int"), SCHEMA, "confluent", 7, "schemas")
RULE_FIELDS = {
    "aggregation": replace(PLAIN.aggregation, count=11),
    "to": Destination("others"),
    "format": "raw",
    "dedupe": Deduplication("header", "id"),
    "schema": Avro(SCHEMA),
    "scope": "shared",
    "where": "n > 1",
    "let": (Let("m", "n + 1"),),
    "lookups": (Lookup("team", "table", "teams", "key", ("site",), "id"),),
    "having": "count > 1",
    "routes": (Destination("large", where="count > 5"), Destination("small")),
    "revision": "7",
    "events": ("orders",),
    "changes": ("orders",),
    "key": "country",
    "times": Window(60.0),
}
FILE_FIELDS = {
    "topics": ("clicks",),
    "dead_letters": "other.dead",
    "dead_headers": "connect",
    "start": "latest",
    "receive": ("orders",),
    "max_record_bytes": 5,
    "handler": Handler(("shop:enter",)),
    "on_error": OnError(decode="skip"),
    "delivery": "transactional",
    "on_change": "flush",
    "history": "clicks.history",
}
"""Of the file, and of no rule."""
AGGREGATE = {
    "key": "country",
    "count": 11,
    "since_first": 30.0,
    "since_last": 5.0,
    "deadline": DataDeadline("due_at"),
    "until": Until("last", True),
    "compute": (Reducer("n", "count"),),
    "on_timeout": "discard",
    "on_missing": "skip",
    "on_null": "skip",
    "on_full": "stop",
    "max_items": 50,
    "max_bytes": 5,
    "max_groups": 5,
    "max_buffered_bytes": 5,
    "window": Window(300.0),
    "correlation": Correlation(),
    "emit": Emit(every=10.0),
    "table": True,
}
DEADLINE = {"at": "due", "after": "sla", "since": "last", "unit": "ms", "cancel": "due == null"}
CORRELATION = {"remember": 60.0, "late": "skip", "max_keys": 5, "since": "last"}
WINDOW = {
    "size": 600.0,
    "offset": 60.0,
    "time": "at",
    "grace": 30.0,
    "idle": None,
    "at_most": 4000.0,
    "late": "skip",
    "max_ahead": 5.0,
    "kind": "session",
    "every": 60.0,
    "gather": 5.0,
    "keep": 60.0,
    "calendar": "week",
    "zone": "Europe/Vienna",
    "week_starts": "sunday",
    "last": 5,
}
DESTINATION = {
    "topic": "others",
    "format": "raw",
    "schema": Avro(SCHEMA),
    "select": (Selected("key"),),
    "where": "count > 5",
    "goes_on": True,
    "envelope": EventEnvelope("structured", "shop.total"),
}
HANDLER = {
    "functions": ("shop:leave",),
    "session": True,
    "concurrency": 4,
    "attempts": 3,
    "backoff_first": 2.0,
    "backoff_most": 5.0,
    "then": "stop",
    "isolate_after": 2,
    "outages": ("shop.Away",),
    "throttle": Throttle(limit=3),
    "rate_limit": RateLimit(limit=3),
    "priority": "amount",
    "singleton": "customer",
}
DEDUPE = {"by": "key", "name": "other", "horizon": 5.0, "on_missing": "accept", "max_ids": 3}
LOOKUP = {
    "name": "other",
    "kind": "collection",
    "source": "others",
    "key": "message.key",
    "fields": ("site", "name"),
    "column": "name",
    "missing": "dead-letter",
    "lock": True,
}
ON_ERROR = {"decode": "skip", "produce": "stop", "expression": "stop", "stop_above": "5% of 1m"}
AVRO = {"schema": SCHEMA.replace("long", "int"), "writer_schema": SCHEMA, "framing": "confluent", "schema_id": 7}
AVRO |= {"message": "shop.Order", "validate": True, "pinned": "orders-value:3"}
BESIDES = {"writers", "registry", "subject", "register", "kind", "latest"}


def test_the_tables_of_this_test_name_every_field():
    unchanged = {"name", "rekeys", "leg", "unrouted"}  # the name is not a value; the others have tests of their own
    assert {field.name for field in fields(Agent)} - unchanged == {*RULE_FIELDS, *FILE_FIELDS}
    for kind, table in ((Aggregation, AGGREGATE), (Destination, DESTINATION), (Handler, HANDLER), (OnError, ON_ERROR)):
        besides = {
            "converts",
            "hot_groups",
        }  # follows from the rest of the file; says where groups are, not what they are
        assert {field.name for field in fields(kind)} - besides == {*table}
    assert {field.name for field in fields(Deduplication)} == {*DEDUPE}
    assert {field.name for field in fields(Window)} == {*WINDOW, "unit", "origins"}  # origins follow from the file
    assert {field.name for field in fields(Correlation)} == {*CORRELATION}
    assert {field.name for field in fields(DataDeadline)} == {*DEADLINE}
    assert {field.name for field in fields(Lookup)} == {*LOOKUP, "wait", "max_rows", "max_table_bytes"}
    assert {field.name for field in fields(Avro)} == {*AVRO, *BESIDES}


@pytest.mark.parametrize("name", RULE_FIELDS)
def test_a_field_of_the_rule_changes_the_digest(name):
    assert rule_of(replace(PLAIN, **{name: RULE_FIELDS[name]})).digest != rule_of(PLAIN).digest


def test_an_agent_is_given_the_whole_rule_of_another_and_nothing_else():
    assert {*FIELDS} == {*RULE_FIELDS, "unrouted"}  # which is a part of `to`
    other = replace(PLAIN, **RULE_FIELDS, **FILE_FIELDS)
    merged = with_rule(PLAIN, other)
    assert rule_of(merged) == rule_of(other)
    assert replace(merged, **{name: getattr(PLAIN, name) for name in FIELDS}) == PLAIN


@pytest.mark.parametrize("name", FILE_FIELDS)
def test_any_other_field_changes_the_document_and_no_digest(name):
    changed = replace(PLAIN, **{name: FILE_FIELDS[name]})
    assert rule_of(changed) == rule_of(PLAIN)
    assert document(changed) != document(PLAIN)


@pytest.mark.parametrize(
    ("whole", "name", "value"),
    [
        *(
            (lambda aggregation: replace(PLAIN, aggregation=aggregation), name, value)
            for name, value in AGGREGATE.items()
        ),
        *((lambda destination: replace(PLAIN, to=destination), name, value) for name, value in DESTINATION.items()),
        *((lambda schema: replace(PLAIN, schema=schema), name, value) for name, value in AVRO.items()),
        *((lambda dedupe: replace(PLAIN, dedupe=dedupe), name, value) for name, value in DEDUPE.items()),
    ],
)
def test_each_part_of_the_rule_changes_the_digest(whole, name, value):
    usual = {
        Aggregation: PLAIN.aggregation,
        Destination: PLAIN.to,
        Avro: Avro(SCHEMA),
        Deduplication: Deduplication("header", "id"),
    }
    parts = [part for kind, part in usual.items() if name in {f.name for f in fields(kind)} and _fits(whole, kind)]
    [part] = parts
    assert rule_of(whole(replace(part, **{name: value}))).digest != rule_of(whole(part)).digest


@pytest.mark.parametrize("name", LOOKUP)
def test_each_part_of_a_lookup_changes_the_digest(name):
    [usual] = RULE_FIELDS["lookups"]
    changed = replace(PLAIN, lookups=(replace(usual, **{name: LOOKUP[name]}),))
    assert rule_of(changed).digest != rule_of(replace(PLAIN, lookups=(usual,))).digest


@pytest.mark.parametrize("name", WINDOW)
def test_each_part_of_a_window_changes_the_digest(name):
    usual = Window(300.0, late="amend", gather=1.0, keep=1.0) if name in ("gather", "keep") else Window(300.0)
    one, other = (
        replace(PLAIN, aggregation=Aggregation(window=window))
        for window in (usual, replace(usual, **{name: WINDOW[name]}))
    )
    assert rule_of(one).digest != rule_of(other).digest


@pytest.mark.parametrize("name", DEADLINE)
def test_each_part_of_a_deadline_from_the_data_changes_the_digest(name):
    usual = DataDeadline(after="time") if name == "after" else DataDeadline("at")
    windows = (usual, replace(usual, **{name: DEADLINE[name]}))
    one, other = (replace(PLAIN, aggregation=Aggregation(deadline=window)) for window in windows)
    assert rule_of(one).digest != rule_of(other).digest


@pytest.mark.parametrize("name", CORRELATION)
def test_each_part_of_a_correlation_changes_the_digest(name):
    usual = Correlation()
    windows = (usual, replace(usual, **{name: CORRELATION[name]}))
    one, other = (replace(PLAIN, aggregation=Aggregation(correlation=window)) for window in windows)
    assert rule_of(one).digest != rule_of(other).digest


@pytest.mark.parametrize("name", ["size", "idle", "at_most", "max_ahead"])
def test_each_part_of_the_time_of_a_correlation_changes_the_digest(name):
    usual = Window(300.0, kind="correlation")
    windows = (usual, replace(usual, **{name: WINDOW[name]}))
    one, other = (
        replace(PLAIN, aggregation=Aggregation(correlation=Correlation(), window=window)) for window in windows
    )
    assert rule_of(one).digest != rule_of(other).digest


@pytest.mark.parametrize("name", ["time", "idle", "max_ahead"])
def test_the_agent_of_a_leg_has_its_time_in_its_digest(name):
    usual = Window(300.0, kind="correlation")
    one, other = (replace(PLAIN, times=window) for window in (usual, replace(usual, **{name: WINDOW[name]})))
    assert rule_of(one).digest != rule_of(other).digest


def test_how_long_a_record_waits_for_its_row_is_part_of_the_rule():
    [usual] = RULE_FIELDS["lookups"]
    one, other = (replace(PLAIN, lookups=(replace(usual, missing="wait", wait=n),)) for n in (5.0, 6.0))
    assert rule_of(one).digest != rule_of(other).digest


def _fits(whole, kind):
    groups = whole("here")
    place = {"aggregation": Aggregation, "to": Destination, "schema": Avro, "dedupe": Deduplication}
    return any(getattr(groups, name) == "here" and item is kind for name, item in place.items())


@pytest.mark.parametrize(("kind", "table"), [("handler", HANDLER), ("on_error", ON_ERROR)])
def test_each_part_of_what_is_no_rule_changes_the_document(kind, table):
    usual = replace(PLAIN, handler=Handler(("shop:enter",)))
    for name, value in table.items():
        changed = replace(usual, **{kind: replace(getattr(usual, kind), **{name: value})})
        assert document(changed) != document(usual)
        assert rule_of(changed) == rule_of(usual)


def test_the_digest_is_the_sha_256_of_canonical_json_and_what_is_shown_its_beginning():
    rule = rule_of(PLAIN)
    assert rule.document == {"aggregate": {"count": 10}, "to": {"topic": "totals"}}
    assert rule.digest == sha256(b'{"aggregate":{"count":10},"to":{"topic":"totals"}}').hexdigest()
    assert rule.short == rule.digest[:8]


def test_another_version_of_the_program_gives_the_same_digest(tmp_path):
    """A digest lies in results for ever. Only a change of a rule may change it: this value is never adapted."""
    demo, *_ = loaded(tmp_path, text("localhost:9092")).app.agents
    assert rule_of(demo).digest == "ea845defd5488740941ae6bd3c3e7fa7e6257ba0b4fcf42fe089f17bb7b1b29b"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("aggregate: {count: 2, on_timeout: fire, max_groups: 1000000}", "aggregate: {count: 2}"),
        ("aggregate: {timeout: {after: 60s}}", "aggregate: {timeout: {first: 1m}}"),
        ("where: 'n>1&&(m==\"a\")'\naggregate: {count: 2}", 'aggregate: {count: 2}\nwhere: n > 1 && m == "a"'),
        ("let: {b: (a+1)}\naggregate: {count: 2}", "let: {b: a + 1}\naggregate: {count: 2}"),
        ("key: message\naggregate: {count: 2}", "aggregate: {count: 2}\nscope: partition\nformat: json"),
        ("aggregate: {count: 200000, max_items: 200000}", "aggregate: {count: 200000}"),
        ("revision: 7\naggregate: {count: 2}", "revision: '7'\naggregate: {count: 2}"),
    ],
    ids=["defaults", "a timeout", "where", "let", "the order of keys", "max_items", "a revision"],
)
def test_how_a_rule_is_written_changes_no_digest(tmp_path, one, other):
    first, second = (_agent(tmp_path, agent) for agent in (one, other))
    assert rule_of(first) == rule_of(second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("compute: {n: count, m: {sum: a}}", "compute: {m: {sum: a}, n: count}"),
        ("compute: {n: {sum: a}}", "compute: {n: {max: a}}"),
        ("compute: {n: {reduce: 'operator:add'}}", "compute: {n: {reduce: 'operator:mul'}}"),
        ("until: {field: n, equals: 1}", "until: {field: n, equals: true}"),
    ],
)
def test_another_order_or_another_kind_is_another_rule(tmp_path, one, other):
    first, second = (_agent(tmp_path, f"aggregate: {{count: 2, {agent}}}") for agent in (one, other))
    assert rule_of(first).digest != rule_of(second).digest


def test_what_becomes_of_an_unrouted_result_is_part_of_the_rule():
    routed = replace(PLAIN, to=None, routes=(Destination("large", where="count > 5"),))
    assert rule_of(replace(routed, unrouted="drop")).digest != rule_of(routed).digest


def test_the_spaces_and_the_texts_of_a_schema_are_no_part_of_the_rule():
    spoken = SCHEMA.replace('"name": "R",', '"name": "R",  "doc": "What it is.",')
    assert rule_of(replace(PLAIN, schema=Avro(spoken))) == rule_of(replace(PLAIN, schema=Avro(SCHEMA)))


def test_a_default_of_a_schema_is_part_of_the_rule_whatever_its_names_are():
    one, other = (SCHEMA.replace('"long"', f'"long", "default": {{"doc": {number}}}') for number in (1, 2))
    assert rule_of(replace(PLAIN, schema=Avro(one))).digest != rule_of(replace(PLAIN, schema=Avro(other))).digest


def test_a_schema_that_the_program_makes_of_the_computed_fields_is_no_part_of_the_rule():
    bare = replace(PLAIN, to=Destination("totals", "avro"))
    made = replace(bare, to=replace(bare.to, schema=Avro(formats.result_schema(bare))))
    assert rule_of(made) == rule_of(bare)


def test_the_folder_of_the_writers_schemas_is_no_part_of_the_rule():
    one, other = (replace(PLAIN, schema=Avro(SCHEMA, writers=name)) for name in ("/one", "/other"))
    assert rule_of(one) == rule_of(other)
    assert document(one) != document(other)


def test_the_registry_is_no_part_of_the_rule_and_the_subject_is():
    plain = Avro(SCHEMA, framing="confluent")
    one, other = (replace(PLAIN, schema=replace(plain, registry=name)) for name in ("http://one", "http://other"))
    assert rule_of(one) == rule_of(other)
    by = [replace(plain, registry="http://one", subject=name) for name in ("totals-value", "{record}")]
    by.append(replace(by[0], register=True))
    made = [rule_of(replace(PLAIN, to=Destination("totals", "avro", field))).digest for field in by]
    assert len(set(made)) == 3


def test_what_cannot_be_parsed_has_no_rule():
    with pytest.raises(ExpressionError):
        rule_of(replace(PLAIN, where="n >"))


def test_a_document_is_json():
    whole = replace(PLAIN, **{name: value for name, value in (RULE_FIELDS | FILE_FIELDS).items() if name != "to"})
    assert msgspec.json.decode(msgspec.json.encode(document(whole))) == document(whole)


def _agent(tmp_path, rule):
    file = loaded(tmp_path, file_of(f"from: orders\n{rule}\nto: {{topic: totals}}"))
    assert file.problems == ()
    return file.app.agents[0]
