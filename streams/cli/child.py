"""`python -m streams.cli.child`: a worker's process, where the engine meets the connectors. It imports little: it starts often."""

import gc
import random
import sys
import time
import uuid

from connectors import open_store
from streams.cli.running import member
from streams.engine.build import build
from streams.engine.child import Place, Report, Runner, main
from streams.engine.pool import Threads
from streams.engine.worker import Parts
from streams.observe.metrics import Meter


class SystemClock:
    """Satisfies streams.contracts.Clock."""

    def monotonic(self) -> float:
        """Seconds that never go back, the same for all processes of this machine."""
        return time.monotonic()


def make_worker(place: Place, report: Report) -> Runner:
    """A worker with its own store connection and Kafka clients. Raises ConfigurationError and SystemNotReady."""
    from connectors.kafka.consumer import open_input
    from connectors.kafka.producer import open_producer

    app, agent = place.app, place.agent
    name = member(agent.name, place.worker)
    parts = Parts(
        store=open_store(app.store, app.folder),
        input=open_input(app.kafka, f"{app.name}.{agent.name}", agent.topics, name),
        producer=open_producer(app.kafka),
        clock=SystemClock(),
        meter=Meter(),
        random=random.random,
        token=lambda: uuid.uuid4().hex,
        report=report,
        pool=Threads,
    )
    return build(app, agent, place.worker, name, place.on_rule_change, parts)


if __name__ == "__main__":
    gc.set_threshold(100_000, 50, 100)  # every consumed message counts as a new object: collecting each 700 of them cost J1 3 to 5 %
    sys.exit(main(make_worker))
