"""The replay of `sluicegate plan`: compares the published results of a changed agent with the results of its new
rule."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.replaying.shadow import ReadingPace, example_line, progress, wanted_range
from sluicegate.streams.cli.terminal.outcome import complain
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.topic_names import of_input

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.planning import AgentPlan
    from sluicegate.streams.operations.replaying.shadowing import ShadowRange
    from sluicegate.streams.shadow.verdicts import Figures, Shadowed


class ReplayOptions(NamedTuple):
    """The options as text: `last` is a duration, `since` and `until` are offsets or times."""

    last: str | None
    since: str | None
    until: str | None
    key: str | None
    rate: int | None

    @property
    def any(self) -> bool:
        return any(part is not None for part in self)

    def range(self) -> "ShadowRange":
        """The range of the options. Raises ConfigurationError."""
        return wanted_range(self.last, self.since, self.until)


class AgentReplay(NamedTuple):
    """The comparison for one agent. `shadowed` None: the agent cannot be judged; `why` is the reason."""

    shadowed: "Shadowed | None"
    why: str = ""

    def document(self) -> dict[str, Any]:
        return {"not_judged": self.why} if self.shadowed is None else self.shadowed.document()

    def has(self, wanted: set[str]) -> bool:
        """Whether one of these verdicts occurred. An agent that is not judged counts as uncertain."""
        return "uncertain" in wanted if self.shadowed is None else bool(self.shadowed.matches(wanted))


Replays = Mapping[str, AgentReplay]
"""By the name of the agent. Agents whose rule did not change have none."""


def replayed(
    old: App, new: App, plans: Sequence["AgentPlan"], store: "Store | None", unknown: str, options: ReplayOptions
) -> Replays:
    """The comparison of each agent. The old file names the brokers and the results. `unknown` is the reason for a
    missing store. Raises ConfigurationError where nothing can be replayed, SystemNotReady and PersistenceError."""

    changed = [plan.name for plan in plans if plan.old and plan.new and plan.old.digest != plan.new.digest]
    if not changed:
        return {}
    if old.embedded:
        raise ConfigurationError(
            "the embedded broker forgets everything when its run ends: nothing can be replayed, add --no-replay"
        )
    if store is None:
        raise ConfigurationError(f"nothing can be replayed: {unknown}; add --no-replay")
    from sluicegate.streams.cli.opening.matching import with_matches

    before, after = ({agent.name: agent for agent in app.agents} for app in (with_matches(old), with_matches(new)))
    classes = {plan.name: {change.kind for change in plan.changes} for plan in plans}
    with progress() as show:
        pace = ReadingPace(options.rate, show)
        return {
            name: AgentReplay(None, why)
            if (why := _another_input(classes[name]))
            else _one(old, before[name], after[name], store, options, pace)
            for name in changed
        }


def _another_input(classes: set[Any]) -> str:
    """The reason why the results of two rules cannot be compared at all; empty: they can."""
    from sluicegate.streams.keys import ELSEWHERE, TOPICS

    if ELSEWHERE in classes:
        return "app or store changed, so nothing is carried over"
    return "the topics changed, and only rules that read the same input can be compared" if TOPICS in classes else ""


def _one(app: App, live: Agent, rule: Agent, store: "Store", options: ReplayOptions, pace: ReadingPace) -> AgentReplay:
    from sluicegate.connectors.kafka.clusters.routed import open_history
    from sluicegate.streams.operations.replaying.shadowing import Shadowing

    with closing(open_history(app.brokers, f"{app.name}.{live.name}", of_input(live.topics))) as history:
        shadowing = Shadowing(app, live, store, history, options.range(), pace)
        try:
            return AgentReplay(shadowing.compare(rule, None if options.key is None else options.key.encode()))
        except ConfigurationError as error:
            return AgentReplay(None, str(error))


def lines(replay: AgentReplay) -> Iterator[str]:
    """The lines of one agent. Records that were not read are reported on stderr."""
    outcome = replay.shadowed
    if outcome is None:
        yield f"  not judged    {replay.why}"
        return
    read = f"{outcome.records:,} records, {outcome.published:,} published results"
    if outcome.comparable:
        yield f"  replay        {read}: {_counts(outcome.results)}"
    else:
        yield f"  replay        {read}; the new rule gives {outcome.given:,}, of other keys, so none has a counterpart"
    for title, figures in (("dead letters", outcome.dead), ("open groups", outcome.open)):
        if any(figures.counts.values()):
            yield f"  {title:<13} {_counts(figures)}"
    for part in (outcome.results, outcome.dead, outcome.open):
        yield from (f"  example       {example_line(example)}" for example in part.shown())
    for note in outcome.notes:
        complain(f"sluicegate: {note}")


def _counts(figures: "Figures") -> str:
    return ", ".join(f"{name} {number:,}" for name, number in figures.counts.items())
