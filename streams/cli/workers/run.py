"""`sluicegate run`: the workers of a file under a supervisor."""

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.cli.opening import extras
from sluicegate.streams.cli.opening.files import loaded, read_again, read_now
from sluicegate.streams.cli.terminal.outcome import DEBUG
from sluicegate.streams.cli.terminal.parameters import FileArgument, OpenPolicy
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.agent import App
    from sluicegate.streams.cli.workers.port import MoreCalls
    from sluicegate.streams.operations.deploying import DeployOptions
    from sluicegate.streams.processes.child import RuleChange
    from sluicegate.streams.processes.supervisor import MakeCalls, Pace


LogLevel = StrEnum("LogLevel", ["debug", "info", "warning", "error"])


def run(
    file: FileArgument,
    agent: Annotated[list[str] | None, typer.Option(metavar="A", help="Only this agent; may be repeated.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes per agent.")] = 1,
    flush: Annotated[
        bool, typer.Option("--flush", help="Fire open groups whose key, compute or format the file changed.")
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Drop open groups whose key, compute or format the file changed.")
    ] = False,
    deploy: Annotated[
        bool, typer.Option("--deploy", help="Deploy the file first, also when it is an earlier version.")
    ] = False,
    policy: Annotated[
        OpenPolicy | None, typer.Option("--open", help="With --deploy: what happens to open groups.")
    ] = None,
    leave: Annotated[
        list[str] | None,
        typer.Option(metavar="A", help="Leave the groups of this agent, which the file lacks; may be repeated."),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", envvar=DEBUG, help="What is logged on stderr.")
    ] = LogLevel.info,
) -> int:
    """Run the agents until SIGTERM. The exit code of a clean end is 0, and 6 if processes had to be killed."""
    if flush and drop:
        raise ConfigurationError("--flush and --drop exclude each other; give one of them")
    app = loaded(file)
    change: RuleChange = "flush" if flush else "drop" if drop else "refuse"
    options = _options(change, deploy, policy)
    again, now = partial(read_again, file), partial(read_now, file)
    return start(app, agent or (), workers, log_level.value, again, change, options, leave or (), now)


def start(
    app: "App",
    agents: Sequence[str],
    workers: int,
    log_level: str,
    fresh: "Callable[[App], App]",
    change: "RuleChange" = "refuse",
    options: "DeployOptions | None" = None,
    leave: Sequence[str] = (),
    read: "Callable[[], App] | None" = None,
    more: "MoreCalls | None" = None,
    pace: "Pace | None" = None,
) -> int:
    """Runs the agents (all without names) until a signal, and returns the exit code. `fresh` gives a restarted process
    the present secrets. `leave`: agents that the file lacks, whose groups stay in the store. `read` reads the file
    again; None: there is no file. `more` adds calls to those of the console. Raises ConfigurationError."""
    from sluicegate.streams.cli.workers.unowned import watched
    from sluicegate.streams.cli.workers.wiring import AS_RUN, prepare
    from sluicegate.streams.observe import otel_metrics, tracing
    from sluicegate.streams.processes import supervisor

    extras.require(app)
    tracing.requested_exporters(os.environ)  # its errors are reported here, once, and not by each worker
    otel_metrics.requested_exporters(os.environ)
    started: list[App] = []
    ready = partial(prepare, options=options or AS_RUN, leave=leave, started=started.append)
    return supervisor.run(
        app,
        agents,
        workers,
        change,
        prepare=ready,
        log_level=log_level,
        pace=pace or supervisor.Pace(),
        fresh=fresh,
        calls=_calls(app, fresh, read, started, more),
        watch=watched,
    )


def _calls(
    app: "App",
    fresh: "Callable[[App], App]",
    read: "Callable[[], App] | None" = None,
    started: "Sequence[App]" = (),
    more: "MoreCalls | None" = None,
) -> "MakeCalls | None":
    """The calls of the HTTP port. None: the file enables neither the console nor the state API, so their modules are
    not imported."""
    if app.http is None or not (app.http.console or app.http.state):
        return None
    from sluicegate.streams.cli.workers import port

    return partial(port.made, app, fresh, read, started, more)


def _options(change: "RuleChange", again: bool, policy: OpenPolicy | None) -> "DeployOptions":
    """Raises ConfigurationError."""
    from sluicegate.streams.operations.deploying import DeployOptions

    if policy is not None and not again:
        raise ConfigurationError("--open is part of a deployment: add --deploy")
    wanted, ends = None if policy is None else policy.value, None if change == "refuse" else change
    return DeployOptions(wanted, ends, again, leave=True)
