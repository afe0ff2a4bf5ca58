"""Rules that span several keys. Each finding lists the keys that it depends on; it is void when one of them is
unknown."""

import re
from collections.abc import Iterator

from sluicegate.streams.agent import EMBEDDED, HandlerSettings
from sluicegate.streams.config.checking import clusters, forwarding, idle, patterns, tables, written
from sluicegate.streams.config.checking.written import dead_letters, letters, uses
from sluicegate.streams.config.sections import cases, correlating, emitting, envelopes, kafka, windows
from sluicegate.streams.config.sections.calls import flow
from sluicegate.streams.config.sections.fields import LONGEST_NAME, NAME
from sluicegate.streams.config.sections.leased import schedule_findings
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_groups import RESERVED, Aggregate, UntilModel
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.keys import keys_of
from sluicegate.streams.observe.report import DISPATCHER
from sluicegate.streams.reducers import keeps_messages
from sluicegate.streams.urls import loopback
from sluicegate.streams.wording import UNPRINTABLE

SHORTEST_LEASE = 1.0
SHORTEST_TOKEN = 16
ENDS = frozenset({"count", "until", "max_items", "max_bytes", "max_groups", "max_buffered_bytes"})
"""The keys of `aggregate` that complete a group before its timeout."""
FULL_SHARED = "needs scope partition: the store holds the groups of a shared buffer, and no limit of groups is reached"
HISTORY_SHARED = (
    "needs scope partition: a replay reads it for the groups of a partition, and these groups have records of several"
)
SESSION_SHARED = (
    "needs scope partition: a session commits with the offset of its records, which are committed before the group ends"
)
FINISH_SHARED = "needs scope partition: a shared buffer has records, and its groups are made under the rule that runs"
AT_TOKEN: Path = ("http", "token")


def findings(file: FileModel) -> Iterator[FileFinding]:
    """The problems of a file whose single values are valid."""
    yield from _http(file)
    yield from _outbox(file)
    yield from clusters.order(file)
    yield from schedule_findings(file.schedules, file.timeouts is not None)
    for name, agent in file.agents.items():
        path: Path = ("agents", name)
        if len(name) > LONGEST_NAME or not re.fullmatch(NAME, name):
            yield FileFinding(path, "is not a name", f"use only letters, digits and . _ - (at most {LONGEST_NAME})")
        if name == DISPATCHER:
            yield FileFinding(
                path, "is the name of the process that sends the outbox's rows", "give the agent another name"
            )
        yield from _parts(agent, path)
        yield from forwarding.findings(agent, path)
        yield from idle.findings(agent, path)
        yield from envelopes.findings(agent, path)
        yield from tables.findings(agent, path)
        yield from _isolation(agent, path)
        yield from _repartition(file, name, agent, path)
        yield from correlating.findings(agent, path, file.agents)
        if agent.aggregate is not None and agent.correlate is None:
            yield from _aggregate(agent.aggregate, (*path, "aggregate"))
        yield from windows.findings(agent, path)
        yield from emitting.findings(agent, path)
        yield from flow.findings(agent, path)
        yield from _shared(file, agent, path)
        yield from _transactional(file, agent, path)
        yield from _raw(agent, path)
        yield from _topics(file, agent, path)
        yield from patterns.findings(file, agent, path)
        yield from clusters.findings(file, name, agent)
        yield from _history(agent, path)
    yield from written.findings(file)
    yield from _tests(file)


def _tests(file: FileModel) -> Iterator[FileFinding]:
    agents = file.agents.values()
    reads = {source.name for agent in agents for source in agent.from_}
    writes = {use.topic for use in uses(file)}
    looked_up = [lookup for agent in agents for lookup in (agent.lookup or {}).values()]
    rows = {lookup.source for lookup in looked_up if lookup.kind != "topic"}
    reads |= {lookup.source for lookup in looked_up if lookup.kind == "topic"}
    handlers = {name: agent.handler is not None for name, agent in file.agents.items()}
    yield from cases.findings(file.tests, patterns.readable(reads), writes, rows, handlers)


