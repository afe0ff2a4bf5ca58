"""Scripts on Redis servers, the errors of these servers, and the settings on which their durability depends."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec
import redis

from sluicegate.connectors import admission
from sluicegate.connectors.redis.addresses import CERTIFICATES, RedisServer, clustered, sentinels
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import PersistenceError, permanent

LOWEST = (6, 2)
QUOTED = re.compile(r", with args beginning with| to execute \(| : <")

WANTED = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
SETTINGS = (*WANTED, "maxmemory", "maxmemory-policy", "min-replicas-to-write")

NO_DATABASE = "DB index is out of range"
DATABASES = "; correct the number of the database in the store's URL"

ScriptCall = tuple[Sequence[str], Sequence[Any]]
"""Keys and arguments."""


def run_script(server: RedisServer, text: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
    """Sends the script's hash, and the whole script when the server does not know it. The server runs it once in either
    case."""
    with translated():
        try:
            return server().evalsha(_digest(text), len(keys), *keys, *args)
        except redis.exceptions.NoScriptError:
            return server().eval(text, len(keys), *keys, *args)


def run_together(server: RedisServer, text: str, calls: Sequence[ScriptCall]) -> list[Any]:
    """Runs the script once for each call. All calls are sent before the first answer is read, so that the server writes
    to its disk once. A call that failed has a PersistenceError as its answer. Not for a cluster."""
    try:
        with translated(), server().pipeline(transaction=False) as pipeline:
            for keys, args in calls:
                pipeline.evalsha(_digest(text), len(keys), *keys, *args)
            answers = pipeline.execute(raise_on_error=False)
    except PersistenceError as error:
        return [error] * len(calls)
    return [_answered(server, text, call, answer) for call, answer in zip(calls, answers, strict=True)]


def _answered(server: RedisServer, text: str, call: ScriptCall, answer: Any) -> Any:
    try:
        if isinstance(answer, redis.exceptions.NoScriptError):
            return run_script(server, text, *call)
        with translated():
            if isinstance(answer, Exception):
                raise answer
    except PersistenceError as error:
        return error
    return answer


@cache
def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@contextmanager
def translated() -> Iterator[None]:
    """Turns the driver's errors into PersistenceError, without the arguments of ours that the server quotes."""
    try:
        yield
    except (redis.RedisError, redis.exceptions.RedisClusterException) as error:
        text = QUOTED.split(str(error))[0]
        if isinstance(error, redis.AuthenticationError):
            raise admission.refused("redis", text, "the store's URL") from error
        failed = PersistenceError(
            f"redis: {type(error).__name__}: {text[:300]}{DATABASES if NO_DATABASE in text else ''}"
        )
        if isinstance(error, redis.exceptions.NoPermissionError) or NO_DATABASE in text:
            raise permanent(failed) from error
        raise admission.untrusted("redis", text, CERTIFICATES) or failed from error
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise PersistenceError(f"redis: a stored value cannot be read: {type(error).__name__}") from error


def level(server: RedisServer) -> Level:
    """The durability that the servers' settings give. A setting that cannot be read counts as wrong."""
    with translated():
        client = server()
        if clustered(client):
            nodes = {f"{node.name}: ": client.get_redis_connection(node) for node in client.get_primaries()}
            weak = [f"{name}{problem}" for name, node in nodes.items() for problem in _weak(node, False)]
        else:
            weak = list(_weak(client, bool(sentinels(client))))
    return Level("lossy" if weak else "durable", tuple(weak))


def _weak(node: redis.Redis, failover: bool) -> Iterator[str]:
    """The settings that weaken durability. All are asked for in one round trip, because the worker waits for it every
    few seconds."""
    with node.pipeline(transaction=False) as pipeline:
        pipeline.info()
        for name in SETTINGS:
            pipeline.config_get(name)
        info, *settings = [
            {} if isinstance(answer, redis.ResponseError) else answer
            for answer in pipeline.execute(raise_on_error=False)
        ]
    settings_ = dict(
        zip(SETTINGS, (answer.get(name) for name, answer in zip(SETTINGS, settings, strict=True)), strict=True)
    )
    yield from _weak_server(info)
    yield from _weak_settings(settings_)
    if failover or info.get("connected_slaves"):
        # when a replica is promoted, writes that only the primary has are lost: WAIT does not decide which one is
        least = settings_["min-replicas-to-write"]
        if least is None:
            yield "min-replicas-to-write cannot be read (CONFIG GET refused?)"
        elif int(least) < 1:
            yield "min-replicas-to-write is 0: a primary that was replaced goes on acknowledging writes"
        yield "replicas follow asynchronously: a failover may drop acknowledged writes"


def _weak_server(info: dict[str, Any]) -> Iterator[str]:
    if not info:
        yield "INFO cannot be read: role and version are unknown"
        return
    if info.get("role") != "master":
        yield f"role is {info.get('role')}, not master"
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < LOWEST:
        yield f"version is {version}, below {'.'.join(map(str, LOWEST))}"
    if info.get("aof_last_write_status", "ok") != "ok":
        yield "the last write of the append-only file failed"


def _weak_settings(values: Mapping[str, Any]) -> Iterator[str]:
    for name, good in WANTED.items():
        if values[name] is None:
            yield f"{name} cannot be read (CONFIG GET refused?)"
        elif values[name] != good:
            yield f"{name} is {values[name]}, not {good}"
    memory, policy = values["maxmemory"], values["maxmemory-policy"]
    if memory is None or policy is None:
        yield "maxmemory cannot be read (CONFIG GET refused?)"
    elif str(memory) != "0" and policy != "noeviction":
        yield f"maxmemory-policy is {policy}: keys may be evicted; set noeviction"
