"""`sluicegate plan`: what a changed file would do, before it runs."""

import json as compact
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.agent import App
from sluicegate.streams.cli.deploying.plan_replay import ReplayOptions, Replays, lines, replayed
from sluicegate.streams.cli.opening.files import connected, loaded, shared_store
from sluicegate.streams.cli.terminal.outcome import DONE, NOT_ACCEPTED, complain
from sluicegate.streams.cli.terminal.output import print_json, print_text
from sluicegate.streams.cli.terminal.parameters import AsJson, OpenPolicy
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.units import spoken_duration
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.planning import AgentPlan, PolicyOutcome
    from sluicegate.streams.rules.changes import Change

VERDICTS = ("changed", "missing", "extra", "dead", "uncertain")
"""The kinds of findings that need a replay of the input."""
REFUSED = "refused"
DEFAULT = "dead,refused"
LONGEST = 80  # characters of a value
TIME = re.compile(
    r"\.(timeout|window)(\..*)?\.(first|last|after|session|tumbling|hopping|sliding|idle|at_most|grace|every|offset|max_ahead"
    r"|new|amend)$|\.(horizon|remember)$"
)
"""The keys of a rule's document whose numbers are seconds."""
AgentOption = Annotated[
    list[str] | None, typer.Option("--agent", metavar="A", help="Only this agent; may be repeated.")
]


