"""An app: a whole file. Its agents, and the systems that they share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from sluicegate.streams.agent.agent import Agent
from sluicegate.streams.agent.dispatch import Outbox, RecurringMessage, Timeouts
from sluicegate.streams.keys import FileKey


@dataclass(frozen=True)
class Http:
    """The HTTP port of the supervisor."""

    port: Annotated[int, FileKey("The TCP port. 0 lets the system choose one.", 9464, least=0, most=65535)] = 9464
    host: Annotated[str, FileKey("The address to listen on. Any other than loopback needs a `token`.", "127.0.0.1")] = (
        "127.0.0.1"
    )
    token: Annotated[
        str | None,
        FileKey(
            "The bearer token that all but the probes and metrics ask for, of at least 16 characters.",
            "${STATUS_TOKEN}",
        ),
    ] = field(default=None, repr=False)
    console: Annotated[
        bool, FileKey("Whether `/` serves the console, a page to look at and to act on groups.", True)
    ] = False
    state: Annotated[
        bool, FileKey("Whether `/agents/AGENT/groups/KEY` serves the committed state of each key, as JSON.", True)
    ] = False


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """OAuth 2.0 client credentials: bearer tokens are requested at `token_url`. `logical_cluster` and `identity_pool`
    are sent to the registry in headers, as Confluent Cloud requires."""

    token_url: str
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    scope: str = ""
    logical_cluster: str = ""
    identity_pool: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """The schema registry: requests go to the first of `urls` that answers within `timeout` seconds. `ca`,
    `certificate` and `key` are TLS files. `token` is a bearer token, and `oauth` requests such tokens, instead of a
    user name and a password."""

    urls: tuple[str, ...] = field(repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    timeout: float = 3.0
    token: str | None = field(default=None, repr=False)
    oauth: OAuthClient | None = None


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class AppSettings:
    """Keys at the top of the file."""

    accept_level: Annotated[
        Literal["durable", "lossy", "volatile"],
        FileKey("The weakest durability of the store that `run` accepts.", "durable", after="dead_letters"),
    ] = "durable"
    auto_migrate: Annotated[
        bool | None,
        FileKey(
            "Whether `run` makes and upgrades the schema of the store. Unless it is written, it does in SQLite, Redis "
            "and memory, and `sluicegate migrate` does in the others.",
            True,
        ),
    ] = None
    allow_plaintext: Annotated[bool, FileKey("Permits connections to other machines without TLS.", True)] = False
    start_timeout: Annotated[float, FileKey("How long `run` waits for the store and the brokers.", "30s")] = 30.0


ClusterSettings = dict[str, str | int | float | bool]
"""Settings of librdkafka; `bootstrap.servers` may be `embedded`."""
EMBEDDED = "embedded"


class Clusters(ClusterSettings):
    """The settings of the default cluster, whose name is `name`, and in `others` the settings of the other clusters by
    name. A file with one cluster has no others, and may have no name for it."""

    def __init__(
        self, settings: Mapping[str, Any], others: Mapping[str, ClusterSettings] | None = None, name: str = ""
    ) -> None:
        super().__init__(settings)
        self.name = name
        self.others = {other: dict(of) for other, of in (others or {}).items()}

    def of(self, cluster: str) -> "Clusters":
        """The settings of one cluster only, by the name that its topics use (empty: the default cluster)."""
        return Clusters(self.others[cluster] if cluster else self, None, cluster or self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that topics use for the clusters. The first one is empty: the default cluster."""
        return ("", *self.others)


@dataclass(frozen=True, slots=True)
class App(AppSettings):
    """A whole file. `kafka` has the settings of the default cluster, whose name is `cluster`. `clusters` has the
    settings of the other clusters by name. Relative SQLite paths start at `folder`. With `outbox` None, `run` sends no
    rows of the outbox; with `timeouts` None, no timeouts. `repr` omits the fields that may hold secrets."""

    name: str
    store: str = field(repr=False)
    agents: tuple[Agent, ...]
    kafka: ClusterSettings = field(default_factory=dict, repr=False)
    http: Http | None = field(default_factory=Http)
    folder: str = "."
    outbox: Outbox | None = None
    timeouts: Timeouts | None = None
    registry: Registry | None = None
    schedules: tuple[RecurringMessage, ...] = ()
    clusters: dict[str, ClusterSettings] = field(default_factory=dict, repr=False)
    cluster: str = ""

    @property
    def brokers(self) -> Clusters:
        """The settings of all clusters, for connectors."""
        return Clusters(self.kafka, self.clusters, self.cluster)

    @property
    def embedded(self) -> bool:
        """Whether a broker runs inside `run` and serves only this run."""
        return any(settings.get("bootstrap.servers") == EMBEDDED for settings in (self.kafka, *self.clusters.values()))
