"""The lanes of an outbox whose rows go to several clusters. Each cluster has its own relay and producer. The relay
skips rows that wait for another cluster. The relays of a process share the lease of a lane."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.outbox.lane_relay import HeldLane, LaneRelay
from sluicegate.streams.topic_names import cluster_of


class LaneSending(Protocol):
    """The methods of LaneRelay that a dispatcher uses."""

    @property
    def lanes(self) -> Sequence[HeldLane]: ...
    @property
    def away(self) -> str: ...
    @property
    def busy(self) -> bool: ...
    @property
    def sending(self) -> bool: ...
    def send(self, now: float) -> None: ...
    def resize(self, numbers: Sequence[int]) -> None: ...
    def claim_all(self, now: float) -> None: ...
    def expire(self, now: float) -> None: ...
    def turn(self, now: float) -> None: ...
    def close(self) -> None: ...
    def release(self) -> None: ...


def going_to(cluster: str, known: Collection[str]) -> Callable[[LaneRow], bool]:
    """A function that tells whether a row goes to the cluster. The default cluster gets rows of unknown clusters, too;
    its producer refuses them."""
    others = {name for name in known if name}
    if cluster:
        return lambda row: cluster_of(row.topic) == cluster
    return lambda row: cluster_of(row.topic) not in others


class ClusterLanes:
    """The relay of each cluster. Satisfies LaneSending."""

    def __init__(self, relays: Mapping[str, LaneRelay]) -> None:
        self._relays = list(relays.values())

    @property
    def lanes(self) -> Sequence[HeldLane]:
        """The lanes of the first relay: all relays have the same lanes."""
        return self._relays[0].lanes

    @property
    def away(self) -> str:
        return next((relay.away for relay in self._relays if relay.away), "")

    @property
    def busy(self) -> bool:
        return any(relay.busy for relay in self._relays)

    @property
    def sending(self) -> bool:
        return any(relay.sending for relay in self._relays)

    def send(self, now: float) -> None:
        for relay in self._relays:
            relay.send(now)

    def resize(self, numbers: Sequence[int]) -> None:
        for relay in self._relays:
            relay.resize(numbers)

    def claim_all(self, now: float) -> None:
        for relay in self._relays:
            relay.claim_all(now)

    def expire(self, now: float) -> None:
        for relay in self._relays:
            relay.expire(now)

    def turn(self, now: float) -> None:
        for relay in self._relays:
            relay.turn(now)

    def close(self) -> None:
        for relay in self._relays:
            relay.close()

    def release(self) -> None:
        for relay in self._relays:
            relay.release()
