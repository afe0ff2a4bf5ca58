"""Checks what an agent reads and writes where `kafka` names several clusters."""

from collections.abc import Iterator

from sluicegate.streams.config.checking.written import uses
from sluicegate.streams.config.sections import kafka
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.topic_names import cluster_of

ONE_INPUT = "names topics of two clusters, and a worker is a member of one consumer group, in one cluster"
FORWARD = "forward one to a topic of the other cluster first, or use correlate, whose legs may have a cluster each"
ONE_TRANSACTION = (
    "needs everything that the agent reads and writes in one cluster: a Kafka transaction covers the offsets and the "
    "records of one cluster"
)


def findings(file: FileModel, name: str, agent: AgentModel) -> Iterator[FileFinding]:
    path: Path = ("agents", name)
    for below, reader in agent.readers.items():
        legs = agent.correlate is not None and not below  # together they may be of several
        if not legs and len({cluster_of(source.name) for source in reader.from_}) > 1:
            at = (*path, *below, "from")
            yield FileFinding(at, ONE_INPUT, FORWARD, (at, ("kafka",)))
    if agent.delivery == "transactional":
        yield from _transactional(file, name, agent)


def order(file: FileModel) -> Iterator[FileFinding]:
    """Rows without an order are leased one by one, whatever their cluster."""
    if file.outbox and file.outbox.order == "none" and len(kafka.clusters_of(file.kafka).settings) > 1:
        at: Path = ("outbox", "order")
        what = "is for one cluster: where rows have no order, a cluster that is down would hold up those of the others"
        yield FileFinding(at, what, "leave it out", (at, ("kafka",)))


def _transactional(file: FileModel, name: str, agent: AgentModel) -> Iterator[FileFinding]:
    delivery: Path = ("agents", name, "delivery")
    reads = [source.name for reader in agent.readers.values() for source in reader.from_]
    cluster, places = cluster_of(reads[0]) if reads else "", kafka.clusters_of(file.kafka)
    for topic, what in [
        *((topic, "reads") for topic in reads),
        *((use.topic, "writes") for use in uses(file) if use.agent == name),
    ]:
        if cluster_of(topic) != cluster:
            known = places.default
            its, own = (cluster_of(topic) or known), (cluster or known)
            why = f"it reads from {own}, and {what} {topic} of {its}"
            hint = f"leave it out (delivery at-least-once holds across clusters), or keep to {own}; {why}"
            yield FileFinding(delivery, ONE_TRANSACTION, hint, (delivery, ("agents", name)))
            return
