"""`sluicegate status`: the progress of each partition of each agent."""

import signal
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.agent import App
from sluicegate.streams.cli.opening.files import agent_of, connected, loaded
from sluicegate.streams.cli.terminal.outcome import DONE, SYSTEM, complain, failed
from sluicegate.streams.cli.terminal.output import console, print_json
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import PersistenceError, SystemNotReady

if TYPE_CHECKING:
    from sluicegate.streams.cli.watching.progress import Status

REFRESH = 2.0  # seconds


def status(
    file: FileArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat every two seconds, until Ctrl-C.")] = False,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only this agent.")] = None,
    json: AsJson = False,
) -> int:
    """Show owner, offset, lag, open groups, deadlines, unsent rows and dead letters of each partition. Reads only."""
    from sluicegate.streams.cli.dead import NEWEST
    from sluicegate.streams.cli.letters import Counts
    from sluicegate.streams.cli.opening.waiting import call_timeout
    from sluicegate.streams.cli.watching import progress

    app = loaded(file)
    only = None if agent is None else agent_of(app, agent).name
    with connected(app) as store:
        read = partial(progress.status, app, store, call_timeout(app), Counts(app, NEWEST), only)
        return _watch(read, json) if watch else _print_once(app, read, json)


def _print_once(app: App, read: Callable[[], "Status"], as_json: bool) -> int:
    status_ = read()
    _show(status_, console(), None, as_json)
    if app.store.startswith("memory:") and not as_json:
        complain("sluicegate: the state is in the memory of `sluicegate run`: only its /status knows it")
    if status_.unreachable and not as_json:
        complain(f"sluicegate: lag and dead letters are not known: {status_.unreachable}")
    embedded = app.embedded
    return DONE if status_.unreachable is None or embedded else SYSTEM


def _watch(read: Callable[[], "Status"], as_json: bool) -> int:
    """Shows the status until SIGINT or SIGTERM: on a terminal in place, elsewhere one after the other. A system that is
    not ready is asked again."""
    from rich.live import Live

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen = console()
    live = Live(console=screen, auto_refresh=False) if screen.is_terminal and not as_json else None
    try:
        if live:
            live.start()
        while True:
            try:
                _show(read(), screen, live, as_json)
            except (SystemNotReady, PersistenceError) as error:
                failed(str(error), SYSTEM)
            time.sleep(REFRESH)
    except KeyboardInterrupt:
        return DONE
    finally:
        if live:
            live.stop()


def _show(status_: "Status", screen: Any, live: Any, as_json: bool) -> None:
    from sluicegate.streams.cli.watching.status_view import view

    if live:
        live.update(view(status_, screen, screen.height), refresh=True)
    elif as_json:
        print_json(status_.document())
    else:
        screen.print(view(status_, screen))
