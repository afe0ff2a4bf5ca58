"""The description of the run in the head of the page."""

from typing import Any

from sluicegate.streams import urls
from sluicegate.streams.agent import App
from sluicegate.streams.observe.release import version

PRODUCTS = {
    "memory": "memory",
    "mariadb": "MariaDB",
    "mongodb": "MongoDB",
    "mysql": "MySQL",
    "postgresql": "PostgreSQL",
    "redis": "Redis",
    "rediss": "Redis",
    "sqlite": "SQLite",
}


def about(app: App) -> dict[str, Any]:
    """The app, its store and brokers without users and passwords, and the version of Sluicegate."""
    clusters = [app.kafka, *app.clusters.values()]
    brokers = [str(cluster.get("bootstrap.servers", "")) for cluster in clusters]
    return {"app": app.name, "store": _store(app.store), "broker": "; ".join(brokers), "version": version()}


def _store(url: str) -> str:
    scheme = url.partition(":")[0].partition("+")[0]
    product = PRODUCTS.get(scheme, scheme)
    hosts = "" if urls.uncertain(url) else urls.hosts_of(url)
    return f"{product} at {hosts}" if hosts else product
