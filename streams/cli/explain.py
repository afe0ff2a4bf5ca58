"""`sluicegate explain`: which input records stand behind one output."""

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sluicegate.streams.cli.changing import store_of
from sluicegate.streams.cli.outcome import DONE, ending
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.agent import Agent, App
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.contracts.values import Partition
    from sluicegate.streams.operations.explaining import Explained, ExplainedOutput

OutputIdArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="The output's `sluicegate-id`, or its `sluicegate-fire`.", show_default=False),
]
LookBackLimit = Annotated[
    int, typer.Option("--limit", min=1, help="Look at the newest so many records of each partition of outputs.")
]
NEWEST = 100_000
MOST = 1_000_000  # records of the input that are read, or whose fire ids are tried


class Found(NamedTuple):
    """The agent, and its output: what its headers say, or what can be told from the fire id alone (`place` is empty
    then)."""

    agent: "Agent"
    output: "ExplainedOutput"


@ending
def explain(file: FileArgument, id: OutputIdArgument, limit: LookBackLimit = NEWEST, json: AsJson = False) -> int:
    """The exact input offsets behind one result, message of a handler, or dead letter; claims nothing."""
    from sluicegate.streams.cli.files import loaded
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.cli.output import print_json

    app = loaded(file)
    topics = BrokerTopics(app)
    found = _output(app, topics, id, limit) or _from_inputs(app, topics, id, "")
    if found is None:
        raise ConfigurationError(
            f"no output has the id {id} among the newest {limit} records of each partition of the agents' outputs "
            "and dead letters, and it "
            "is the fire id of no record that the inputs still hold: retention took it, or another app wrote it"
        )
    made = _explained(app, topics, found)
    document = _document(found.output, made)
    if json:
        print_json(document)
        return DONE
    _print(document, made)
    return DONE


def _output(app: "App", topics: "BrokerTopics", id: str, limit: int) -> Found | None:
    """By the headers of what was sent."""
    from sluicegate.streams.cli.topics import written
    from sluicegate.streams.operations.explaining import output

    records, _ = topics.newest(written(app.agents), limit)
    found = output(records, id)
    agent = next((each for each in app.agents if found is not None and each.name == found.agent), None)
    if found is None or agent is None:
        return None
    return (
        Found(agent, found) if found.span else _from_inputs(app, topics, found.fire, found.place) or Found(agent, found)
    )


def _from_inputs(app: "App", topics: "BrokerTopics", fire: str, place: str) -> Found | None:
    """By trying the fire ids of what the inputs hold."""
    from sluicegate.streams.operations.explaining import ExplainedOutput, OffsetSpan, first_of

    for agent, partition, topic_id in _identified(app):
        source = partition.topic, partition.number
        low, high = topics.bounds([source])[source]
        first = first_of(fire, partition, topic_id, max(low, high - MOST), high)
        if first is not None:
            last = None if agent.aggregation is not None else first
            counted = None if last is None else 1
            return Found(
                agent, ExplainedOutput(place, "", fire, agent.name, "", counted, None, OffsetSpan(source, first, last))
            )
    return None


def _identified(app: "App") -> "list[tuple[Agent, Partition, str]]":
    """Each partition that was ever claimed, with what its ids are made of, and were."""
    from msgspec.structs import replace

    with store_of(app) as store:
        return [
            (agent, partition, replace(view.claim.source, era=era).name)
            for agent in app.agents
            for partition in store.partitions(app.name)
            if partition.agent == agent.name
            and (view := store.read(partition)) is not None
            and view.claim.source is not None
            for era in range(view.claim.source.era, -1, -1)
        ]


def _explained(app: "App", topics: "BrokerTopics", found: Found) -> "Explained":
    from sluicegate.streams.operations.explaining import Explained, explained, looks_back

    span = found.output.span
    if span is None:
        return Explained(
            [], ["it says nothing of its input, and it is the fire id of no record that the inputs still hold"]
        )
    if span.last is None:
        return Explained(
            [span.first], ["a handler of completed groups sent it, so only the group's first record can be told"]
        )
    if found.agent.scope == "shared":
        return Explained(
            [span.first], ["its records may be in any partition (scope: shared), so only the group's first can be told"]
        )
    low, high = topics.bounds([span.source])[span.source]
    begin = max(span.first, low)
    end = min(span.last + 1, high, begin + MOST)
    before = max(low, begin - MOST) if looks_back(found.agent) else begin
    made = explained(app.name, found.agent, found.output, span, topics.read({span.source: (before, end)}), low)
    cut = [f"only {MOST} records were read, up to offset {end - 1}"] if end == begin + MOST <= span.last else []
    return made._replace(notes=[*made.notes, *cut])


def _document(found: "ExplainedOutput", made: "Explained") -> dict[str, object]:
    (topic, number), first, last = found.span or ((None, None), None, None)
    says = {
        "id": found.id,
        "fire": found.fire,
        "agent": found.agent,
        "output": found.place,
        "reason": found.reason,
        "count": found.counted,
    }
    where = {"topic": topic, "partition": number, "first": first, "last": last}
    return (
        {name: value or None for name, value in says.items()}
        | where
        | {"offsets": made.offsets, "complete": not made.notes, "notes": made.notes}
    )


def _print(document: dict[str, object], made: "Explained") -> None:
    from sluicegate.streams.cli.outcome import complain
    from sluicegate.streams.cli.output import print_table
    from sluicegate.streams.wording import counted

    rows = [
        [name, str(value)]
        for name, value in document.items()
        if name not in ("offsets", "notes", "complete") and value is not None
    ]
    print_table(("field", "value"), rows)
    print(
        f"{counted(len(made.offsets), 'record')} of {document['topic']}/{document['partition']}: "
        f"{' '.join(map(str, made.offsets))}"
    )
    for note in made.notes:
        complain(f"sluicegate: {note}")
