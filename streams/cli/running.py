"""The partitions that have halted, from the HTTP port of a run on this machine, since the store does not know them."""

import os
import socket

from sluicegate.streams.agent import App, Http

HaltedPartition = tuple[str, str, int, str]
"""Agent, topic, partition, and the name of the owner in its claim."""

SECONDS = 1.0  # for an answer
LARGEST = 16 * 1024 * 1024  # bytes of an answer
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104


def member(agent: str, worker: int, pid: int | None = None) -> str:
    """The name of a worker of this machine in its consumer group and its claims."""
    return f"{agent}-{worker}-{socket.gethostname()}-{os.getpid() if pid is None else pid}"


def halted(app: App) -> dict[HaltedPartition, str]:
    """Why a partition has halted. Empty when no run answers here within SECONDS."""
    import json

    if app.http is None or app.http.port == 0:
        return {}
    found: dict[HaltedPartition, str] = {}
    try:
        for worker in json.loads(_asked(app.http))["workers"]:
            owner = member(worker["agent"], worker["worker"], worker["pid"])
            for p in worker["partitions"]:
                if p["state"] == "halted":
                    found[worker["agent"], p["topic"], p["number"], owner] = f"halted, {p['error']}: {p['detail']}"
        return found
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _asked(http: Http) -> bytes:
    from urllib.request import ProxyHandler, Request, build_opener

    host = EVERYWHERE.get(http.host, http.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{http.port}/status"
    headers = {"Authorization": f"Bearer {http.token}"} if http.token else {}
    with build_opener(ProxyHandler({})).open(Request(url, headers=headers), timeout=SECONDS) as answer:
        return bytes(answer.read(LARGEST))
