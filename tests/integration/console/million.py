"""A store with a million open groups, written as a worker writes them, and a reader that pages through all of them:
`python -m tests.integration.console.million FOLDER` prints what it cost."""

import json
import resource
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec

from sluicegate.connectors import open_store
from sluicegate.streams import formats
from sluicegate.streams.aggregation.durable.entry import ChangelogEntry, packed
from sluicegate.streams.aggregation.layout import COLUMNS
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.console.questions import Questions
from sluicegate.streams.console.wording import PAGE
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.observe.board import Board
from sluicegate.streams.windows.opening import groups_of
from tests.unit.console.desk import FILE, LogSystems

GROUPS, PARTITIONS, ENTRY = 1_000_000, 4, 25_000


def fill(folder: Path) -> None:
    """Groups of one record each, `key-0000000` the oldest one."""
    (folder / "app.yaml").write_text(FILE)
    app = loaded(str(folder / "app.yaml"))
    [agent] = app.agents
    columns = groups_of(Rule(agent, formats.reads(agent))).width - COLUMNS
    with closing(open_store(app.store, app.folder)) as store:
        store.migrate()
        now, number_of_groups = time.time(), GROUPS // PARTITIONS
        for number in range(PARTITIONS):
            claim = store.claim(Partition(app.name, agent.name, "in", number), "token", "member")
            for first in range(0, number_of_groups, ENTRY):
                states = {
                    b"key-%07d" % (PARTITIONS * at + number): [
                        *(1, at, at, now - 500 + 100 * at / number_of_groups + number / GROUPS, None, None, 0),
                        *[at % 100] * columns,
                    ]
                    for at in range(first, first + ENTRY)
                }
                entry = packed(ChangelogEntry(first // ENTRY + 1, now, states, {}, {}, {}, {}), compress=True)
                claim = store.commit(claim, Changes(first + ENTRY, entries=[entry]))


def main(folder: str) -> None:
    """Reads the store as the console does, and asks for each page."""
    file = str(Path(folder) / "app.yaml")
    questions = Questions(loaded(file), Board(lambda: 0.0), LogSystems(file), time.monotonic)
    before, began = _peak(), time.process_time()
    questions.snapshot.get()
    read, keys = time.process_time() - began, set[str]()
    began = time.process_time()
    for first in range(0, GROUPS, PAGE):
        answer = questions.groups({"agent": "a", "order": "key", "first": str(first)})
        keys.update(group["text"] for group in msgspec.json.decode(msgspec.json.encode(answer))["groups"])
    paged = time.process_time() - began
    print(json.dumps({"groups": len(keys), "megabytes": _peak() - before, "read": read, "paged": paged}))


def _peak() -> int:
    """The most memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main(sys.argv[1])