def _http(file: FileModel) -> Iterator[FileFinding]:
    token = None if file.http is None else file.http.token
    if token is not None and not isinstance(token, Unknown) and len(_visible(token)) < SHORTEST_TOKEN:
        what = f"has fewer than {SHORTEST_TOKEN} characters: it could be guessed"
        yield FileFinding(AT_TOKEN, what, "write one that `openssl rand -hex 32` makes", (AT_TOKEN,))
    if file.http is not None and not token and not loopback(file.http.host):
        hint = "write http.token: ${HTTP_TOKEN}, or keep host: 127.0.0.1"
        yield FileFinding(
            ("http", "host"), "is not loopback and there is no token", hint, (("http", "host"), ("http", "token"))
        )


def _visible(token: str) -> str:
    """The text without blanks, control characters, and fillers that are displayed as nothing."""
    return "".join(letter for letter in UNPRINTABLE.sub("", token) if letter.isprintable() and not letter.isspace())


def _outbox(file: FileModel) -> Iterator[FileFinding]:
    if file.outbox is None:
        return
    if file.outbox.order == "none" and file.outbox.lanes is not None:
        needs: tuple[Path, ...] = (("outbox", "lanes"), ("outbox", "order"))
        yield FileFinding(needs[0], "has no meaning with order: none", "leave one of them out", needs)
    if file.outbox.lease < SHORTEST_LEASE:
        what = f"is below {SHORTEST_LEASE:g} s: a lane would be lost while its rows are under way"
        yield FileFinding(("outbox", "lease"), what, "write 30s, or another time that a process may stand still")
    for name in ("age", "dead"):
        if getattr(file.outbox.unhealthy, name) < getattr(file.outbox.degraded, name):
            needs = (("outbox", "unhealthy", name), ("outbox", "degraded", name))
            yield FileFinding(needs[0], f"is below outbox.degraded.{name}", "raise it, or lower the other", needs)


