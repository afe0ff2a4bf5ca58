"""`python -m sluicegate.streams.cli.child`: the process of a worker or of the dispatcher. It imports little, because it
starts often."""

import gc
import os
import random
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import cache, partial

from sluicegate.connectors import open_store
from sluicegate.streams.agent import Agent, App, Outbox, Timeouts
from sluicegate.streams.calling.pool import Threads
from sluicegate.streams.cli.watching.running import member
from sluicegate.streams.contracts.options import LeasedOptions, OutboxOptions, TimeoutOptions
from sluicegate.streams.contracts.stores import OutputTransactions, Store
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.engine.following import FollowingWorker
from sluicegate.streams.engine.worker import WorkerDependencies
from sluicegate.streams.observe import tracing
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.processes.child import ReportStatus, Runner, WorkerPlan, end, main
from sluicegate.streams.topic_names import looks_for_topics, of_input
from sluicegate.streams.versions import live_keys

# Thresholds of the garbage collector. Each consumed message is a new object: a collection for each 700 of them costs 3
# to 5 % of the throughput, and a full collection walks over all groups in memory: 0.3 s for 800,000 of them.
COLLECTIONS = 100_000, 50, 100


@cache
def spans(app: str) -> tracing.Spans | None:
    """The spans of this process, if the environment asks for them. Raises ConfigurationError."""
    return tracing.opened(os.environ, app, time.time_ns)


def store_of(app: App) -> Store:
    """A connection to the store, with the file's options for the leased contracts."""
    if app.registry is not None:
        from sluicegate.streams.cli.opening import registry

        registry.use(app)
    outbox, timeouts = app.outbox or Outbox(), app.timeouts or Timeouts()
    first, most = timedelta(seconds=outbox.backoff_first), timedelta(seconds=outbox.backoff_most)
    options = LeasedOptions(
        timeouts=TimeoutOptions(timedelta(seconds=timeouts.lease), timeouts.batch),
        outbox=OutboxOptions(outbox.attempts, first, most),
        app=app.name,
    )
    return open_store(app.store, app.folder, options=options)


def _name() -> str:
    return uuid.uuid4().hex


def make_dispatcher(app: App, report: ReportStatus) -> Runner:
    """A dispatcher with its own store connections and producer. Raises ConfigurationError and SystemNotReady."""
    from sluicegate.connectors.kafka.clusters.routed import open_producer
    from sluicegate.connectors.kafka.settings import DISPATCHER_DEFAULTS
    from sluicegate.streams.outbox import dispatcher

    store, producer = store_of(app), open_producer(app.brokers, DISPATCHER_DEFAULTS)
    parts = dispatcher.DispatcherDependencies(
        spans=spans(app.name),
        mac=live_keys.opened(store, app.name, _name, time.monotonic),
        store=store,
        close=store.close,
        source=store.incarnation,
        producer=producer,
        outputs=getattr(producer, "outputs", {}),
        clock=time,
        time=time.time,
        meter=Meter(),
        random=random.random,
        token=_name,
        report=report,
        pool=Threads(dispatcher.THREADS),
    )
    return dispatcher.Dispatcher(app, parts)


def transactions(app: App, agent: Agent) -> Callable[[Partition], OutputTransactions] | None:
    """A function that opens the transactions of a shard of the agent; None without transactional delivery. Raises
    ConfigurationError."""
    if agent.delivery != "transactional":
        return None
    from sluicegate.connectors.kafka.transactions import open_transactions

    return open_transactions(app.brokers.of(of_input(agent.topics)), app.name, agent.name)


def make_worker(place: WorkerPlan, report: ReportStatus) -> Runner:
    """A worker with its own store connection and Kafka clients. Raises ConfigurationError and SystemNotReady."""
    from sluicegate.connectors.kafka.clusters.inputs import open_input
    from sluicegate.connectors.kafka.clusters.routed import open_producer, open_table

    app, agent = place.app, place.agent
    name = member(agent.name, place.worker)
    instance = f"{place.worker}-{place.run}" if place.run else ""
    store, producer = store_of(app), open_producer(app.brokers)
    parts = WorkerDependencies(
        spans=spans(app.name),
        store=store,
        mac=live_keys.opened(store, app.name, _name, time.monotonic),
        input=open_input(
            app.brokers, f"{app.name}.{agent.name}", agent.topics, name, True, looks_for_topics(agent), instance
        ),
        producer=producer,
        outputs=getattr(producer, "outputs", {}),
        clock=time,
        meter=Meter(),
        random=random.random,
        token=_name,
        report=report,
        pool=Threads,
        transactions=transactions(app, agent),
        table=partial(open_table, app.brokers),
        probes_first=place.probes_first,
    )
    return FollowingWorker(app, agent, place.worker, name, place.on_rule_change, parts)


if __name__ == "__main__":
    gc.set_threshold(*COLLECTIONS)
    end(main(make_worker, make_dispatcher))
