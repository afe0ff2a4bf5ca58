"""`sluicegate accept-gap`: a partition that halted at a gap goes on behind it."""

from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.changing import AgentName, By, Why, opened, person
from streams.cli.outcome import DONE, ending
from streams.cli.parameters import AsJson, File
from streams.errors import ConfigurationError

if TYPE_CHECKING:
    from streams.agent import Agent
    from streams.engine.accepting import Gap

Place = Annotated[str, typer.Argument(metavar="TOPIC/PARTITION", help="The partition that halted.", show_default=False)]


@ending
def accept_gap(
    file: File,
    agent: AgentName,
    place: Place,
    forget: Annotated[bool, typer.Option("--forget", help="Forget what cannot be kept: it is said before.")] = False,
    truncated: Annotated[bool, typer.Option("--truncated", help="It halted with log-truncated, and no other gap is found.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    why: Why = "",
    by: By = "",
    json: AsJson = False,
) -> int:
    """Let a partition go on that halted because records or the store's data are gone."""
    from streams.cli.letters import Topics
    from streams.cli.output import print_json
    from streams.engine import accepting
    from streams.values import Partition

    with opened(file, agent) as (app, its, store):
        topic, number = _place(its, place)
        topics, partition = Topics(app), Partition(app.name, its.name, topic, number)
        group = f"{app.name}.{its.name}"
        found = accepting.preview(store, its, partition, lambda: topics.facts(group, topic, number), truncated)
        if found is None:
            accepting.tell(store, partition, person(why, by))
            raise ConfigurationError(f"{place} has no gap (any more), so there is nothing to accept; its worker looks again")
        accepting.insist(found, forget)
        if not yes and not typer.confirm(f"{found.error.code}: {found.error}; {found.text}. Accept that?", err=True):
            raise ConfigurationError("nothing was changed")
        found = accepting.accept(
            store, its, partition, lambda: topics.facts(group, topic, number), person(why, by), forget, truncated
        ) or found  # fmt: skip
    print_json(_document(place, found)) if json else print(f"{place}: {found.error.code} is accepted: {found.text}")
    return DONE


def _place(agent: "Agent", text: str) -> tuple[str, int]:
    topic, _, number = text.rpartition("/")
    if topic not in agent.topics or not number.isdigit():
        raise ConfigurationError(f"{text} is no partition that agent {agent.name} reads; write {agent.topics[0]}/0")
    return topic, int(number)


def _document(place: str, found: "Gap") -> dict[str, object]:
    groups, items = found.forgets
    return {
        "place": place, "code": found.error.code, "error": str(found.error), "offset": found.offset, "era": found.era,
        "groups_forgotten": None if found.unreadable else len(groups), "items_forgotten": None if found.unreadable else len(items),
    }  # fmt: skip
