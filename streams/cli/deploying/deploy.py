"""`sluicegate deploy`: make the rules of a file the ones that run."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.agent import App
from sluicegate.streams.cli.deploying.rewinds import rewinds
from sluicegate.streams.cli.opening.changing import By, Why, Yes, confirm, person
from sluicegate.streams.cli.opening.files import loaded, shared_store
from sluicegate.streams.cli.terminal.outcome import DONE, complain
from sluicegate.streams.cli.terminal.output import print_json, print_text
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument, OpenPolicy
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.hints import command
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.deploying import AgentStep, Progress
    from sluicegate.streams.versions.catalogue import Catalogue

WAIT = 60.0  # seconds for all partitions to run the new version
POLL = 0.5  # seconds between two looks at the store


def deploy(
    file: FileArgument,
    policy: Annotated[OpenPolicy | None, typer.Option("--open", help="What happens to open groups.")] = None,
    agent: Annotated[list[str] | None, typer.Option(metavar="A", help="Only this agent; may be repeated.")] = None,
    expect: Annotated[int | None, typer.Option(min=0, help="Refuse unless this version runs now.")] = None,
    leave: Annotated[
        bool, typer.Option("--leave", help="Leave the open groups and unsent rows of removed agents in the store.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until all partitions run it.")] = False,
    yes: Yes = False,
    why: Why = "",
    by: By = "",
    json: AsJson = False,
) -> int:
    """Deploy the rules of a file, without a restart of the workers."""
    from sluicegate.streams.cli.checking import newest
    from sluicegate.streams.operations.deploying import DeployOptions

    app = loaded(file)
    names = _names(app, agent)
    app = newest.chosen(app, names)
    chosen = None if policy is None else policy.value
    with shared_store(app) as store, rewinds(app, store, chosen) as check:
        options = DeployOptions(chosen, None, True, expect, leave, check)
        if to_do := store.migrate(dry_run=True):
            raise SystemNotReady(
                f"the store's schema is not up to date: run {command('migrate FILE')}, which makes: {'; '.join(to_do)}"
            )
        steps, deployed = _deployed(store, app, names, options, person(why, by), yes)
        progress = [] if no_wait else _waited(store, app, deployed, None if json else _print_progress)
    if json:
        print_json(_document(steps, progress))
    elif not any(step.before != step.after for step in steps):
        print("unchanged: the rules of the file are deployed already")
    if missing := [state for state in progress if state.switched < state.partitions]:
        complain("; ".join(_late(state) for state in missing))
    return DONE


def _names(app: App, chosen: Sequence[str] | None) -> list[str]:
    """Raises ConfigurationError for an agent that is not in the file."""
    known = [agent.name for agent in app.agents]
    for name in chosen or ():
        if name not in known:
            raise ConfigurationError(f"there is no agent {name!r}; the file has {', '.join(known)}")
    return [agent.name for agent in app.agents if not chosen or agent.name in chosen or agent.rekeys in chosen]


def _deployed(
    store: "Store", app: App, names: Sequence[str], options: Any, who: Any, yes: bool
) -> "tuple[list[AgentStep], Catalogue]":
    from sluicegate.streams.operations.deploying import deploy as carry_out
    from sluicegate.streams.operations.deploying import planned_steps

    steps = planned_steps(store, app, names, options)
    changing = [step for step in steps if step.before != step.after]
    for step in changing:
        policy = f", --open {step.policy}" if step.before else ""
        complain(f"{step.name}: version {step.before} -> {step.after}, rule {step.digest[:8]}{policy}")
    if changing:
        confirm(f"Deploy {counted(len(changing), 'rule')}?", yes)
    return carry_out(store, app, names, options, who)


def _waited(
    store: "Store", app: App, deployed: "Catalogue", tell: "Callable[[Progress], object] | None"
) -> "list[Progress]":
    """The progress once all partitions run the new version, or after WAIT seconds."""
    from sluicegate.streams.operations.deploying import progress

    end = time.monotonic() + WAIT
    while True:
        now = progress(store, app, deployed)
        if all(state.switched == state.partitions for state in now) or time.monotonic() >= end:
            if tell is not None:
                for state in now:
                    tell(state)
            return now
        time.sleep(POLL)


def _print_progress(state: "Progress") -> None:
    finishing = f", {state.finishing} with groups of earlier versions" if state.finishing else ""
    where = counted(state.partitions, "partition")
    print_text(f"{state.name}: version {state.version} runs in {state.switched} of {where}{finishing}")


def _late(state: "Progress") -> str:
    rest = state.partitions - state.switched
    return (
        f"agent {state.name}: {counted(rest, 'partition')} did not change to version {state.version} within "
        f"{WAIT:.0f} s; the rule is deployed, and they change when a worker claims them: see {command('status FILE')}"
    )


def _document(steps: "Sequence[AgentStep]", progress: "Sequence[Progress]") -> dict[str, Any]:
    at = {state.name: state for state in progress}
    agents = []
    for step in steps:
        document: dict[str, Any] = {"name": step.name, "from": step.before, "to": step.after, "rule": step.digest[:8]}
        document["open"] = step.policy or None
        if (now := at.get(step.name)) is not None:
            document |= {"partitions": now.partitions, "switched": now.switched, "finishing": now.finishing}
        agents.append(document)
    return {"format": 1, "agents": agents}
