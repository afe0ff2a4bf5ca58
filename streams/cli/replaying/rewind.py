"""`sluicegate replay FILE AGENT --rewind --into TOPIC`: correct what an agent published."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from sluicegate.streams.cli.opening.changing import person, reread
from sluicegate.streams.cli.replaying.shadow import ReadingPace, progress
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json, print_table, print_text
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.topic_names import of_input

if TYPE_CHECKING:
    from sluicegate.streams.operations.replaying.replays import Replay
    from sluicegate.streams.operations.replaying.rewinding import Rewinding
    from sluicegate.streams.operations.replaying.shadowing import ShadowRange

RATE = 10_000  # records a second
COLUMNS = ("topic!", ">partition", ">from", ">to", ">records", ">groups", ">removed", ">refused", ">corrections")


def rewound(
    file: str,
    name: str,
    wanted: "ShadowRange",
    into: str | None,
    rate: int | None,
    why: str,
    json: bool,
    calls: bool = False,
) -> int:
    """Runs the command. Returns the exit code."""
    if into is None:
        raise ConfigurationError("--rewind needs --into TOPIC: a topic for the corrections that no agent reads")
    if wanted.since is None and wanted.since_time is None:
        raise ConfigurationError("--rewind needs --from or --last: the first record whose results are corrected")
    from msgspec import to_builtins
    from msgspec.structs import astuple

    with _rewinding(file, name, rate or RATE, why, calls) as rewinding:
        replay = rewinding.run(wanted, into)
    if json:
        partitions = to_builtins(replay.corrected)
        print_json({"format": 1, "agent": name, "replay": replay.number, "into": into, "partitions": partitions})
    else:
        print_table(COLUMNS, [astuple(partition) for partition in replay.corrected])
        print_text(*summary(replay, name))
    return DONE


def summary(replay: "Replay", name: str) -> "Iterator[str]":
    """The lines about a finished replay, after the table."""
    if refused := sum(partition.refused for partition in replay.corrected):
        yield f"{refused:,} records were refused by the rule. They are not written to {replay.live.dead_letters} again"
    corrections = sum(partition.corrections for partition in replay.corrected)
    yield f"replay {replay.number} of {name}: {corrections:,} corrections in {replay.into}"


def abandoned(file: str, name: str, number: int, why: str, json: bool) -> int:
    """Abandons a replay. Returns the exit code."""
    with _rewinding(file, name, RATE, why) as rewinding:
        replay = rewinding.abandon(number)
    if json:
        print_json({"format": 1, "agent": name, "abandoned": number, "into": replay.into})
    else:
        print(f"replay {number} of {name} is abandoned; the messages that it sent stay in {replay.into}")
    return DONE


@contextmanager
def _rewinding(file: str, name: str, rate: int, why: str, calls: bool = False) -> Iterator["Rewinding"]:
    from sluicegate.connectors.kafka.clusters.routed import open_history, open_producer
    from sluicegate.streams.operations.replaying.rewinding import Rewinding

    with reread(file, name) as (app, agent, store):
        if app.embedded:
            raise ConfigurationError(
                "the embedded broker forgets everything when its run ends: there is nothing to correct"
            )
        with (
            closing(open_history(app.brokers, f"{app.name}.{agent.name}", of_input(agent.topics))) as history,
            closing(open_producer(app.brokers)) as output,
            progress() as show,
        ):
            pace = ReadingPace(rate, show)
            yield Rewinding(app, agent, store, history, output, pace, person(why), calls)
