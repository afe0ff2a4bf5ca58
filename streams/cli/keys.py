"""`sluicegate keys`: the keys with which the processes of the app sign what they send."""

from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.cli.opening.changing import By, Why, noted, person
from sluicegate.streams.cli.opening.files import loaded, shared_store
from sluicegate.streams.cli.terminal.commands import Commands
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json, print_list
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.versions.mac_keys import SigningKey

keys = Commands("keys", "List or rotate the keys that sign what the app sends.")
KeepOption = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="How long the earlier keys prove after that: as long as records that they signed can be read, or 0s if "
        "others know a key.",
    ),
]
COLUMNS = ("state", "made!", "age", "signs!", "proves!")


@keys.command()
def ls(file: FileArgument, json: AsJson = False) -> int:
    """List the keys, newest first. Their content is never shown."""
    from sluicegate.streams.versions import mac_keys

    app = loaded(file)
    with shared_store(app) as store:
        listing = mac_keys.listed(store, app.name)
    documents = [] if listing is None else [_document(key, listing[1]) for key in listing[0].keys]
    print_list(json, "keys", documents, COLUMNS)
    return DONE


@keys.command()
def rotate(file: FileArgument, keep: KeepOption = "14d", why: Why = "", by: By = "", json: AsJson = False) -> int:
    """Make a new key, which signs a minute later. Running processes use it without a restart."""
    from sluicegate.streams.units import duration
    from sluicegate.streams.versions import mac_keys

    seconds = duration(keep)
    if seconds is None:
        raise ConfigurationError(f"--keep {keep}: write a duration, such as 14d")
    app = loaded(file)
    with noted(file, "keys rotate", [f"--keep {keep}"], why, by) as store:
        newest, *earlier = mac_keys.rotate(store, app.name, person(why, by).token, seconds).keys
    last = _time(max(key.until for key in earlier)) if earlier else None
    if json:
        print_json({"signs": _time(newest.signs), "earlier": len(earlier), "proves": last})
        return DONE
    print(f"a new key signs from {_time(newest.signs)}")
    if earlier:
        print(f"the keys before it ({len(earlier)}) prove until {last}")
    return DONE


def _document(key: "SigningKey", now: float) -> dict[str, object]:
    from math import inf

    from sluicegate.streams.units import spoken_duration

    state = "proves no more" if key.until <= now else "waits" if key.signs > now else "proves"
    if state == "proves" and key.ends > now:
        state = "signs"
    until = None if key.until == inf else _time(key.until)
    age = spoken_duration(max(0, round(now - key.made)))
    return {"state": state, "made": _time(key.made), "age": age, "signs": _time(key.signs), "proves": until}


def _time(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
