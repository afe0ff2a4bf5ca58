"""`sluicegate accept-gap`: lets partitions that halted at a gap go on after it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.changing import AgentName, By, Why, Yes, confirm, opened, person
from sluicegate.streams.cli.terminal.outcome import DONE, USAGE, complain
from sluicegate.streams.cli.terminal.output import print_json, print_text
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.topic_names import reads, topics

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.contracts.values import Partition
    from sluicegate.streams.operations.accepting import Gap, Look, Reported

Places = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC/PARTITION", help="The partitions that halted; or --all.")
]

Truncated = Annotated[
    bool, typer.Option("--truncated", help="It halted with log-truncated, and no other gap is found.")
]
To = Annotated[int, typer.Option("--to", metavar="OFFSET", help="It halted with unfetchable: go on at this offset.")]
NO_GAP = "has no gap (any more), so there is nothing to accept; its worker looks again"


class Chosen(NamedTuple):
    """A partition and its gap. `look` asks Kafka for the facts of the partition."""

    name: str
    partition: "Partition"
    look: "Look"
    gap: "Gap"


def accept_gap(
    file: FileArgument,
    agent_name: AgentName,
    places: Places = None,
    all: Annotated[bool, typer.Option("--all", help="Every partition of the agent that has a gap.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Drop what cannot be kept; it is named first.")] = False,
    truncated: Truncated = False,
    to: To = -1,
    yes: Yes = False,
    why: Why = "",
    by: By = "",
    json: AsJson = False,
) -> int:
    """Let partitions continue that halted because records or data of the store are lost."""
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.operations import accepting

    reported = accepting.Reported(truncated, to)
    if bool(places) == all or (all and reported != accepting.NOTHING):
        raise ConfigurationError("name the partitions, or write --all, which does not go with --truncated and --to")
    with opened(file, agent_name) as (app, agent, store):
        named = dict.fromkeys(_place(agent, text) for text in places or ())
        wanted = list(named) if places else BrokerTopics(app).places(agent.topics)
        chosen, lacking = _look(app, agent, store, wanted, reported)
        if all and not chosen:
            raise ConfigurationError(f"no partition of agent {agent_name} has a gap, so there is nothing to accept")
        _ask(chosen, forget, yes)
        done = []
        for name, partition, look, gap in chosen:
            accepted = accepting.accept(store, agent, partition, look, person(why, by), forget, reported) or gap
            done.append(_document(name, accepted))
            if not json:
                print_text(f"{name}: {accepted.error.code} is accepted: {accepted.text}")
        for name, partition in [] if all else lacking:
            accepting.reclaim(store, partition, person(why, by))
            complain(f"sluicegate: {name} {NO_GAP}")
    if json:
        print_json({"accepted": done})
    return USAGE if lacking and not all else DONE


def _look(
    app: App, agent: Agent, store: "Store", wanted: Sequence[tuple[str, int]], reported: "Reported"
) -> "tuple[list[Chosen], list[tuple[str, Partition]]]":
    """The partitions with a gap, and the partitions without one. Raises ConfigurationError for a gap that cannot be
    accepted."""
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.contracts.values import Partition
    from sluicegate.streams.operations import accepting

    topics, group = BrokerTopics(app), f"{app.name}.{agent.name}"
    chosen, lacking = [], []
    for topic, number in wanted:
        name, partition = f"{topic}/{number}", Partition(app.name, agent.name, topic, number)
        look = partial(topics.facts, group, topic, number)
        with _naming(name):
            gap = accepting.preview(store, agent, partition, look, reported)
        if gap is None:
            lacking.append((name, partition))
        else:
            chosen.append(Chosen(name, partition, look, gap))
    return chosen, lacking


def _ask(chosen: Sequence[Chosen], forget: bool, yes: bool) -> None:
    """Raises ConfigurationError unless the operator accepts every gap."""
    from sluicegate.streams.operations import accepting

    for choice in chosen:
        with _naming(choice.name):
            accepting.insist(choice.gap, forget)
    if chosen:
        listed = "; ".join(
            f"{choice.name}: {choice.gap.error.code}: {choice.gap.error}; {choice.gap.text}" for choice in chosen
        )
        confirm(f"{listed}. Accept that?", yes)


@contextmanager
def _naming(partition: str) -> Iterator[None]:
    """Puts the partition's name in front of a ConfigurationError."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{partition}: {error}") from None


def _place(agent: Agent, text: str) -> tuple[str, int]:
    """Raises ConfigurationError for a partition that the agent does not read."""
    topic, _, number = text.rpartition("/")
    if not reads(agent.topics, topic) or not number.isdigit():
        example = (topics(agent.topics) or ["TOPIC"])[0]
        raise ConfigurationError(f"{text} is not a partition that agent {agent.name} reads; write {example}/0")
    return topic, int(number)


def _document(place: str, gap: "Gap") -> dict[str, object]:
    groups, items = gap.forgets[:2]
    return {
        "place": place,
        "code": gap.error.code,
        "error": str(gap.error),
        "offset": gap.offset,
        "era": gap.era,
        "groups_forgotten": None if gap.unreadable else len(groups),
        "items_forgotten": None if gap.unreadable else len(items),
    }
