"""The reasons why partitions do not go on, from the HTTP port of a run on this machine. The store does not have
them."""

import os
import socket
from typing import NamedTuple

from sluicegate.streams.agent import App, Http

AgentPartition = tuple[str, str, int]
"""Agent, topic, partition."""

SECONDS = 1.0  # seconds for an answer
LARGEST = 16 * 1024 * 1024  # bytes of an answer
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104


def member(agent: str, worker: int, pid: int | None = None) -> str:
    """The name of a worker of this machine in its consumer group and its claims."""
    return f"{agent}-{worker}-{socket.gethostname()}-{os.getpid() if pid is None else pid}"


class RunPartition(NamedTuple):
    """The report of a run's worker about one of its partitions. `owner` is the name in its claims."""

    owner: str
    state: str
    error: str | None
    detail: str | None

    def note(self, owner: str | None) -> str | None:
        """The reason why the partition does not go on. `owner` is the name in its claim: a worker that has halted
        reports only about its own claim."""
        if self.state == "halted":
            return f"halted, {self.error}: {self.detail}" if owner == self.owner else None
        return None if self.detail is None else f"{'retrying' if self.error == 'failed' else 'waits'}: {self.detail}"


def partitions(app: App) -> dict[AgentPartition, RunPartition]:
    """The partitions of the run. Empty when no run answers here within SECONDS."""
    import json

    if app.http is None or app.http.port == 0:
        return {}
    known: dict[AgentPartition, RunPartition] = {}
    try:
        for worker in json.loads(_fetch(app.http))["workers"]:
            owner = member(worker["agent"], worker["worker"], worker["pid"])
            for p in worker["partitions"]:
                place = worker["agent"], p["topic"], p["number"]
                known[place] = RunPartition(owner, p["state"], p["error"], p["detail"])
        return known
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _fetch(http: Http) -> bytes:
    from urllib.request import ProxyHandler, Request, build_opener

    host = EVERYWHERE.get(http.host, http.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{http.port}/status"
    headers = {"Authorization": f"Bearer {http.token}"} if http.token else {}
    with build_opener(ProxyHandler({})).open(Request(url, headers=headers), timeout=SECONDS) as answer:
        return bytes(answer.read(LARGEST))
