"""Guards of several clusters: which one a topic is in, and that one that is down holds up no other."""

from tests.mutation.guard import NEVER, Guard

FILE = ("tests/unit/config/test_clusters.py",)
SPLIT = ("tests/unit/engine/test_split.py",)
REAL = ("tests/integration/clusters/test_clusters.py",)
FIELDS = "streams/config/sections/fields.py"
CHECKS = "streams/config/checking/clusters.py"
PARTS = "streams/outbox/split.py"
ROUTED = "connectors/kafka/clusters/routed.py"
LANES = "streams/outbox/lane_relay.py"

GUARDS = (
    Guard(
        "a topic of the same name in another cluster is another topic",
        FIELDS,
        "return on_cluster(topic, cluster_named(cluster, info)) if cluster else value",
        "return topic",
        FILE,
    ),
    Guard(
        "a topic of the default cluster has one name",
        FIELDS,
        'return "" if name == clusters.default else name',
        "return name",
        FILE,
    ),
    Guard("a cluster that is not known is refused", FIELDS, "if name not in clusters.settings:", NEVER, FILE),
    Guard(
        "an agent reads topics of one cluster",
        CHECKS,
        "if not legs and len({cluster_of(source.name) for source in reader.from_}) > 1:",
        NEVER,
        FILE,
    ),
    Guard("a transaction is of one cluster", CHECKS, "if cluster_of(topic) != cluster:", NEVER, FILE),
    Guard(
        "a handler sends no message out of the cluster of its transaction",
        "streams/handlers/sending.py",
        "if self._transactional and cluster_of(topic) != self._cluster:",
        NEVER,
        FILE,
    ),
    Guard(
        "rows without an order are of one cluster",
        CHECKS,
        'if file.outbox and file.outbox.order == "none"',
        "if False",
        FILE,
    ),
    Guard(
        "rows of one cluster do not wait for those of another",
        PARTS,
        'return cluster if cluster in self.parts else ""',
        'return ""',
        SPLIT,
    ),
    Guard(
        "rows in the store are found behind those of another cluster",
        "streams/outbox/relay.py",
        "            if self._mine is None:\n                break\n",
        "            break\n",
        SPLIT,
    ),
    Guard(
        "a row of a cluster that is not known is sent nowhere",
        ROUTED,
        "lambda row: cluster_of(row.topic) in self._names",
        "lambda row: True",
        SPLIT,
    ),
    Guard(
        "receivers in other apps know a topic by its plain name",
        "streams/outbox/rows.py",
        "{app}/{agent}/{source}/{number}>{plain(topic)}#{lineage}",
        "{app}/{agent}/{source}/{number}>{topic}#{lineage}",
        SPLIT,
    ),
    Guard(
        "a batch of one cluster marks no row of another",
        LANES,
        "if outcomes is None and batch is not None and self._mine is not None:",
        NEVER,
        REAL,
        "down",
    ),
)
