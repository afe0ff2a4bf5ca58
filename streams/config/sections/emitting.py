"""`emit` as the file writes it: early results of groups that go on."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from sluicegate.streams.agent import Agent, Emit, EmitSettings
from sluicegate.streams.aggregation.results import REVISED
from sluicegate.streams.config.sections import entries
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import unless_unknown
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.units import spoken_duration

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models_agent import AgentModel

EMIT = "emit"
WHEN = ("every", "count", "on")
_HINT = "write {every: 10s}, {count: 100} or {on: change}"


class EmitModel(FilePart, EmitSettings, frozen=True):
    """One of `every`, `count` and `on`, and also `final`."""


EmitField = Annotated[EmitModel, unless_unknown(lambda: EmitModel.model_construct(every=1.0))]


def built(emit: EmitModel | None) -> Emit | None:
    return None if emit is None else Emit(**entries.values(EmitSettings, emit))


def findings(agent: "AgentModel", path: Path) -> Iterator[FileFinding]:
    """Problems: a missing or contradictory trigger, and keys that exclude early results."""
    emit, at, rule = agent.emit, (*path, EMIT), agent.aggregate
    if emit is None:
        return
    written = [name for name in WHEN if getattr(emit, name)]
    if len(written) != 1:
        what = "says twice when: keep one of every, count and on" if written else "does not say when"
        yield FileFinding(at, what, _HINT, tuple((*at, name) for name in written) or (at,))
    if rule is None:
        yield FileFinding(at, "needs groups: there is no aggregate", "leave it out, or add an aggregate", (at,))
        return
    yield from _together(agent, path)
    for name in REVISED:
        if name in rule.compute:
            needs = ((*path, "aggregate", "compute", name), at)
            yield FileFinding(
                needs[0], "is a field of each result of an agent with emit", "give it another name", needs
            )
    if emit.on and not rule.compute:
        needs = ((*at, "on"), (*path, "aggregate"))
        what = "has no computed field that could change"
        yield FileFinding(needs[0], what, "write count: 1 in its place, or add a field under compute", needs)
    if emit.count is not None and rule.count is not None and emit.count >= rule.count:
        needs = ((*at, "count"), (*path, "aggregate", "count"))
        yield FileFinding(needs[0], "is not below the count that ends a group: no result is early", "lower it", needs)


def _together(agent: "AgentModel", path: Path) -> Iterator[FileFinding]:
    """With `scope: shared` a worker reads a group when its result is due, and not at each record."""
    emit, at, scope = agent.emit, (*path, EMIT), (*path, "scope")
    if emit is None or agent.scope != "shared":
        return
    for name in ("count", "on"):
        if getattr(emit, name):
            what = "does not go together with scope: shared: no worker reads a shared group at each of its records"
            yield FileFinding((*at, name), what, "write every: 10s in its place", ((*at, name), scope))
    if agent.handler is not None:
        what = "does not go together with scope: shared and a handler: it is called when a shared group ends"
        hint = "leave out the handler, and let another agent handle the topic of the results"
        yield FileFinding(at, what, hint, (at, scope, (*path, "handler")))
    if agent.lookup:
        what = "does not go together with scope: shared and lookup: rows are read when a shared group ends"
        yield FileFinding(
            at, what, "look the rows up in an agent that reads the results", (at, scope, (*path, "lookup"))
        )


def meaning(agent: Agent) -> list[str]:
    """When early results are sent, in one sentence; none if the agent has none."""
    emit = None if agent.aggregation is None else agent.aggregation.emit
    if emit is None:
        return []
    if emit.every is not None:
        clock = "the store's clock" if agent.scope == "shared" else "the worker's clock"
        when = f"{spoken_duration(emit.every)} after the first record that is in no result yet, by {clock}"
    elif emit.count is not None:
        when = f"after each {emit.count} records of it"
    else:
        when = "behind each record that changes a computed field"
    last = "" if emit.final else "; a group that ends has no other result if nothing changed since"
    return [f"sends a result of an open group {when}, with final: false and the next revision{last}"]
