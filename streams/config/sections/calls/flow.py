"""Flow control of the calls of a handler, as the file writes it: `throttle`, `rate_limit`, `priority`, `singleton`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from sluicegate.streams import agent as run
from sluicegate.streams.config.sections import entries
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import unless_unknown
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.units import spoken_duration

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models_agent import AgentModel

THROTTLE, RATE_LIMIT = "throttle", "rate_limit"
LIMITS = THROTTLE, RATE_LIMIT
KEYS = *LIMITS, "priority", "singleton"
SHORTEST = 0.1  # seconds: a call begins some hundredths of a second after its commit


class ThrottleModel(FilePart, run.ThrottleSettings, frozen=True):
    """`limit` calls in each time `per`, and `burst` more at once."""


class RateLimitModel(FilePart, run.RateLimitSettings, frozen=True):
    """`limit` calls in each time `per`, and the fate of calls `over` it."""


ThrottleField = Annotated[ThrottleModel, unless_unknown(lambda: ThrottleModel(limit=1))]
RateLimitField = Annotated[RateLimitModel, unless_unknown(lambda: RateLimitModel(limit=1))]


def built(agent: "AgentModel") -> dict[str, Any]:
    """The values of the handler."""
    throttle, rate = agent.throttle, agent.rate_limit
    return {
        THROTTLE: None if throttle is None else run.Throttle(**entries.values(run.ThrottleSettings, throttle)),
        RATE_LIMIT: None if rate is None else run.RateLimit(**entries.values(run.RateLimitSettings, rate)),
    }


def written(handler: run.Handler) -> dict[str, object]:
    """The tree of the file."""
    throttle, rate = handler.throttle, handler.rate_limit
    tree: dict[str, object] = {} if throttle is None else {THROTTLE: entries.written(run.ThrottleSettings, throttle)}
    return tree | ({} if rate is None else {RATE_LIMIT: entries.written(run.RateLimitSettings, rate)})


def texts(agent: "AgentModel", path: Path) -> Iterator[tuple[Path, str]]:
    """The expressions by their places in the file."""
    for name in LIMITS:
        limit = getattr(agent, name)
        if limit is not None and limit.key:
            yield (*path, name, "key"), limit.key
    for name in ("priority", "singleton"):
        if text := getattr(agent, name):
            yield (*path, name), text


def findings(agent: "AgentModel", path: Path) -> Iterator[FileFinding]:
    """Problems: keys that flow control needs or excludes."""
    for name in LIMITS:
        limit, at = getattr(agent, name), (*path, name)
        if limit is None:
            continue
        if not limit.limit:
            yield FileFinding((*at, "limit"), "is missing", "write limit: 100, or another number of calls", (at,))
        if limit.per < SHORTEST:
            what = f"is below {SHORTEST:g} s"
            yield FileFinding((*at, "per"), what, "write 1s, and a lower limit", ((*at, "per"),))
    if agent.handler is None:
        return
    for name in [name for name in KEYS if getattr(agent, name)]:
        at, scope, slow = (*path, name), (*path, "scope"), (*path, "concurrency")
        if agent.scope == "shared":
            what = "needs scope partition: batches of a shared buffer are called in the order of their leases"
            yield FileFinding(at, what, "leave one of the two out", (at, scope))
        elif not agent.concurrency:
            what = "needs concurrency: a call inside of the commit cannot wait, and nothing can pass it"
            yield FileFinding(at, what, "write concurrency: 1 or more beside it", (at, slow))


def meaning(handler: run.Handler, dead_letters: str) -> Iterator[str]:
    """Its effect, as sentences."""
    if (throttle := handler.throttle) is not None:
        burst = f", and {throttle.burst} more at once after a pause" if throttle.burst else ""
        yield f"begins at most {_limit(throttle)}{burst}, over all workers; the others wait in their order"
    if (rate := handler.rate_limit) is not None:
        over = "dropped" if rate.over == "drop" else f"written to {dead_letters}"
        yield f"takes at most {_limit(rate)} over all workers; what is beyond it is {over}"
    if handler.priority:
        yield f"begins the call with the highest {handler.priority} first"
    if handler.singleton:
        yield f"runs one call at a time for each {handler.singleton}, over all workers"


def _limit(limit: run.Throttle | run.RateLimit) -> str:
    scope = f" for each {limit.key}" if limit.key else ""
    return f"{limit.limit} calls in {spoken_duration(limit.per)}{scope}"
