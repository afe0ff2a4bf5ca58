"""The Kafka release that the brokers resemble, and the features that they lack. Some systems speak only a part of
Kafka's protocol."""

from collections.abc import Iterator, Mapping

from sluicegate.connectors.kafka import brokers
from sluicegate.connectors.kafka.clusters.asking import naming_cluster
from sluicegate.connectors.kafka.settings import by_the_broker
from sluicegate.streams.agent import App, Clusters
from sluicegate.streams.cli.terminal.finding import SystemFinding
from sluicegate.streams.topic_names import of_input

HINTS: Mapping[str, str] = {
    "group.protocol": "leave out kafka: group.protocol",
    "delivery": "write delivery: outbox, or use brokers that have them",
}


def findings(app: App, timeout: float) -> Iterator[SystemFinding]:
    """The findings about each cluster. Raises SystemNotReady."""
    for cluster in app.brokers.names:
        of = app.brokers.of(cluster)
        with naming_cluster(of):
            yield from _of_cluster(app, of, cluster, timeout)


def _of_cluster(app: App, kafka: Clusters, cluster: str, timeout: float) -> Iterator[SystemFinding]:
    versions, which = brokers.versions(kafka, timeout), f" of {kafka.name}" if app.clusters else ""
    if not versions:
        return
    release = brokers.release(versions)
    oldest = brokers.RELEASES[-1][0]
    like = f"like Kafka {release}" if release else f"like a Kafka before {oldest}, or like another product"
    yield SystemFinding("kafka", True, f"the brokers{which} answer {like}")
    settings = {"group.protocol": by_the_broker(kafka)}
    here = [agent for agent in app.agents if of_input(agent.topics) == cluster]
    settings["delivery"] = any(agent.delivery == "transactional" for agent in here)
    for need in brokers.lacking(versions):
        if settings.get(need.setting, True):
            hint = HINTS.get(need.setting, "use other brokers" if need.always else "")
            yield SystemFinding(
                "kafka", not (need.always or need.setting), f"the brokers{which} have {need.lack}", hint
            )
