"""`sluicegate status`: how far each partition of each agent is."""

import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.cli.outcome import DONE, SYSTEM, complain, ending, failed
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.agent import App
    from sluicegate.streams.cli.letters import Counts
    from sluicegate.streams.cli.progress import Status
    from sluicegate.streams.contracts.stores import Store

REFRESH = 2.0


@ending
def status(
    file: FileArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Again every two seconds, until Ctrl-C.")] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Only this agent.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> int:
    """Owner, offset, lag, open groups, deadlines, unsent rows and what is dead; claims nothing."""
    from sluicegate.connectors import open_store
    from sluicegate.streams.cli.files import loaded

    app = _only(loaded(file), agent)
    store = open_store(app.store, app.folder)
    try:
        return _watch(app, store, json) if watch else _once(app, store, json)
    finally:
        store.close()


def _only(app: "App", name: str | None) -> "App":
    """With this agent alone. Raises ConfigurationError for one that is not in the file."""
    if name is None:
        return app
    agents = tuple(agent for agent in app.agents if agent.name == name)
    if not agents:
        raise ConfigurationError(
            f"there is no agent {name!r}; the file has {', '.join(agent.name for agent in app.agents)}"
        )
    return replace(app, agents=agents)


def _once(app: "App", store: "Store", as_json: bool) -> int:
    from sluicegate.streams.cli.output import console

    found = _look(app, store, _counts(app))
    _show(found, console(), None, as_json)
    if app.store.startswith("memory:") and not as_json:
        complain("sluicegate: the state is in the memory of `sluicegate run`: only its /status knows it")
    if found.unreachable and not as_json:
        complain(f"sluicegate: offsets, lag and dead letters are not known: {found.unreachable}")
    embedded = app.kafka["bootstrap.servers"] == "embedded"
    return DONE if found.unreachable is None or embedded else SYSTEM


def _counts(app: "App") -> "Counts":
    from sluicegate.streams.cli.dead import NEWEST
    from sluicegate.streams.cli.letters import Counts

    return Counts(app, NEWEST)


def _look(app: "App", store: "Store", counts: "Counts") -> "Status":
    from sluicegate.streams.cli.progress import status as read
    from sluicegate.streams.cli.systems import call_timeout

    return read(app, store, call_timeout(app), counts)


def _watch(app: "App", store: "Store", as_json: bool) -> int:
    """Until SIGINT or SIGTERM; on a terminal in place, elsewhere one after the other. What is not ready now may be
    soon."""
    from rich.live import Live

    from sluicegate.streams.cli.output import console
    from sluicegate.streams.errors import PersistenceError, SystemNotReady

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen, counts = console(), _counts(app)
    live = Live(console=screen, auto_refresh=False) if screen.is_terminal and not as_json else None
    try:
        if live:
            live.start()
        while True:
            try:
                _show(_look(app, store, counts), screen, live, as_json)
            except (SystemNotReady, PersistenceError) as error:
                failed(str(error), SYSTEM)
            time.sleep(REFRESH)
    except KeyboardInterrupt:
        return DONE
    finally:
        if live:
            live.stop()


def _show(found: "Status", screen: Any, live: Any, as_json: bool) -> None:
    from sluicegate.streams.cli.output import print_json
    from sluicegate.streams.cli.status_view import view

    if live:
        live.update(view(found, screen, screen.height), refresh=True)
    elif as_json:
        print_json(found.document())
    else:
        screen.print(view(found, screen))
