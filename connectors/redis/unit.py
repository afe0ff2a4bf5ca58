"""The application's commands and the script of a commit in one MULTI and EXEC."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import redis
from redis.client import Pipeline

from sluicegate.connectors.redis.addresses import RedisServer, clustered
from sluicegate.connectors.redis.connection import QUOTED, translated
from sluicegate.connectors.sessions import REFUSED, RedisSession, working
from sluicegate.streams.errors import ConfigurationError, Fenced, NotCommitted, PersistenceError

# Commands that end the transaction, or change the connection, which is used again.
_ENDING = frozenset(("MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"))
_CHANGING = frozenset(
    ("AUTH", "CLIENT", "HELLO", "MONITOR", "PSUBSCRIBE", "QUIT", "RESET", "SELECT", "SSUBSCRIBE", "SUBSCRIBE")
)
_ANNOTATED = re.compile(r"Command # \d+ \((?P<name>\S+?)[ )].* of pipeline caused error: (?P<reason>.*)", re.DOTALL)

log = logging.getLogger("sluicegate.connectors.redis")
T = TypeVar("T")


class Queue(Pipeline):
    """A pipeline that only queues. The engine sends EXEC. `reading` reads and watches keys before that."""

    reading: Any = None

    def pipeline_execute_command(self, *args: Any, **options: Any) -> Any:
        if str(args[0]).split()[0].upper() in _ENDING | _CHANGING:
            raise ConfigurationError(f"{args[0]}: {REFUSED}")
        return super().pipeline_execute_command(*args, **options)

    def execute(self, raise_on_error: bool = True) -> Any:
        raise ConfigurationError(f"execute: {REFUSED}")

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        raise ConfigurationError(f"{args[0]}: {REFUSED}")

    def __exit__(self, *_: object) -> None:
        """Keeps what is queued."""


@contextmanager
def transaction(server: RedisServer, key: str) -> Iterator[Any]:
    """A pipeline on a connection to the server of the key."""
    with translated():
        client = server()
        node = client.get_redis_connection(client.get_node_from_key(key)) if clustered(client) else client
        pipe = node.pipeline(transaction=True)
    try:
        yield pipe
    finally:
        with translated():
            pipe.reset()


def watched(pipe: Any, keys: Sequence[str], script: Sequence[Any]) -> Any:
    """Watches the keys, then runs the script and returns its answer. EXEC fails when a key has changed since then."""
    with translated():
        pipe.watch(*keys)
        return pipe.immediate_execute_command("EVAL", *script)


def worked(server: RedisServer, pipe: Pipeline, claim_key: str, work: Callable[[RedisSession], T]) -> tuple[T, Queue]:
    """Returns the result of `work`, and the commands that it queued. Raises Raised for an error of `work`, and
    ConfigurationError for keys on other servers."""
    queue = _queue(pipe)
    queue.reading = pipe
    tag = claim_key.removesuffix(":claim")
    result = working(work, RedisSession(queue, lambda name: f"{tag}:own:{name}"))
    _check_slots(server, claim_key, queue)
    return result, queue


@contextmanager
def application(server: RedisServer, beginning: str) -> Iterator[RedisSession]:
    """A transaction outside of any partition. In a cluster its keys are on one server: the server of the keys with this
    beginning."""
    with transaction(server, beginning) as pipe:
        queue = _queue(pipe)
        queue.reading = pipe
        yield RedisSession(queue, lambda name: f"{beginning}own:{name}")
        if queue.command_stack:
            _check_slots(server, beginning, queue)
            executed(pipe, ("SET", f"{beginning}memory", ""), queue)


def _queue(pipe: Pipeline) -> Queue:
    return Queue(pipe.connection_pool, pipe.response_callbacks, True, None)


def _check_slots(server: RedisServer, key: str, queue: Queue) -> None:
    client = server()
    if clustered(client):
        with translated():  # redis-py asks a server which arguments of an unknown command are keys
            for args, _ in queue.command_stack:
                slot = None
                with suppress(redis.exceptions.RedisClusterException):
                    slot = client.determine_slot(*args)
                if slot != client.keyslot(key):
                    raise ConfigurationError(
                        f"{args[0]}: its keys do not all lie with the session in this cluster: "
                        "name them with session.key(name)"
                    )


def executed(pipe: Pipeline, harmless: Sequence[Any], queue: Queue, script: Sequence[Any] = ()) -> Any:
    """Sends MULTI, a harmless command, the queue, the script if there is one, and EXEC. Returns the script's answer."""
    # A server that is out of memory refuses the harmless command, and with it the transaction. What a script will write
    # it does not check before EXEC.
    pipe.pipeline_execute_command(*harmless)
    for args, options in queue.command_stack:
        pipe.pipeline_execute_command(*args, **options)
    if script:
        pipe.pipeline_execute_command("EVAL", *script)
    pipe.scripts |= queue.scripts
    names = [str(args[0]) for args, _ in queue.command_stack]
    with translated():
        _, *answers = _exec(pipe)
        ours = answers.pop() if script else None
        if isinstance(ours, Exception):
            raise ours
    _check_answers(names, answers)
    return ours


def _exec(pipe: Pipeline) -> list[Any]:
    try:
        return pipe.execute(raise_on_error=False)
    except redis.WatchError as error:
        # redis-py raises it for a lost connection, too.
        if isinstance(error.__context__, redis.ConnectionError | redis.TimeoutError):
            raise error.__context__ from None
        raise Fenced("a newer claim or commit came while the handler worked") from None
    except redis.ResponseError as error:
        match = _ANNOTATED.match(str(error))
        if match is None:
            raise
        # A word in capitals, like OOM or READONLY, names a state of the server. Any other text is about the command.
        kind = (
            PersistenceError
            if type(error) is not redis.ResponseError or re.match(r"[A-Z]{3}", match["reason"])
            else NotCommitted
        )
        raise kind(f"redis: {match['name']} was refused before anything ran: {_plain(match['reason'])}") from None


def _check_answers(names: Sequence[str], answers: Sequence[Any]) -> None:
    refused = [
        f"{name} ({_plain(str(answer))})"
        for name, answer in zip(names, answers, strict=True)
        if isinstance(answer, Exception)
    ]
    if refused:
        count = f"{len(refused)} of the {len(names)} commands that the handler queued"
        text = f"redis: the commit landed without {count}, which Redis refused: {'; '.join(refused[:5])}"
        log.error(text)
        raise PersistenceError(text)


def _plain(text: str) -> str:
    return QUOTED.split(text)[0][:200]
