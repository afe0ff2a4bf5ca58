"""`sluicegate replay --rebuild`: restore the state of an agent whose store was lost, from its input and its results.
With `--shadow` (shadow.py): compare the results with the input. With `--rewind` (rewind.py):
correct the results."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.changing import AgentName, Why, person, reread
from sluicegate.streams.cli.replaying.rewind import abandoned, rewound
from sluicegate.streams.cli.replaying.shadow import DEFAULT_FAILING, wanted_range
from sluicegate.streams.cli.replaying.shadow import shadow as compared
from sluicegate.streams.cli.terminal.outcome import DONE, complain
from sluicegate.streams.cli.terminal.output import print_json, print_table
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.hints import command
from sluicegate.streams.topic_names import of_input

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.rebuilding.rebuild_plan import Planned, Plans, RebuildRange

COLUMNS = ("topic!", ">partition", ">offset", ">read", ">results found", ">groups restored", ">sent anew")

RebuildOption = Annotated[bool, typer.Option("--rebuild", help="Restore the state of an agent whose store was lost.")]
ShadowOption = Annotated[
    bool, typer.Option("--shadow", help="Compare what was published with what the input gives; write nothing.")
]
RewindOption = Annotated[
    bool, typer.Option("--rewind", help="Correct what was published: the results of the input go to --into.")
]
IntoOption = Annotated[str | None, typer.Option(metavar="TOPIC", help="Rewind: the topic of the corrections.")]
AbandonOption = Annotated[
    int | None, typer.Option(metavar="N", help="Give up replay N of the agent. What it sent stays in its topic.")
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="OFFSET|TIME|earliest",
        help="The first record. With --rebuild: what lies before is done, no group was open there.",
    ),
]
FailOnOption = Annotated[str, typer.Option(metavar="LIST", help="Shadow: exit with 4 when one of these is found.")]
RateOption = Annotated[
    int | None,
    typer.Option(min=1, help="Shadow, rewind: read at most this many records a second. Rewind: 10,000 unless given."),
]
CallHandlersOption = Annotated[
    bool,
    typer.Option(
        "--call-handlers",
        help="Shadow, rewind: call the agent's handler, and compare or correct what it sends to `to`.",
    ),
]
AcceptGapsOption = Annotated[
    bool,
    typer.Option(
        "--accept-gaps", help="Forget records in no result before a later one: groups dropped by hand, dead rows."
    ),
]


def replay(
    file: FileArgument,
    name: AgentName,
    rebuild: RebuildOption = False,
    shadow: ShadowOption = False,
    rewind: RewindOption = False,
    into: IntoOption = None,
    abandon: AbandonOption = None,
    since: StartOption = None,
    until: Annotated[str | None, typer.Option("--to", metavar="OFFSET|TIME", help="Shadow, rewind: the end.")] = None,
    last: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Shadow, rewind: the newest records, as 1h.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Shadow: judge only this key.")] = None,
    fail_on: FailOnOption = DEFAULT_FAILING,
    rate: RateOption = None,
    call_handlers: CallHandlersOption = False,
    accept_gaps: AcceptGapsOption = False,
    why: Why = "",
    json: AsJson = False,
) -> int:
    """Restore lost state from input and results (--rebuild), compare the results with the input (--shadow), or correct
    the results (--rewind)."""
    if abandon is not None and not (rebuild or shadow or rewind):
        return abandoned(file, name, abandon, why, json)
    if [rebuild, shadow, rewind].count(True) != 1 or abandon is not None:
        raise ConfigurationError(
            f"add one of --rebuild, --shadow and --rewind: {command('replay FILE AGENT --rebuild')} restores "
            "the state of a lost store, `--shadow` compares the published results with the input, `--rewind --into "
            "TOPIC` corrects it"
        )
    if call_handlers and rebuild:
        raise ConfigurationError("--call-handlers is for --shadow and --rewind: --rebuild calls no handler")
    if shadow:
        return compared(file, name, wanted_range(last, since, until), key, fail_on, rate, json, call_handlers)
    if rewind:
        return rewound(file, name, wanted_range(last, since, until), into, rate, why, json, call_handlers)
    return _rebuild(file, name, _wanted(since, accept_gaps), why, json)


def _rebuild(file: str, name: str, wanted: "RebuildRange", why: str, json: bool) -> int:
    with reread(file, name) as (app, agent, store), _plans(app, agent, store, wanted) as plans:
        plans.inform_again()
        planned, by = plans.plan(time.time(), lambda text: None if json else complain(text)), person(why)
        if planned:
            plans.note_lost_keys(f"{by.token}-keys")
        done = [_document(plan) | {"offset": plans.carry_out(plan, person(why)).offset} for plan in planned]
    if json:
        print_json({"rebuilt": done})
    elif done:
        print_table(COLUMNS, [row.values() for row in done])
    else:
        print(f"nothing to do: the store has a state of every partition that {name} has read")
    return DONE


@contextmanager
def _plans(app: App, agent: Agent, store: "Store", wanted: "RebuildRange") -> Iterator["Plans"]:
    """The plans of the rebuild. Raises SystemNotReady for a store that `run` would not use."""
    from sluicegate.connectors.kafka.clusters.routed import open_history, open_producer
    from sluicegate.streams.cli.workers.wiring import judge_store, store_facts
    from sluicegate.streams.operations.rebuilding.rebuild_plan import Plans

    if app.embedded:
        raise ConfigurationError(
            "the embedded broker forgets everything when its run ends: there is nothing to rebuild from"
        )
    judge_store(app, *store_facts(app, store))
    with (
        closing(open_history(app.brokers, f"{app.name}.{agent.name}", of_input(agent.topics))) as history,
        closing(open_producer(app.brokers)) as outputs,
    ):
        yield Plans(app, agent, store, history, outputs, wanted)


def _wanted(since: str | None, accept_gaps: bool) -> "RebuildRange":
    from sluicegate.streams.operations.rebuilding.rebuild_plan import RebuildRange
    from sluicegate.streams.units import moment

    if since is None:
        return RebuildRange(accept_gaps=accept_gaps)
    if since == "earliest" or (since.isdigit() and len(since) <= 18):
        return RebuildRange(since=0 if since == "earliest" else int(since), accept_gaps=accept_gaps)
    at = moment(since)
    if at is None:
        raise ConfigurationError(f"--from {since}: write an offset, an RFC 3339 time, or earliest")
    return RebuildRange(since_time=at, accept_gaps=accept_gaps)


def _document(planned: "Planned") -> dict[str, object]:
    built = planned.built
    return {
        "topic": built.partition.topic,
        "partition": built.partition.number,
        "offset": built.offset,
        "records_read": built.records,
        "results_found": built.results,
        "groups_restored": len(built.groups.states),
        "sent_anew": len(built.decided),
    }
