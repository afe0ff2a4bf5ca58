"""`sluicegate explain`: the input records of one output."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.changing import AgentAndId, named
from sluicegate.streams.cli.opening.files import agent_of, loaded, shared_store
from sluicegate.streams.cli.terminal.outcome import DONE, complain
from sluicegate.streams.cli.terminal.output import print_json, print_table, print_text
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.contracts.mac import Mac
    from sluicegate.streams.contracts.values import Partition
    from sluicegate.streams.operations.explaining import Explained, ExplainedOutput, OffsetSpan
    from sluicegate.streams.reading.proof import HeaderProof

LookBackLimit = Annotated[
    int, typer.Option(min=1, help="Read at most this many of the newest records of each partition of outputs.")
]
NEWEST = 100_000
MOST = 1_000_000  # input records that are read, or whose fire ids are computed
UNPROVEN = "the output has no proof of the app: another program may have written it, or an earlier release"


class AgentOutput(NamedTuple):
    """An agent and its output. `place` is empty when only the fire id is known."""

    agent: Agent
    output: "ExplainedOutput"


def explain(file: FileArgument, words: AgentAndId, limit: LookBackLimit = NEWEST, json: AsJson = False) -> int:
    """Show the input offsets of one result, message of a handler, or dead letter. Reads only.

    The id is the `sluicegate-id` of the output, or its `sluicegate-fire`.
    """
    from sluicegate.streams.cli.letters import BrokerTopics

    (name, id), app = named(words), loaded(file)
    if name is not None:
        app = replace(app, agents=(agent_of(app, name),))
    topics = BrokerTopics(app)
    mac = _keys(app)
    match = _output(app, topics, id, limit, mac) or _from_inputs(app, topics, id, "")
    if match is None:
        raise ConfigurationError(
            f"no output has the id {id} among the newest {limit} records of each partition of the agents' outputs "
            "and dead letters, and it is the fire id of no record that the inputs still hold: retention took it, or "
            "another app wrote it"
        )
    explanation = _by_span(app, topics, match, mac)
    if not match.output.proven:
        explanation = explanation._replace(notes=[UNPROVEN, *explanation.notes])
    document = _document(match.output, explanation)
    print_json(document) if json else _print(document, explanation)
    return DONE


def _keys(app: App) -> "Mac | None":
    from sluicegate.streams.versions import mac_keys

    if app.store.startswith("memory:"):
        return None
    with shared_store(app) as store:
        return mac_keys.read(store, app.name)


def _output(app: App, topics: "BrokerTopics", id: str, limit: int, mac: "Mac | None") -> AgentOutput | None:
    """Search the headers of the outputs."""
    from sluicegate.streams.cli.topics import written
    from sluicegate.streams.operations.explaining import handler_message, output

    records, _ = topics.newest(written(app.agents), limit)
    result = output(records, id, mac)
    if result is None:
        return None
    agent = next((agent for agent in app.agents if agent.name == result.agent), None)
    if agent is None:
        return None
    if result.span is None and agent.history and agent.aggregation is not None:
        result = handler_message(result, topics.newest([agent.history], limit)[0], mac)
    by_fire = None if result.span else _from_inputs(app, topics, result.fire, result.place)
    return (
        by_fire._replace(output=by_fire.output._replace(proven=result.proven))
        if by_fire
        else AgentOutput(agent, result)
    )


def _from_inputs(app: App, topics: "BrokerTopics", fire: str, place: str) -> AgentOutput | None:
    """Searches by computing the fire ids of the records in the inputs."""
    from sluicegate.streams.operations.explaining import ExplainedOutput, OffsetSpan, first_of

    for agent, partition, topic_id in _identified(app):
        source = partition.topic, partition.number
        low, high = topics.bounds([source])[source]
        first = first_of(fire, partition, topic_id, max(low, high - MOST), high)
        if first is not None:
            grouped = agent.aggregation is not None
            span = OffsetSpan(source, first, None if grouped else first)
            count = None if grouped else 1
            return AgentOutput(agent, ExplainedOutput(place, "", fire, agent.name, "", count, None, span))
    return None


def _identified(app: App) -> "list[tuple[Agent, Partition, str]]":
    """Each partition that was ever claimed, with the topic id in its fire ids; once for each era."""
    from msgspec.structs import replace

    with shared_store(app) as store:
        return [
            (agent, partition, replace(view.claim.source, era=era).name)
            for agent in app.agents
            for partition in store.partitions(app.name)
            if partition.agent == agent.name
            and (view := store.read(partition)) is not None
            and view.claim.source is not None
            for era in range(view.claim.source.era, -1, -1)
        ]


def _by_span(app: App, topics: "BrokerTopics", match: AgentOutput, mac: "Mac | None") -> "Explained":
    from sluicegate.streams.operations.explaining import Explained, explained, looks_back

    span = match.output.span
    if span is None:
        note = "its headers do not name its input, and its fire id belongs to no record that the inputs still have"
        return Explained([], [note])
    if span.last is None:
        note = "a handler of completed groups sent it, so only the group's first record can be told"
        return Explained([span.first], [note])
    if match.agent.scope == "shared":
        note = "its records may be in any partition (scope: shared), so only the group's first can be told"
        return Explained([span.first], [note])
    low, high = topics.bounds([span.source])[span.source]
    begin = max(span.first, low)
    end = min(span.last + 1, high, begin + MOST)
    before = max(low, begin - MOST) if looks_back(match.agent) else begin
    records, proof = topics.read({span.source: (before, end)}), _proof(app, match.agent, span, mac)
    explanation = explained(app.name, match.agent, match.output, span, records, low, proof)
    cut = [f"only {MOST} records were read, up to offset {end - 1}"] if end == begin + MOST <= span.last else []
    return explanation._replace(notes=[*explanation.notes, *cut])


def _proof(app: App, agent: Agent, span: "OffsetSpan", mac: "Mac | None") -> "HeaderProof":
    """The proof under which the worker of the partition believes records."""
    from sluicegate.streams.contracts.values import Partition
    from sluicegate.streams.operations.proofs import row_proof
    from sluicegate.streams.reading.proof import HeaderProof

    if mac is None:
        return HeaderProof()
    with shared_store(app) as store:
        return row_proof(store, mac, Partition(app.name, agent.name, *span.source))


def _document(output: "ExplainedOutput", explanation: "Explained") -> dict[str, object]:
    (topic, number), first, last = output.span or ((None, None), None, None)
    return {
        "id": output.id or None,
        "fire": output.fire or None,
        "agent": output.agent or None,
        "output": output.place or None,
        "reason": output.reason or None,
        "count": output.counted or None,
        "topic": topic,
        "partition": number,
        "first": first,
        "last": last,
        "offsets": explanation.offsets,
        "left_out": explanation.left_out,
        "complete": not explanation.notes,
        "notes": explanation.notes,
    }


def _print(document: dict[str, object], explanation: "Explained") -> None:
    lists = ("offsets", "left_out", "notes", "complete")
    print_table(("field", "value"), [item for item in document.items() if item[0] not in lists and item[1] is not None])
    place = f"{document['topic']}/{document['partition']}"
    print_text(f"{counted(len(explanation.offsets), 'record')} of {place}: {' '.join(map(str, explanation.offsets))}")
    if explanation.left_out is not None:
        print(f"{counted(explanation.left_out, 'record')} of this key left out by where between the first and the last")
    for note in explanation.notes:
        complain(f"sluicegate: {note}")
