"""Agents in the store have the names that every build reads."""

import json

import msgspec

from sluicegate.schemas import Avro
from sluicegate.streams.agent import Agent, Aggregation, Destination
from sluicegate.streams.rules.stored import agent_of, agent_text
from sluicegate.streams.rules.versions import Deployed, RuleVersion
from sluicegate.streams.versions import catalogue

SCHEMA = '{"type": "record", "name": "R", "fields": []}'
ROUTE = Destination("b", "avro", Avro(SCHEMA), where="count > 1")
AGENT = Agent("a", ("in",), Aggregation(count=2), Destination("out", "avro", Avro(SCHEMA)), "dead", schema=Avro(SCHEMA))
ROUTED = Agent("a", ("in",), Aggregation(count=2), None, "dead", routes=(ROUTE, Destination("c")), schema=Avro(SCHEMA))


def test_an_agent_is_read_as_it_was_written_and_its_schemas_are_called_avro() -> None:
    for agent in (AGENT, ROUTED):
        text = agent_text(agent)
        assert agent_of(text) == agent
        tree = json.loads(text)
        for part in (tree, *filter(None, [tree["to"]]), *tree["routes"]):
            assert "schema" not in part
            assert "avro" in part
        assert tree["avro"]["schema"] == SCHEMA


def test_the_text_is_that_of_the_dataclass_but_for_the_name() -> None:
    """The order of fields is that of the dataclass, so a version that was stored before has the same bytes."""
    bare = Agent("a", ("in",), None, Destination("out"), "dead")
    assert agent_text(bare).replace('"avro":', '"schema":').encode() == msgspec.json.encode(bare)


def test_the_catalogue_keeps_them_so() -> None:
    version = RuleVersion(1, "d", "finish", 1.5, "anne", "why", ROUTED)
    known = {"a": Deployed((version, RuleVersion(2, "e", "drop", 2.0, "bob", "", None)))}
    assert catalogue._unpacked(catalogue._packed(known)) == known
