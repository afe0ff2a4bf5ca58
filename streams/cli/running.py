"""What a run on this machine says of its partitions, asked at its HTTP port: the store does not know that one has
halted."""

import os
import socket

from sluicegate.streams.agent import App, Http

HaltedPartition = tuple[str, str, int, str]
"""Agent, topic, partition, and the owner's name in its claim."""

SECONDS = 1.0
LARGEST = 16 * 1024 * 1024
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104


def member(agent: str, worker: int, pid: int | None = None) -> str:
    """How a worker of this machine is named in its group and its claims."""
    return f"{agent}-{worker}-{socket.gethostname()}-{os.getpid() if pid is None else pid}"


def halted(app: App) -> dict[HaltedPartition, str]:
    """Why a partition stands still until a person acts. Empty when no run answers here within SECONDS."""
    import json

    if app.http is None or app.http.port == 0:
        return {}
    try:
        workers = json.loads(_asked(app.http))["workers"]
        return {
            (
                w["agent"],
                p["topic"],
                p["number"],
                member(w["agent"], w["worker"], w["pid"]),
            ): f"halted, {p['error']}: {p['detail']}"
            for w in workers
            for p in w["partitions"]
            if p["state"] == "halted"
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _asked(http: Http) -> bytes:
    from urllib.request import ProxyHandler, Request, build_opener

    host = EVERYWHERE.get(http.host, http.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{http.port}/status"
    headers = {"Authorization": f"Bearer {http.token}"} if http.token else {}
    with build_opener(ProxyHandler({})).open(Request(url, headers=headers), timeout=SECONDS) as answer:
        content: bytes = answer.read(LARGEST)
    return content
