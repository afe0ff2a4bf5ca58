"""Which topics a file needs, and how many partitions each should have."""

import json

from typer.testing import CliRunner

from sluicegate.streams.agent import Agent, Aggregation, App, Destination
from sluicegate.streams.cli import main
from sluicegate.streams.cli.topics import copartitioned, needed, planned
from tests.unit.cli.files import written


def agent(name, topics, to, dead="dead"):
    return Agent(name, tuple(topics), Aggregation(count=2), Destination(to), dead)


APP = App(
    "app",
    "memory://",
    (agent("b", ["mid"], "out"), agent("a", ["one", "two"], "mid", "a.dead")),
    {"bootstrap.servers": "x"},
)


def test_every_topic_is_needed_once_with_all_its_uses():
    assert [(need.topic, need.roles) for need in needed(APP)] == [
        ("mid", (("input", "b"), ("output", "a"))),
        ("out", (("output", "b"),)),
        ("dead", (("dead letters", "b"),)),
        ("one", (("input", "a"),)),
        ("two", (("input", "a"),)),
        ("a.dead", (("dead letters", "a"),)),
    ]


def test_what_is_written_gets_as_many_partitions_as_the_largest_input_through_a_whole_chain():
    there = dict.fromkeys(["mid", "out", "dead", "two", "a.dead"]) | {"one": 12}
    assert planned(APP, there, 4) == {"one": 12, "two": 4, "mid": 12, "out": 12, "dead": 12, "a.dead": 12}


def test_what_is_there_keeps_its_partitions():
    there = dict.fromkeys(["one", "two", "dead", "a.dead"]) | {"mid": 3, "out": 1}
    assert planned(APP, there, 4) == {"one": 4, "two": 4, "mid": 3, "out": 1, "dead": 3, "a.dead": 4}


def test_a_circle_of_agents_is_planned_too():
    circle = App("app", "memory://", (agent("a", ["x"], "y"), agent("b", ["y"], "x")), {})
    assert planned(circle, dict.fromkeys(["x", "y", "dead"]), 4) == {"x": 4, "y": 4, "dead": 4}


def test_co_partitioning_is_said_of_agents_with_several_inputs():
    assert copartitioned(APP, {"one": 4, "two": 4, "mid": 1}) == {"a": True}
    assert copartitioned(APP, {"one": 4, "two": 3, "mid": 1}) == {"a": False}


def test_the_embedded_broker_needs_nothing_made_before(tmp_path):
    result = CliRunner().invoke(main, ["topics", written(tmp_path, "embedded"), "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert [t["topic"] for t in document["topics"]] == [
        "orders",
        "refunds",
        "totals",
        "shop.dead",
        "alerts",
        "alerts.dead",
    ]
