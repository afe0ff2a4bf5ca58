"""The handler of an agent: its calls, their repetitions and their limits."""

from dataclasses import dataclass
from typing import Annotated, Literal

from sluicegate.streams.keys import FileKey


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class LimitSettings:
    """Keys of `throttle` and of `rate_limit`."""

    limit: Annotated[int, FileKey("The number of calls, over all workers of the agent.", 100)] = 0
    per: Annotated[float, FileKey("The time in which they may begin, by the store's clock.", "1s")] = 1.0
    key: Annotated[
        str,
        FileKey(
            "An expression over the message, or over the result of a group. Each value of it has a limit of its own.",
            "tenant",
            kind="expression",
        ),
    ] = ""


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class ThrottleSettings(LimitSettings):
    """Keys of `throttle`."""

    burst: Annotated[
        int,
        FileKey(
            "The number of further calls that may begin at once, of a key that was idle.", 20, least=0, most=1_000_000
        ),
    ] = 0


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class RateLimitSettings(LimitSettings):
    """Keys of `rate_limit`."""

    over: Annotated[
        Literal["dead-letter", "drop"], FileKey("What happens to a message or a group beyond the limit.", "drop")
    ] = "dead-letter"


@dataclass(frozen=True, slots=True)
class Throttle(ThrottleSettings):
    """At most `limit + burst` calls begin in any `per` seconds. The others wait."""


@dataclass(frozen=True, slots=True)
class RateLimit(RateLimitSettings):
    """At most `limit` messages or groups are taken for calls in any `per` seconds."""


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class HandlerSettings:
    """Keys of an agent with a handler."""

    session: Annotated[
        bool,
        FileKey(
            "Whether the handler gets the transaction of the store, in which it may write rows of its own.",
            True,
            after="handler",
        ),
    ] = False
    concurrency: Annotated[
        int,
        FileKey(
            "With 1 or more, so many calls of the handler run at a time, outside of the commit. 0: within the commit.",
            8,
            least=0,
            most=1000,
        ),
    ] = 0
    priority: Annotated[
        str,
        FileKey(
            "An expression that gives a number. Of the calls that wait, those with the highest number begin first.",
            "int(plan == 'gold')",
            kind="expression",
        ),
    ] = ""
    singleton: Annotated[
        str,
        FileKey(
            "An expression. For each value of it one call runs at a time, over all workers of the agent.",
            "account",
            kind="expression",
        ),
    ] = ""
    then: Annotated[
        Literal["dead-letter", "stop", "park"],
        FileKey(
            "What happens after the last attempt: `dead-letter`, `stop` halts the partition, `park` sets the record "
            "aside for `parked retry`.",
            "park",
            after="retry",
        ),
    ] = "dead-letter"


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class RetrySettings:
    """Keys of `retry`."""

    attempts: Annotated[int, FileKey("How often the handler is called, with the first attempt.", 5)] = 5
    isolate_after: Annotated[
        int, FileKey("After this many failures the messages of a group are tried alone.", 2, after="backoff")
    ] = 0


@dataclass(frozen=True, slots=True)
class Handler(HandlerSettings, RetrySettings):
    """The application's own code. The `functions` (`module:function`) are called in order for each message, or for each
    completed group of an aggregation.

    With `session`, they get the store's transaction. With `concurrency` 0, they run inside the commit. Otherwise at
    most `concurrency` calls run at a time in threads of the worker, outside the commit, after the message or group was
    sealed in the store.

    A failed call is repeated up to `attempts` calls in all, with a back-off from `backoff_first` to `backoff_most`
    seconds. Meanwhile its partition waits; with `concurrency`, only its key waits. After `isolate_after` failures of a
    completed group, its messages are tried one by one to find those that fail; 0 turns this off. `then` is the action
    after the last attempt. `park` keeps the item and its key until an operator acts.

    A call that raises one of the `outages` (classes of errors, `package.Name`) counts no attempt: a system does not
    answer.

    `throttle`, `rate_limit`, `priority` and `singleton` need `concurrency`.
    """

    functions: tuple[str, ...]
    backoff_first: float = 1.0
    backoff_most: float = 60.0
    outages: tuple[str, ...] = ()
    throttle: Throttle | None = None
    rate_limit: RateLimit | None = None