def _parts(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """The keys that an agent must have, and keys that have no effect without others."""
    aggregate, handler = (*path, "aggregate"), (*path, "handler")
    if agent.handler is None:
        if agent.forwards and not agent.outputs:
            hint = "write to: {topic: NAME} to forward each record, or add an aggregate or a handler"
            yield FileFinding(path, "does nothing: it has no aggregate, no handler and no to", hint, (path,))
        elif not agent.outputs:
            yield FileFinding((*path, "to"), "is missing", "write {topic: NAME}", (path,))
        handled = ("retry", "outage", *flow.LIMITS, *(key.name for key in keys_of(HandlerSettings)))
        for name in [name for name in handled if name in agent.model_fields_set]:
            yield FileFinding(
                (*path, name), "belongs to a handler, but there is none", "add a handler, or leave it out", (path,)
            )
    elif agent.session and agent.concurrency:
        needs = ((*path, "session"), (*path, "concurrency"))
        what = "needs concurrency 0: a slow handler would hold the store's transaction open"
        yield FileFinding(needs[0], what, "leave one of them out", needs)
    elif agent.aggregate is None and agent.key is not None and agent.repartition is None:
        what = "has no meaning without an aggregation: a handler gets every message"
        yield FileFinding((*path, "key"), what, "leave it out", (aggregate, handler, (*path, "key")))


def _isolation(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    retry, compute = (*path, "retry"), (*path, "aggregate", "compute")
    at = (*retry, "isolate_after")
    if not agent.retry.isolate_after or agent.handler is None:
        return
    keeps = agent.aggregate is not None and any(map(keeps_messages, agent.aggregate.compute.values()))
    if not keeps:
        what = "has no messages to try alone: the handler gets no group that keeps them"
        yield FileFinding(at, what, "add compute: {messages: collect} to the aggregate, or leave it out", (at, compute))
    if agent.retry.isolate_after > agent.retry.attempts:
        needs = (at, (*retry, "attempts"))
        yield FileFinding(
            at, "is more than attempts: it would never happen", "write at most the number of attempts", needs
        )


def _repartition(file: FileModel, name: str, agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    at = (*path, "repartition")
    if agent.repartition is None:
        return
    if agent.key is None:
        yield FileFinding(
            at, "needs a key: the field to re-key by", "add key: FIELD, or leave it out", (at, (*path, "key"))
        )
    if agent.format == "raw":
        yield FileFinding(
            at, "needs a field, but raw records have none", "use format: json, or leave it out", (at, (*path, "format"))
        )
    if agent.repartition in [source.name for source in agent.from_]:
        yield FileFinding(
            at, "is a topic that this agent reads already", "give it a topic of its own", (at, (*path, "from"))
        )
    if agent.dedupe is not None and agent.dedupe.id.header is None and agent.dedupe.id.field is None:
        identity = (*path, "dedupe", "id")
        yield FileFinding(
            identity,
            "is the key, but repartition gives another one",
            "write header:NAME or a field path",
            (at, identity),
        )
    if rekeying(name) in file.agents:
        yield FileFinding(at, "takes the name of another agent", f"rename agent {rekeying(name)}", (at,))


def rekeying(name: str) -> str:
    """The name of the agent that re-keys for another agent's `repartition:`."""
    return f"{name}.repartition"


def _aggregate(rule: Aggregate, path: Path) -> Iterator[FileFinding]:
    count, limit = (*path, "count"), (*path, "max_items")
    if rule.count is not None and rule.max_items is not None and rule.count > rule.max_items:
        hint = "raise max_items or lower count"
        yield FileFinding(limit, "is below count: no group could reach it", hint, (count, limit))
    if rule.max_bytes > rule.max_buffered_bytes:
        needs: tuple[Path, ...] = ((*path, "max_bytes"), (*path, "max_buffered_bytes"))
        yield FileFinding(needs[1], "is below max_bytes, the bound of one group", "raise it, or lower max_bytes", needs)
    for name in rule.compute:
        if name in RESERVED:
            yield FileFinding(
                (*path, "compute", name), "is reserved in the result", "give the computed field another name"
            )
        elif not 0 < len(name) <= LONGEST_NAME:
            yield FileFinding(
                (*path, "compute", name),
                f"is not of 1 to {LONGEST_NAME} characters",
                "give the computed field another name",
            )
    if rule.window is not None:  # has no timeout: windows.findings
        return
    if rule.on_timeout != "fire" and rule.timeout is None:
        needs = ((*path, "on_timeout"), (*path, "timeout"))
        yield FileFinding(needs[0], "has no timeout to act on", "add a timeout, or leave it out", needs)
    elif rule.on_timeout != "fire" and not ENDS & rule.model_fields_set:
        what = "leaves no result to write or to handle: every group ends by its timeout"
        needs = ((*path, "on_timeout"), *((*path, name) for name in sorted(ENDS)))
        yield FileFinding(needs[0], what, "add a count or an until, or leave it out", needs)


def _shared(file: FileModel, agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """The keys that one buffer of all partitions cannot support."""
    scope = (*path, "scope")
    if agent.scope != "shared" or agent.correlate is not None:
        return
    if agent.aggregate is None:
        yield FileFinding(
            scope,
            "has no meaning without an aggregation",
            "leave it out, or add an aggregate",
            (scope, (*path, "aggregate")),
        )
    if file.outbox is None:
        yield FileFinding(
            scope, "needs the outbox: its results are sent from there", "leave out outbox: false", (scope, ("outbox",))
        )
    rule = agent.aggregate
    refused = [
        (
            (*path, "repartition"),
            agent.repartition is not None and not tables.reads_changes(agent),
            "is not needed: one buffer has the groups of all partitions",
        ),
        ((*path, "session"), agent.session, SESSION_SHARED),
        (
            (*path, "then"),
            agent.then == "park",
            "park needs scope partition: it keeps the order of a key, which groups of a shared buffer do not have",
        ),
        ((*path, "on_change"), agent.on_change == "finish", FINISH_SHARED),
        ((*path, "aggregate", "on_full"), rule is not None and rule.on_full != "fire-oldest", FULL_SHARED),
    ]
    for at, wrong, what in refused:
        if wrong:
            yield FileFinding(at, what, "leave one of the two out", (at, scope))


def _transactional(file: FileModel, agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """The keys that Kafka transactions cannot support."""
    delivery, scope = (*path, "delivery"), (*path, "scope")
    if agent.delivery != "transactional":
        return
    if agent.scope == "shared":
        what = "needs scope partition: results of a shared buffer are sent by the dispatcher, at least once, with ids"
        yield FileFinding(delivery, what, "leave one of the two out", (delivery, scope))
    brokers = kafka.clusters_of(file.kafka)
    for place, settings in map(brokers.of, brokers.settings):
        if settings.get("bootstrap.servers") != EMBEDDED:
            continue
        at = (*place, "bootstrap.servers")
        what = "needs a real broker: consumers of the embedded one read the records of aborted transactions, too"
        yield FileFinding(delivery, what, "name a broker, or leave it out", (delivery, at))


def _raw(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """A raw record has no fields."""
    if agent.format != "raw":
        return
    form, hint = (*path, "format"), "use format: json, or leave the field out"
    if agent.key is not None and (agent.aggregate is not None or agent.forwards):
        yield FileFinding((*path, "key"), "needs a field, but raw records have none", hint, (form, (*path, "key")))
    if agent.dedupe is not None and agent.dedupe.id.field is not None:
        dedupe = (*path, "dedupe", "id")
        yield FileFinding(
            dedupe, "needs a field, but raw records have none", "use format: json, header:NAME or key", (form, dedupe)
        )
    if agent.aggregate is None or agent.correlate is not None:
        return
    if isinstance(agent.aggregate.until, UntilModel):
        until = (*path, "aggregate", "until")
        yield FileFinding(until, "needs a field, but raw records have none", hint, (form, until))
    for name, reducer in agent.aggregate.compute.items():
        if reducer.field is not None:
            compute = (*path, "aggregate", "compute", name)
            yield FileFinding(compute, "needs a field, but raw records have none", hint, (form, compute))


def _topics(file: FileModel, agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    source = (*path, "from")
    topics = [s.name for s in agent.from_]
    if len(set(topics)) < len(topics):
        yield FileFinding(source, "names a topic twice", "name each topic once", (source,))
    for at, output in agent.outputs.items():
        if output.topic in topics:
            what, to = "is a topic that this agent reads: it would read its own results", (*path, *at, "topic")
            yield FileFinding(to, what, "write to another topic", (source, to))
    own = agent.dead_letters is not None and agent.dead_letters.topic is not None
    dead = (*path, "dead_letters") if own else ("dead_letters",)
    if dead_letters(file, agent) in topics:
        what = "is a topic that this agent reads: it would read its own dead letters"
        at = dead if letters(file, agent).topic else source
        yield FileFinding(at, what, "let dead letters go to another topic", (source, dead, ("app",)))


def _history(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """The topic of the history must be no input, so that its messages are never taken for others."""
    if not agent.history:
        return
    at = (*path, "history")
    if agent.aggregate is None:
        yield FileFinding(at, "has no meaning without groups", "leave it out, or add an aggregate", (path,))
    if agent.scope == "shared":
        what = HISTORY_SHARED
        yield FileFinding(at, what, "leave one of the two out", (at, (*path, "scope")))
    if agent.history in [source.name for source in agent.from_]:
        needs = (at, (*path, "from"))
        yield FileFinding(at, "is a topic that this agent reads", "give it a topic of its own", needs)
