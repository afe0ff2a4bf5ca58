"""`sluicegate status`: how far each partition of each agent is."""

import signal
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.outcome import DONE, SYSTEM, complain, ending, failed
from streams.cli.parameters import AsJson, File

if TYPE_CHECKING:
    from streams.agent import App
    from streams.cli.progress import Progress, Status
    from streams.contracts import Store

REFRESH = 2.0
COLUMNS = (
    "agent", "topic", ">partition", "owner", ">offset", ">lag", ">open", ">oldest", ">next deadline", ">unsent", ">dead", "note",
)  # fmt: skip


@ending
def status(
    file: File,
    watch: Annotated[bool, typer.Option("--watch", help="Again every two seconds, until Ctrl-C.")] = False,
    json: AsJson = False,
) -> int:
    """Owner, offset, lag, open groups, deadlines, unsent outbox and level; claims nothing."""
    from connectors import open_store
    from streams.cli.files import loaded

    app = loaded(file)
    store = open_store(app.store, app.folder)
    try:
        return _watch(app, store, json) if watch else _once(app, store, json)
    finally:
        store.close()


def _once(app: "App", store: "Store", as_json: bool) -> int:
    from streams.cli.output import console

    found = _look(app, store)
    _show(found, console(), None, as_json)
    if app.store.startswith("memory:") and not as_json:
        complain("sluicegate: the state is in the memory of `sluicegate run`: only its /status knows it")
    if found.unreachable and not as_json:
        complain(f"sluicegate: offsets and lag are not known: {found.unreachable}")
    embedded = app.kafka["bootstrap.servers"] == "embedded"
    return DONE if found.unreachable is None or embedded else SYSTEM


def _look(app: "App", store: "Store") -> "Status":
    from streams.cli.progress import status as read
    from streams.cli.systems import call_timeout

    return read(app, store, call_timeout(app))


def _watch(app: "App", store: "Store", as_json: bool) -> int:
    """Until SIGINT or SIGTERM; on a terminal in place, elsewhere one after the other. What is not ready now may be soon."""
    from rich.live import Live

    from streams.cli.output import console
    from streams.errors import PersistenceError, SystemNotReady

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen = console()
    live = Live(console=screen, auto_refresh=False) if screen.is_terminal and not as_json else None
    try:
        if live:
            live.start()
        while True:
            try:
                _show(_look(app, store), screen, live, as_json)
            except (SystemNotReady, PersistenceError) as error:
                failed(str(error), SYSTEM)
            time.sleep(REFRESH)
    except KeyboardInterrupt:
        return DONE
    finally:
        if live:
            live.stop()


def _show(found: "Status", screen: Any, live: Any, as_json: bool) -> None:
    from streams.cli.output import print_json

    if live:
        live.update(_table(found), refresh=True)
    elif as_json:
        print_json(found.document())
    else:
        screen.print(_table(found))


def _table(found: "Status") -> Any:
    from streams.cli.output import table

    reasons = "".join(f"; {reason}" for reason in found.level.reasons)
    sent = f"; transactional: {', '.join(found.transactional)}" if found.transactional else ""
    title = f"{found.app}, store {found.store}, level {found.level.name}{reasons}{sent}"
    rows = [_row(p) for p in found.partitions]
    if not any(p.note for p in found.partitions):
        return table(COLUMNS[:-1], [row[:-1] for row in rows], title)
    return table(COLUMNS, rows, title)


def _row(p: "Progress") -> list[str]:
    numbers = [_number(p.offset), _number(p.lag), _number(p.open_groups), _seconds(p.oldest), _seconds(p.next_deadline)]
    return [p.agent, p.topic, str(p.partition), p.owner or "-", *numbers, str(p.unsent), str(p.dead), p.note or ""]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
