"""`python -m tests.integration.supervised.program SETTINGS`: the product's supervisor over the workers of
`worker.py`."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Http, Outbox
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.processes import supervisor
from sluicegate.streams.processes.process import out_of_memory_kills
from sluicegate.streams.processes.supervisor import Pace, Pause, run


def main(settings: dict) -> int:
    agents = tuple(Agent(name, ("t",), Aggregation(count=1), Destination("o"), "d") for name in settings["agents"])
    http = Http(port=0, **settings.get("http", {}))
    store, outbox = settings.get("store", "sqlite:///state.db"), Outbox() if settings.get("dispatches") else None
    kafka = {"bootstrap.servers": "localhost:9092"}
    app = App("app", store, agents, kafka, http=http, folder=settings["folder"], outbox=outbox)

    @contextmanager
    def prepare(app: App, names: Sequence[str], pause: Pause) -> Iterator[App]:
        if settings.get("prepare") == "refuses":
            raise SystemNotReady("no such topic: t; make it with `sluicegate topics FILE --create`")
        if settings.get("prepare") == "waits":
            pause(3600)
        yield app

    command = (sys.executable, "-m", "tests.integration.supervised.worker")
    supervisor.SAME_SIGNAL = settings.get("same_signal", supervisor.SAME_SIGNAL)
    if "counters" in settings:
        supervisor.out_of_memory_kills = lambda: out_of_memory_kills(Path(settings["counters"]))
    pace = Pace(**settings.get("pace", {}))
    return run(app, settings.get("only", ()), settings.get("workers", 1), prepare=prepare, command=command, pace=pace)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
