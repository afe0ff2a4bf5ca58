"""`sluicegate asyncapi`: the official schema of AsyncAPI 3.0 takes the document, and what it says of results is true of
those of the engine.

asyncapi-3.0.0.json is `schemas/3.0.0.json` of the package `@asyncapi/specs` 6.11.1 without its white space; its licence
is Apache-2.0, as ours."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from sluicegate.streams.testing.driver import TestDriver

OFFICIAL = jsonschema.Draft7Validator(json.loads(Path(__file__).with_name("asyncapi-3.0.0.json").read_text()))
HEAD = """\
app: shop
kafka: {bootstrap.servers: "one:9092,two:9092", security.protocol: SSL}
store: memory://
dead_letters: shop.dead
agents:
"""
AGENTS = {
    "collect": """\
  baskets:
    from: clicks
    aggregate:
      count: 2
      timeout: {after: 30s, since: first}
      compute: {n: count, sum: {sum: v}, mean: {mean: v}, last: {last: v}, all: {collect: v}, few: {distinct: v}}
    history: ended
    to: {topic: baskets}
""",
    "window": """\
  hours:
    from: clicks
    aggregate: {window: {tumbling: 1h, grace: 1s}, compute: {n: count}}
    to: {topic: hours, select: [key, n, window]}
""",
    "pattern": "  every: {from: [clicks, {pattern: 'clicks-.+'}], to: copies}\n",
    "forward": "  copy: {from: clicks, where: 'v > 1', to: [{topic: large, where: 'v > 9'}, {topic: small}]}\n",
    "handler": "  greet: {from: [clicks, orders], handler: 'greetings:greet', to: {topic: greetings}}\n",
    "event": """\
  events:
    from: clicks
    aggregate: {count: 2}
    to: {topic: events, envelope: {cloudevents: structured, type: shop.basket}}
""",
    "avro": """\
  typed:
    from: orders
    format: avro
    schema: order.avsc
    aggregate: {count: 2, compute: {spent: {sum: amount}, who: {last: name}}}
    to: {topic: sums, format: avro}
""",
    "rekeyed": """\
  people:
    from: clicks
    key: name
    repartition: people.by-name
    aggregate: {count: 2}
    to: {topic: people}
""",
}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "amount", "type": "long"}, {"name": "name", "type": "string"}],
}


def exported(folder: Path, agents: str, *options: str) -> Any:
    (folder / "order.avsc").write_text(json.dumps(ORDER))
    (folder / "greetings.py").write_text("def greet(message, send):\n    pass\n")
    file = folder / "shop.yaml"
    file.write_text(HEAD + agents)
    done = CliRunner().invoke(main, ["asyncapi", str(file), *options])
    assert done.exit_code == 0, done.output
    assert "&id" not in done.stdout
    return json.loads(done.stdout) if "--json" in options else yaml.safe_load(done.stdout)


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [reference for part in value.values() for reference in references(part)]
    return [reference for part in value for reference in references(part)] if isinstance(value, list) else []


def looked_up(document: Any, reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        document = document[part]
    return document


@pytest.mark.parametrize("name", [*AGENTS, "all"])
def test_the_document_is_one_of_asyncapi(tmp_path: Path, name: str) -> None:
    made = exported(tmp_path, "".join(AGENTS.values()) if name == "all" else AGENTS[name])
    assert [error.message for error in OFFICIAL.iter_errors(made)] == []
    assert all(looked_up(made, reference) for reference in references(made))


def test_the_official_schema_finds_a_document_that_is_none(tmp_path: Path) -> None:
    """The twin."""
    made = exported(tmp_path, AGENTS["collect"])
    made["operations"]["baskets.receive.clicks"]["action"] = "publish"
    assert not OFFICIAL.is_valid(made)


def test_every_topic_is_a_channel_and_every_use_of_it_an_operation(tmp_path: Path) -> None:
    made = exported(tmp_path, AGENTS["collect"] + AGENTS["handler"], "--json", "--app-version", "1.4.0")
    assert made["info"] == {"title": "shop", "version": "1.4.0"}
    assert [server["host"] for server in made["servers"].values()] == ["one:9092", "two:9092"]
    assert {server["protocol"] for server in made["servers"].values()} == {"kafka-secure"}
    assert made["channels"].keys() == {"clicks", "orders", "baskets", "greetings", "shop.dead", "ended"}
    uses = {(name, operation["action"]) for name, operation in made["operations"].items()}
    assert uses >= {
        ("baskets.receive.clicks", "receive"),
        ("baskets.send.baskets", "send"),
        ("greet.receive.orders", "receive"),
    }
    groups = made["operations"]["greet.receive.orders"]["bindings"]["kafka"]["groupId"]["enum"]
    assert groups == ["shop.greet"]


SCHEDULES = """\
schedules:
  nightly: {every: "0 2 * * *", topic: clicks, key: all, value: {v: 0}}
  minutely: {every: 60s, topic: ticks}
"""


def test_each_schedule_is_an_operation_with_its_message(tmp_path: Path) -> None:
    made = exported(tmp_path, AGENTS["forward"] + SCHEDULES, "--json")
    assert [error.message for error in OFFICIAL.iter_errors(made)] == []
    nightly = made["operations"]["schedules.nightly"]
    assert (nightly["action"], nightly["channel"]) == ("send", {"$ref": "#/channels/clicks"})
    message = made["components"]["messages"]["schedules.nightly"]
    assert message["summary"] == "Sent at each time of 0 2 * * *"
    assert message["payload"] == {"const": {"v": 0}}
    assert message["bindings"]["kafka"]["key"] == {"const": "all"}
    assert made["channels"]["clicks"]["messages"].keys() == {"copy.receive.clicks", "schedules.nightly"}
    assert "bindings" not in made["components"]["messages"]["schedules.minutely"]


def payload(made: Any, name: str) -> Any:
    return made["components"]["messages"][name]["payload"]


@pytest.mark.parametrize(("agents", "topic"), [("collect", "baskets"), ("window", "hours"), ("event", "events")])
def test_the_engine_writes_what_the_schema_says(tmp_path: Path, agents: str, topic: str) -> None:
    made = exported(tmp_path, AGENTS[agents])
    [name] = made["channels"][topic]["messages"]
    schema = payload(made, name)
    (tmp_path / "shop.yaml").write_text(HEAD.replace(", security.protocol: SSL", "") + AGENTS[agents])
    driver = TestDriver(str(tmp_path / "shop.yaml"))
    for value in (3, 4.5):
        driver.send("clicks", {"v": value}, key="k")
    driver.advance("3h")
    [message, *_] = driver.read(topic)
    jsonschema.Draft7Validator(schema).validate(message.value)
    assert message.value.keys() <= schema["properties"].keys()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate([message.value])


def test_an_avro_output_has_its_avro_schema(tmp_path: Path) -> None:
    made = exported(tmp_path, AGENTS["avro"])
    assert payload(made, "typed.receive.orders")["schema"] == ORDER
    fields = {field["name"] for field in payload(made, "typed.send.sums")["schema"]["fields"]}
    assert {"count", "spent", "who"} <= fields
