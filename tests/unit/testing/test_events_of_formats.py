"""CloudEvents with data in Avro, Protobuf and JSON Schema, in both modes."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from sluicegate.schemas import codec
from sluicegate.schemas.options import SchemaOptions
from sluicegate.streams.config.loading import load
from sluicegate.streams.testing.driver import TestDriver
from tests.pairs import schemas
from tests.unit.testing.files import crashed, played

ORDER = {
    "avro": "format: avro, schema: order.avsc",
    "protobuf": "format: protobuf, schema: order.desc, message: Order",
    "json-schema": "format: json-schema, schema: order.json, validate: true",
}
RESULT = {name: text.replace("order", "result").replace("Order", "Result") for name, text in ORDER.items()}
HEAD = """\
app: shop
kafka: {bootstrap.servers: "${BROKER}"}
store: memory://
dead_letters: dead
agents:
AGENTS
tests:
  it:
"""
EVENTS = "from: {topic: in, envelope: cloudevents}, "
ATTRIBUTES = {"specversion": "1.0", "source": "/shop", "type": "order"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schemas.write(tmp_path)
    return tmp_path


def sent(mode: str, id: str, amount: float, topic: str = "in") -> str:
    """A step that sends an event."""
    data = {"id": id, "amount": amount, "at": 1, "status": "open"}
    if mode == "binary":
        headers = {f"ce_{name}": text for name, text in {**ATTRIBUTES, "id": id}.items()}
        step = {"topic": topic, "key": "k", "headers": headers, "value": data}
    else:
        headers = {"content-type": "application/cloudevents+json"}
        step = {"topic": topic, "key": "k", "headers": headers, "value": {**ATTRIBUTES, "id": id, "data": data}}
    return f"- send: {json.dumps(step)}\n"


def head(*agents: str) -> str:
    return HEAD.replace("AGENTS", "\n".join(f"  agent{number}: {{{agent}}}" for number, agent in enumerate(agents)))


def passes(folder: Path, file: str, steps: str) -> None:
    """With a death at every place where the data is Avro; the other formats differ in the codec alone."""
    steps += "- expect_nothing: dead\n"
    if "avro" not in file:
        failure = played(folder, steps, file)
    else:
        verdict = crashed(folder, steps, file)
        assert verdict.deaths > 5 or verdict.failure is not None
        failure = verdict.failure
    assert failure is None, failure.text


def driver(folder: Path, file: str) -> TestDriver:
    (folder / "app.yaml").write_text(file.partition("tests:")[0].replace("${BROKER}", "embedded"))
    outcome = load(folder / "app.yaml", {})
    assert outcome.app is not None, [str(problem) for problem in outcome.problems]
    return TestDriver(outcome.app)


@pytest.mark.parametrize("form", ORDER)
def test_both_modes_have_one_form_and_a_result_is_an_event_that_can_be_read(form: str, folder: Path) -> None:
    sums = (
        f"{EVENTS}{ORDER[form]}, where: type == 'order' && data.amount > 0, key: data.id, dedupe: {{id: id}},"
        " aggregate: {count: 1, compute: {spent: {sum: data.amount}, id: {last: id}}},"
        f" to: {{topic: out, {RESULT[form]}, envelope: {{cloudevents: structured, type: sum}}}}"
    )
    again = (
        f"from: {{topic: out, envelope: cloudevents}}, {RESULT[form]}, key: type,"
        " aggregate: {count: 2, compute: {amounts: {collect: data.spent}}}, to: {topic: twice}"
    )
    steps = sent("binary", "a", 2.5) * 2 + sent("structured", "b", 1) + sent("binary", "c", 0)
    steps += "- expect: {topic: out, key: a, value: {type: sum, data: {spent: 2.5, id: a}}}\n"
    steps += "- expect: {topic: out, key: b, value: {type: sum, data: {spent: 1, id: b}}}\n"
    passes(folder, head(sums, again), f"{steps}- expect: {{topic: twice, key: sum, value: {{amounts: [2.5, 1]}}}}\n")


@pytest.mark.parametrize(
    ("form", "window"), [*((form, "") for form in ORDER), ("protobuf", "window: {tumbling: 1m}, ")]
)
def test_events_are_re_keyed(form: str, window: str, folder: Path) -> None:
    agent = (
        f"{EVENTS}{ORDER[form]}, key: data.id, repartition: by-id,"
        f" aggregate: {{{window}compute: {{spent: {{sum: data.amount}}, kept: collect}}, count: 2}}, to: {{topic: out}}"
    )
    steps = sent("binary", "a", 2.5) + sent("binary", "b", 7) + sent("structured", "a", 1)
    kept = "[{id: a, type: order, data: {amount: 2.5}}, {id: a, data: {amount: 1}}]"
    passes(folder, head(agent), f"{steps}- expect: {{topic: out, key: a, value: {{spent: 3.5, kept: {kept}}}}}\n")


@pytest.mark.parametrize("form", ORDER)
def test_legs_of_a_correlation_may_be_events_of_a_format(form: str, folder: Path) -> None:
    payment = f"{{from: {{topic: payments, envelope: cloudevents}}, {ORDER[form]}, key: data.id}}"
    agent = f"correlate: {{legs: {{order: orders, payment: {payment}}}, timeout: 5s}}, to: {{topic: out}}"
    steps = "- send: {topic: orders, key: a, value: {total: 3}}\n" + sent("binary", "a", 2.5, "payments")
    value = "{order: {total: 3}, payment: {id: a, type: order, data: {amount: 2.5, status: open}}}"
    passes(folder, head(agent), f"{steps}- expect: {{topic: out, key: a, value: {value}}}\n")


@pytest.mark.parametrize("form", ORDER)
def test_a_forwarder_reads_the_data_and_passes_the_event_on(form: str, folder: Path) -> None:
    agent = f"{EVENTS}{ORDER[form]}, key: data.id, where: data.amount > 1, to: {{topic: out}}"
    steps = sent("binary", "a", 2.5) + sent("binary", "b", 1) + sent("structured", "c", 3)
    passes(
        folder,
        head(agent),
        f"{steps}- expect: {{topic: out, key: a, value: {{id: a, type: order, data: {{amount: 2.5}}}}}}\n"
        "- expect: {topic: out, key: c, value: {id: c, type: order, data: {amount: 3}}}\n",
    )


@pytest.mark.parametrize("form", ORDER)
def test_a_handler_gets_the_event_with_its_data(form: str, folder: Path) -> None:
    agent = f"{EVENTS}{ORDER[form]}, handler: tests.pairs.functions:take, to: {{topic: out}}"
    passes(folder, head(agent), sent("binary", "a", 2.5) + "- expect: {topic: out, key: k, value: {id: a}}\n")


def test_an_event_that_goes_on_has_the_bytes_of_its_data(folder: Path) -> None:
    made = driver(folder, head(f"{EVENTS}{ORDER['avro']}, to: {{topic: out}}"))
    data = codec("avro", SchemaOptions((folder / "order.avsc").read_text())).encode(
        {"id": "a", "amount": 1.0, "at": 2, "status": "open"}
    )
    headers = {f"ce_{name}": text for name, text in {**ATTRIBUTES, "id": "a"}.items()}
    made.send("in", data, key="k", headers={**headers, "content-type": "application/avro"})
    [output] = made.read("out")
    event = json.loads(output.raw or b"")
    assert b64decode(event.pop("data_base64")) == data
    assert event == {**ATTRIBUTES, "id": "a", "datacontenttype": "application/avro"}


@pytest.mark.parametrize("form", ORDER)
def test_data_that_cannot_be_decoded_is_a_dead_letter_that_has_it(form: str, folder: Path) -> None:
    made = driver(folder, head(f"{EVENTS}{ORDER[form]}, key: data.id, aggregate: {{count: 1}}, to: {{topic: out}}"))
    headers = {f"ce_{name}": text for name, text in {**ATTRIBUTES, "id": "a"}.items()}
    made.send("in", b"\x00\x01{", key="k", headers=headers)
    [letter] = made.read("dead")
    assert letter.reason == "undecodable"
    assert b64decode(json.loads(letter.raw or b"")["data_base64"]) == b"\x00\x01{"


def test_inline_json_is_no_avro(folder: Path) -> None:
    made = driver(folder, head(f"{EVENTS}{ORDER['avro']}, key: data.id, aggregate: {{count: 1}}, to: {{topic: out}}"))
    event = json.dumps({**ATTRIBUTES, "id": "a", "data": {"id": "a"}}).encode()
    made.send("in", event, key="k", headers={"content-type": "application/cloudevents+json"})
    [letter] = made.read("dead")
    assert letter.reason == "undecodable"
    assert letter.headers["sluicegate-dead-error"] == "is a CloudEvent with data in JSON, not with avro in data_base64"
    assert letter.raw == event


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (
            "from: [{topic: in, envelope: cloudevents}, other], format: avro, schema: order.avsc, to: {topic: out}",
            "has topics with an envelope and others without, and format: avro reads one kind only",
        ),
        (
            f"{EVENTS}format: raw, to: {{topic: out}}",
            "has an envelope, so its records have fields, but raw records have none",
        ),
        (f"{EVENTS}{ORDER['avro']}, where: data.amont > 1, to: {{topic: out}}", "no field amont in data"),
        (f"{EVENTS}{ORDER['protobuf']}, where: data.amont > 1, to: {{topic: out}}", "no field amont in data"),
    ],
)
def test_what_check_says(agent: str, problem: str, folder: Path) -> None:
    (folder / "app.yaml").write_text(head(agent).partition("tests:")[0].replace("${BROKER}", "embedded"))
    file = load(folder / "app.yaml", {})
    assert problem in "\n".join(problem.message for problem in file.problems), file.problems


def test_an_avro_schema_that_is_made_has_the_types_of_the_data(folder: Path) -> None:
    made = driver(
        folder,
        head(
            f"{EVENTS}{ORDER['avro']}, aggregate: {{count: 1, compute: {{most: {{max: data.amount}},"
            " at: {last: data.at}, who: {last: id}}}, to: {topic: out, format: avro}"
        ),
    )
    [to] = made.app.agents[0].outputs
    assert to.schema is not None
    types = {field["name"]: field["type"] for field in json.loads(to.schema.schema)["fields"]}
    assert types["most"] == ["null", "double"]
    assert types["at"] == ["null", "long"]
    assert types["who"] == ["null", {"type": "string", "contentMediaType": "application/json"}]
