"""The configuration as frozen values: an app, its agents and their aggregations.

`sluicegate.streams.config` loads a YAML file into these values; an application may also build them. All of them can be
written as JSON and read back: the supervisor passes them to its child processes as JSON. Durations are in seconds,
sizes in bytes.

Classes whose names end with Settings, and OnError, Http and Timeouts, are tables of the keys of the file
(sluicegate.streams.keys). A new key that the file and the code have in one form is one entry there.
"""

from sluicegate.streams.agent.agent import Agent, AgentSettings
from sluicegate.streams.agent.app import (
    EMBEDDED,
    App,
    AppSettings,
    Clusters,
    ClusterSettings,
    Http,
    OAuthClient,
    Registry,
)
from sluicegate.streams.agent.dispatch import Outbox, OutboxSettings, RecurringMessage, Threshold, Timeouts
from sluicegate.streams.agent.groups import (
    Aggregation,
    DataDeadline,
    Emit,
    EmitSettings,
    GroupSettings,
    Reducer,
    Scalar,
    Until,
)
from sluicegate.streams.agent.handler import (
    Handler,
    HandlerSettings,
    RateLimit,
    RateLimitSettings,
    RetrySettings,
    Throttle,
    ThrottleSettings,
)
from sluicegate.streams.agent.outputs import Destination, EventEnvelope, Selected
from sluicegate.streams.agent.records import DedupeSettings, Deduplication, Let, Lookup, OnError
from sluicegate.streams.agent.windows import Correlation, Window

__all__ = [
    "EMBEDDED",
    "Agent",
    "AgentSettings",
    "Aggregation",
    "App",
    "AppSettings",
    "ClusterSettings",
    "Clusters",
    "Correlation",
    "DataDeadline",
    "DedupeSettings",
    "Deduplication",
    "Destination",
    "Emit",
    "EmitSettings",
    "EventEnvelope",
    "GroupSettings",
    "Handler",
    "HandlerSettings",
    "Http",
    "Let",
    "Lookup",
    "OAuthClient",
    "OnError",
    "Outbox",
    "OutboxSettings",
    "RateLimit",
    "RateLimitSettings",
    "RecurringMessage",
    "Reducer",
    "Registry",
    "RetrySettings",
    "Scalar",
    "Selected",
    "Threshold",
    "Throttle",
    "ThrottleSettings",
    "Timeouts",
    "Until",
    "Window",
]
