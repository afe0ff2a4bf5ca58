"""`sluicegate audit`: what people changed."""

from datetime import UTC, datetime

from streams.cli.changing import AgentName, opened
from streams.cli.outcome import DONE, ending
from streams.cli.parameters import AsJson, File


@ending
def audit(file: File, agent: AgentName, json: AsJson = False) -> int:
    """Who changed what in an agent's state within the last 30 days, when, and why; claims nothing."""
    from streams.cli.output import print_json, print_table
    from streams.engine.open_groups import partitions

    with opened(file, agent) as (app, its, store):
        found = [(each.at, held.partition, each) for held in partitions(store, app.name, its) for each in held.amended]
    rows = [
        {"at": datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"), "topic": place.topic, "partition": place.number}
        | {"who": said.who, "what": said.what, "key": said.key, "why": said.why}
        for at, place, said in sorted(found, key=lambda each: each[:2])  # two may have one time
    ]
    if json:
        print_json({"changes": rows})
        return DONE
    print_table(("at", "topic", ">partition", "who", "what", "key", "why"), [[str(value) for value in row.values()] for row in rows])
    return DONE
