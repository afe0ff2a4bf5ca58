"""One Redis server: its client, its errors, and what its durability rests on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from streams.errors import ConfigurationError, PersistenceError
from streams.values import Level

CONNECT_SECONDS = 5
REPLY_SECONDS = 10
LOWEST = (6, 2)

Script = Callable[[Sequence[str], Sequence[Any]], Any]


def client(url: str) -> Any:
    """Nothing is repeated by the driver: whether a lost commit landed is for the next claim to say."""
    try:
        server = redis.Redis.from_url(
            url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=REPLY_SECONDS,
            socket_keepalive=True,
        )
        # Not connected yet, but it reads the options of the URL, which from_url does not.
        server.connection_pool.make_connection()
    except (ValueError, TypeError):
        raise ConfigurationError("the Redis URL cannot be read: redis://[user:password@]host[:port][/database]") from None
    return server


def script(server: Any, text: str) -> Script:
    """Run by its hash, sent in full when the server does not know it; the server runs it once in either case."""
    registered = server.register_script(text)

    def run(keys: Sequence[str], args: Sequence[Any]) -> Any:
        with translated():
            return registered(keys=keys, args=args)

    return run


@contextmanager
def translated() -> Iterator[None]:
    """The driver's errors become PersistenceError, without what the server quotes of our arguments."""
    try:
        yield
    except redis.RedisError as error:
        text = str(error).split(", with args beginning with")[0]
        raise PersistenceError(f"redis: {type(error).__name__}: {text[:300]}") from error
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise PersistenceError(f"redis: a stored value cannot be read: {type(error).__name__}") from error


def level(server: Any) -> Level:
    """What the settings of this server give; a setting that cannot be read counts as wrong."""
    with translated():
        weak = [*_weak_server(_answer(server.info)), *_weak_settings(lambda name: _answer(lambda: server.config_get(name)))]
    return Level("lossy" if weak else "durable", tuple(weak))


def _answer(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Empty when the server refuses to tell."""
    try:
        return ask()
    except redis.ResponseError:
        return {}


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


def _weak_settings(read: Callable[[str], dict[str, Any]]) -> Iterator[str]:
    wanted = (("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no"))
    for name, good in wanted:
        found = read(name).get(name)
        if found is None:
            yield f"{name} cannot be read (CONFIG GET refused?)"
        elif found != good:
            yield f"{name} is {found}, not {good}"
    memory, policy = read("maxmemory").get("maxmemory"), read("maxmemory-policy").get("maxmemory-policy")
    if memory is None or policy is None:
        yield "maxmemory cannot be read (CONFIG GET refused?)"
    elif str(memory) != "0" and policy != "noeviction":
        yield f"maxmemory-policy is {policy}: keys may be evicted; set noeviction"
