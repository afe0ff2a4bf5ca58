"""Routes the messages that a handler sends without a topic: selects the outputs of the agent, and the encoding of
each."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

from sluicegate.schemas import json
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Clusters
from sluicegate.streams.aggregation.clauses import ClauseFailed
from sluicegate.streams.aggregation.results import ResultFields, Route, of_result, route, selected, taking
from sluicegate.streams.topic_names import CLUSTER, cluster_of, of_input, plain

NO_CLUSTERS = Clusters({})
Encode = Callable[[Any], bytes]


class NotSent(Exception):
    """An expression under `to` has no value for a message that the handler sent (`clause`), or no route matches.
    Another call would send the same, so the call is not retried."""

    def __init__(self, reason: str, error: str, clause: str = "") -> None:
        super().__init__(error)
        self.reason, self.clause = reason, clause


class RoutedOutput(NamedTuple):
    """A message to send: the index in `Agent.outputs` (-1: another topic), the topic, the value, and the encoder for a
    value that is not bytes."""

    number: int
    topic: str
    value: Any
    encode: Encode


class HandlerOutputs:
    """The outputs of an agent with a handler. `whole` is the only output of an agent without routes and `select`.
    Thread-safe."""

    def __init__(self, agent: Agent, clusters: Clusters = NO_CLUSTERS) -> None:
        """Raises ConfigurationError, and ValueError for an output without a schema."""
        self._clusters, self._transactional = clusters, agent.delivery == "transactional"
        self._cluster = of_input(agent.topics)
        outputs = agent.outputs if agent.handler is not None else ()
        self._topics = [output.topic for output in outputs]
        self._encode = [formats.writes(replace(agent, to=output)).encode for output in outputs]
        self._routes = [route(output, of_result) for output in outputs] if agent.chooses else None
        self._drops = agent.unrouted == "drop"
        self._one_at_a_time = Lock()  # an expression may be used by one thread at a time
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.whole = None if self._routes is not None or not self._topics else (self._topics[0], self._encode[0])

    @property
    def topics(self) -> Sequence[str]:
        return self._topics

    def place(self, topic: str) -> str:
        """The name of the topic in rows: TOPIC@CLUSTER for any cluster except the default one. Raises ValueError for an
        unknown cluster."""
        if (
            not isinstance(topic, str)
            or CLUSTER not in topic
            or (cluster := cluster_of(topic)) in self._clusters.others
        ):
            return topic
        if cluster != self._clusters.name:
            raise ValueError(f"topic {topic}: kafka has no cluster {cluster}")
        return plain(topic)

    def to_topic(self, topic: str, value: Any) -> RoutedOutput:
        """The message for a topic that the handler names. No clause is evaluated. Raises ValueError for a cluster that
        is unknown, or that the agent's transactions do not reach."""
        topic = self.place(topic)
        if self._transactional and cluster_of(topic) != self._cluster:
            raise ValueError(f"topic {topic}: delivery transactional sends to the cluster of the agent's input only")
        if topic not in self._topics:
            return RoutedOutput(-1, topic, value, json.encode)
        number = self._topics.index(topic)
        return RoutedOutput(number, topic, value, self._encode[number])

    def route(self, value: Any) -> list[RoutedOutput]:
        """One message for each route that matches the value; empty if it is dropped. Raises NotSent, and TypeError for
        a value to which `select` cannot be applied."""
        if self._routes is None:
            return [RoutedOutput(0, self._topics[0], value, self._encode[0])]
        fields = _fields(value)
        with self._one_at_a_time:
            try:
                outputs = [
                    RoutedOutput(number, self._topics[number], _content(route, value, fields), self._encode[number])
                    for number, route in taking(self._routes, fields, self.outcomes)
                ]
            except ClauseFailed as failed:
                self.outcomes[failed.clause, "failed"] += 1
                raise NotSent("expression-failed", str(failed), failed.clause) from failed
        if not outputs and not self._drops:
            raise NotSent("unrouted", "no route of `to` takes the value that the handler sent")
        return outputs

    def counted(self, outcomes: Counter[tuple[str, str]]) -> None:
        """Add the outcomes of clauses since the last call to `outcomes`."""
        with self._one_at_a_time:
            outcomes.update(self.outcomes)
            self.outcomes.clear()


def _fields(value: Any) -> ResultFields:
    """The fields of the value for expressions, as JSON has them. None, bytes and values that are not objects have no
    fields."""
    if value is None or isinstance(value, bytes):
        return {}
    content = json.decode_any(json.encode(value))
    return content if isinstance(content, dict) else {}


def _content(route: Route, value: Any, fields: ResultFields) -> Any:
    """The value to send. None, for a tombstone, stays None."""
    if value is None or not route.select:
        return value
    if isinstance(value, bytes):
        raise TypeError("send() of bytes: `select` under `to` makes a new value of fields, and bytes have none")
    return selected(route, fields)