def plan(
    file: Annotated[str, typer.Argument(metavar="NEW", help="The changed file (YAML).")],
    against: Annotated[
        str | None, typer.Option(metavar="OLD", help="Compare with this file, not the deployed rules.")
    ] = None,
    agent: AgentOption = None,
    policy: Annotated[OpenPolicy | None, typer.Option("--open", help="What happens to open groups.")] = None,
    no_replay: Annotated[bool, typer.Option("--no-replay", help="Compare the files and ask the store only.")] = False,
    last: Annotated[str | None, typer.Option(metavar="DURATION", help="Replay the newest records, as 1h.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="OFFSET|TIME|earliest", help="The first record of the replay.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="OFFSET|TIME", help="The end of the replay.")] = None,
    key: Annotated[str | None, typer.Option(help="Replay: judge only this key.")] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="Replay: at most this many records a second.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(metavar="LIST", help=f"End with 4 when one of these is there, such as {DEFAULT}.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Show what a changed file means for each agent, its results and its open groups. Reads only."""
    from sluicegate.streams.operations.planning import of_the_file, planned

    options = ReplayOptions(last, since, until, key, rate)
    judged = _exit_findings(fail_on, no_replay, options)
    new = _with_newest(loaded(file))
    old = _against(against, new)
    with _old_store(old, new) as (store, unknown):
        plans = planned(old, new, _names(old, new, agent), None if policy is None else policy.value, store)
        replays = {} if no_replay else replayed(old, new, plans, store, unknown, options)
    beside = of_the_file(old, new)
    if json:
        print_json(_document(plans, beside, policy, unknown, replays))
    else:
        _print(plans, beside, policy, unknown, replays)
    refused = REFUSED in judged and any(agent_plan.refused for agent_plan in plans)
    differs = any(replay.has(judged - {REFUSED}) for replay in replays.values())
    return NOT_ACCEPTED if refused or differs else DONE


def _with_newest(app: App) -> App:
    """The app with the versions of `schema: SUBJECT:latest` that a deployment would choose now."""
    from sluicegate.streams.cli.checking import newest

    try:
        return newest.chosen(app, [agent.name for agent in app.agents])
    except SystemNotReady as error:
        complain(f"sluicegate: the newest version of a schema is not known: {error}")
        return app


def _against(file: str | None, new: App) -> App:
    """The app to compare with: the old file, or the new one with the deployed agents and rules."""
    if file is not None:
        return _with_newest(loaded(file))
    from sluicegate.streams.operations.deploying import deployed_app
    from sluicegate.streams.versions import catalogue

    with shared_store(new) as store:
        deployed = catalogue.read(store, new.name)
    if not deployed:
        raise ConfigurationError("no rule of this app was deployed yet: add --against OLD.yaml, the file that runs")
    return deployed_app(new, deployed)


def _exit_findings(listed: str | None, no_replay: bool, options: ReplayOptions) -> set[str]:
    """The findings that end the command with exit code 4. Raises ConfigurationError for a finding that the command does
    not compute."""
    if no_replay and options.any:
        raise ConfigurationError("--last, --from, --to, --key and --rate belong to the replay: leave out --no-replay")
    if listed is None:
        return {*DEFAULT.split(",")}
    names = {word.strip() for word in listed.split(",") if word.strip()}
    if unknown := names - {*VERDICTS, REFUSED}:
        known = ", ".join((*VERDICTS, REFUSED))
        raise ConfigurationError(f"--fail-on {', '.join(sorted(unknown))}: known are {known}")
    if no_replay and (unseen := names & {*VERDICTS}):
        raise ConfigurationError(f"--fail-on {', '.join(sorted(unseen))} needs the replay: leave out --no-replay")
    return names


def _names(old: App, new: App, chosen: Sequence[str] | None) -> list[str]:
    """Raises ConfigurationError for an agent that is in neither file."""
    known = [agent.name for app in (new, old) for agent in app.agents]
    for name in chosen or ():
        if name not in known:
            raise ConfigurationError(f"there is no agent {name!r}; the files have {', '.join(dict.fromkeys(known))}")
    return list(chosen or known)


@contextmanager
def _old_store(old: App, new: App) -> Iterator[tuple["Store | None", str]]:
    """The store of the old file, or the reason why it is not asked."""
    from sluicegate.streams.cli.checking.systems import LONGEST_WAIT
    from sluicegate.streams.cli.opening.waiting import store_of, wait_for

    app = replace(old, folder=new.folder) if old.store == new.store else old  # the old file may be in any folder
    if app.store.startswith("memory:"):
        yield None, "the state is in the memory of `sluicegate run`"
        return
    with connected(app) as store:
        try:
            system = store_of(app)
            steps = wait_for(min(app.start_timeout, LONGEST_WAIT), lambda: store.migrate(dry_run=True), system=system)
            why = f"the store is not migrated ({', '.join(steps)})" if steps else ""
        except SystemNotReady as error:
            why = str(error)
        yield (None if why else store), why


def _print(
    plans: Sequence["AgentPlan"], beside: Sequence[str], policy: OpenPolicy | None, unknown: str, replays: Replays
) -> None:
    for agent_plan in plans:
        if agent_plan.kind is not None:
            _print_agent(agent_plan, policy)
        if agent_plan.name in replays:
            print_text(*lines(replays[agent_plan.name]))
    if unchanged := [plan.name for plan in plans if plan.kind is None]:
        print_text(f"unchanged: {', '.join(unchanged)}")
    if beside:
        print_text(f"the file: {', '.join(beside)} changed, which holds from the restart on")
    if unknown:
        print_text(f"open groups are not known: {unknown}")


def _print_agent(plan: "AgentPlan", policy: OpenPolicy | None) -> None:
    print_text(f"{plan.name}: {_heading(plan):<40} class: {plan.kind.text if plan.kind else ''}")
    for path, old, new in _in_pairs(plan.changes):
        print_text(f"  change        {path} {_shown(old, path)} -> {_shown(new, path)}")
    if plan.now is not None and plan.outcomes:
        where = counted(plan.now.partitions, "partition")
        print_text(f"  open now      {counted(plan.now.groups, 'group')} in {where}{_fates(plan, policy)}")
    if plan.now is not None and plan.now.rows:
        print_text(f"  unsent        {counted(plan.now.rows, 'row')}")
    for text in plan.refused:
        print_text(f"  refused       {text}")


def _heading(plan: "AgentPlan") -> str:
    if plan.old is None or plan.new is None:
        return "added" if plan.old is None else "removed"
    if plan.old.digest == plan.new.digest:
        return f"rule {plan.new.short}, unchanged"
    return f"rule {plan.old.short} -> {plan.new.short}"


def _fates(plan: "AgentPlan", policy: OpenPolicy | None) -> str:
    fates = [
        f"; --open {name}: {_fate(name, outcome)}"
        for name, outcome in plan.outcomes.items()
        if not outcome.refused and policy in (None, name)
    ]
    return "".join(fates) if plan.now is not None and plan.now.groups else ""


def _fate(policy: str, outcome: "PolicyOutcome") -> str:
    if policy == "drop":
        return "all are forgotten"
    if policy == "finish":
        return "all end under the rule that runs now"
    if policy == "rewind":
        return "the records of all are read again"
    if outcome.fire is None:
        return "all go on"
    return f"{outcome.fire} of them {'fires' if outcome.fire == 1 else 'fire'} at once"


def _in_pairs(changes: "Sequence[Change]") -> Iterator[tuple[str, object, object]]:
    """Joins the removed and the added item of one key into one change, such as a topic of `from`."""
    waiting: dict[str, object] = {}
    for change, following in zip_longest(changes, changes[1:]):
        if change.path in waiting:
            yield change.path, waiting.pop(change.path), change.new
        elif change.new is None and following is not None and (following.path, following.old) == (change.path, None):
            waiting[change.path] = change.old
        else:
            yield change.path, change.old, change.new


def _shown(value: object, path: str) -> str:
    """The value as short JSON; a time with its unit."""
    if value is None:
        return "not set"
    if TIME.search(path) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return spoken_duration(value) if value else "0 s"
    text = value if isinstance(value, str) else compact.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _document(
    plans: Sequence["AgentPlan"], beside: Sequence[str], policy: OpenPolicy | None, unknown: str, replays: Replays
) -> dict[str, Any]:
    from sluicegate.streams.operations.planning import plan_document

    shown = {name: replay.document() for name, replay in replays.items()}
    return {
        "format": 1,
        "agents": [{**plan_document(agent_plan, policy), "replay": shown.get(agent_plan.name)} for agent_plan in plans],
        "file": list(beside),
        "refused": [f"{agent_plan.name}: {text}" for agent_plan in plans for text in agent_plan.refused],
        "unknown": unknown or None,
    }
