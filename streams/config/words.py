"""Describes a file in sentences: the actions of each agent, and unsafe parts."""

import json
from collections.abc import Iterator

from sluicegate.streams import topic_names
from sluicegate.streams.agent import (
    EMBEDDED,
    Agent,
    Aggregation,
    App,
    Deduplication,
    GroupSettings,
    Handler,
    Outbox,
    Reducer,
    Threshold,
    Timeouts,
)
from sluicegate.streams.config.checking import circles
from sluicegate.streams.config.phrases import of_group, of_lookups, of_outputs, of_records, of_results, unanswered
from sluicegate.streams.config.sections import correlating, deadlines, emitting, kafka, windows
from sluicegate.streams.config.sections.calls import flow
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.contracts.headers import NUMBER, SHARD
from sluicegate.streams.hints import misspelled
from sluicegate.streams.reducers import kind_of
from sluicegate.streams.topic_names import in_words, several
from sluicegate.streams.units import spoken_duration
from sluicegate.streams.wording import counted


def meaning(agent: Agent) -> list[str]:
    """Sentences about an agent: what it reads, when a group ends, what it writes, and where unusable records go."""
    rule = agent.aggregation
    if agent.rekeys and rule is not None and agent.to is not None:
        return [
            f"reads {_topics(agent.topics)} for {agent.rekeys}",
            *of_records(agent),
            *([duplicates(agent.dedupe)] if agent.dedupe else []),
            _rekeyed(agent, rule, agent.to.topic),
            *_unusable(agent),
        ]
    if rule is None:
        sentences = [f"reads {_topics(agent.topics)} as {agent.format}", *of_records(agent)]
    else:
        sentences = [
            f"reads {_topics(agent.topics)} as {agent.format}, one group per {_key(rule)}{_where(agent)}",
            *of_records(agent),
            *_ends(agent, rule),
        ]
    sentences += emitting.meaning(agent)
    sentences += of_lookups(agent) + of_results(agent)
    if agent.handler is not None:
        sentences += _handled(agent, agent.handler)
    elif rule is not None and agent.to is not None and not agent.to.select:
        sentences.append(f"writes {_result(rule)} to {agent.to.topic} as {agent.to.format}")
    if agent.delivery == "transactional":
        sentences.append(
            "sends in Kafka transactions: a consumer of committed records never reads a result or dead letter twice"
        )
    if agent.receive:
        sentences.append(f"drops repeats of what Sluicegate agents write to {_topics(agent.receive)}")
    if agent.dedupe:
        sentences.append(duplicates(agent.dedupe, agent.scope))
    if agent.history:
        which = "each group that ends" if agent.handler is not None else "each group that ends without a result"
        sentences.append(f"sends a message about {which} to {agent.history}")
    if agent.revision:
        sentences.append(f"is revision {agent.revision} of its code")
    return sentences + _unusable(agent)


def _where(agent: Agent) -> str:
    return (
        " and partition"
        if agent.scope == "partition"
        else ", over all partitions and topics, in one buffer that all workers share"
    )


def _unusable(agent: Agent) -> list[str]:
    decode = {
        "skip": "leaves out, and counts, records that cannot be decoded",
        "stop": "stops the partition at a record that cannot be decoded",
        "wait": "waits before a record that cannot be decoded, and tries it again",
    }
    sentences = [decode[agent.on_error.decode]] if agent.on_error.decode in decode else []
    sentences += unanswered(agent)
    if agent.on_error.produce == "stop":
        sentences.append("stops the partition at an output that cannot be sent")
    if agent.on_error.stop_above:
        sentences.append(f"stops the partition when more than {agent.on_error.stop_above} became dead letters")
    return [
        *sentences,
        f"sends {'other ' if sentences else ''}records that it cannot use to {agent.dead_letters}, byte for byte",
    ]


def changing(app: App) -> str | None:
    """The effect of another count or timeout on open groups; None: no agent has open groups."""
    rules = [agent.aggregation for agent in app.agents if not agent.rekeys and agent.scope == "partition"]
    if not any(rule is not None and (rule.count or rule.timed) for rule in rules):
        return None
    return (
        "another count or timeout also applies to groups that are open when it starts: one that holds more records "
        "than a lowered count ends at once, with reason count-lowered"
    )


def delivering(app: App) -> str | None:
    """The number of copies of a result in its topic; None: every agent sends in transactions."""
    plain = [agent for agent in app.agents if agent.delivery != "transactional" and not agent.rekeys]
    if not plain:
        return None
    every = len(plain) == sum(not agent.rekeys for agent in app.agents)
    whose = "" if every else f" of {_listed(tuple(agent.name for agent in plain))}"
    sentence = (
        f"each result{whose} is in the store once, and is sent to Kafka at least once: after a crash its topic may "
        f"have exact copies, which a receiver drops by {SHARD} and {NUMBER}, as Sluicegate agents do"
    )
    if all(agent.scope == "shared" for agent in plain):
        return sentence
    return f"{sentence}; with `delivery: transactional` readers of committed records see each result once"


def dispatching(app: App) -> list[str]:
    """Sentences about the tasks of `run` besides the agents. Empty: the file uses none and configures none."""
    sentences: list[str] = []
    if not _dispatches(app):
        return sentences
    outbox, timeouts = app.outbox, app.timeouts
    if outbox is not None:
        lanes = (
            "as many lanes as the store has"
            if outbox.lanes is None
            else f"{outbox.lanes} {'lane' if outbox.lanes == 1 else 'lanes'}"
        )
        order = "in any order" if outbox.order == "none" else f"in their order for each key, by {lanes}"
        pauses = f"{spoken_duration(outbox.backoff_first)} to {spoken_duration(outbox.backoff_most)}"
        sentences += [
            f"sends the rows of the store's outbox, {order}; looks every {spoken_duration(outbox.poll)} where the "
            "store cannot tell",
            f"tries a row {outbox.attempts} times, {pauses} apart, while its lane waits; then the row is dead (an "
            "outage of the brokers is not an attempt)",
            f"leases a lane for {spoken_duration(outbox.lease)} and renews the lease; another process sends the rows "
            "of a process that died after that",
            f"deletes rows {spoken_duration(outbox.retention)} after they were sent",
            f"is degraded {_threshold(outbox.degraded)}, and not ready {_threshold(outbox.unhealthy)}",
        ]
    if timeouts is not None:
        does = "sends timeouts" if outbox else "adds timeouts to the outbox, which another process must send,"
        sentences.append(
            f"{does} when they are due by the store's clock, never before, {timeouts.batch} at a time; "
            f"those of a process that died are sent {spoken_duration(timeouts.lease)} later"
        )
    sentences += [
        f"sends to {schedule.topic} at each time of `{schedule.every}` ({schedule.name})" for schedule in app.schedules
    ]
    return sentences


def _rekeyed(agent: Agent, rule: Aggregation, topic: str) -> str:
    if agent.keeps_rows:
        return f"keeps the row of each key, and writes how the groups change to {topic}, under the key {agent.key}"
    form = f"as the leg {agent.leg}" if agent.leg else "unchanged"
    return f"writes each record {form} to {topic}, under the {_key(rule)}"


def _dispatches(app: App) -> bool:
    """Whether an agent sends through the dispatcher, or the file configures it."""
    used = any(agent.scope == "shared" or agent.handler is not None for agent in app.agents)
    return used or bool(app.schedules) or (app.outbox or Outbox(), app.timeouts or Timeouts()) != (Outbox(), Timeouts())


def _threshold(limit: Threshold) -> str:
    return f"when a row is {spoken_duration(limit.age)} old or {limit.dead} {'is' if limit.dead == 1 else 'are'} dead"


def _ends(agent: Agent, rule: Aggregation) -> list[str]:
    if rule.window is not None and rule.correlation is None:
        early = [firing(rule)] if rule.count is not None or rule.until is not None else []
        return [*windows.meaning(rule.window, agent.dead_letters), *early]
    sentences = [
        firing(rule) if agent.scope == "partition" else firing(rule).replace("the worker's clock", "the store's clock")
    ]
    sentences += correlating.meaning(agent)
    if rule.on_timeout != "fire" and rule.timed:
        action = (
            "discarded" if rule.on_timeout == "discard" else f"written to {agent.dead_letters} as its result document"
        )
        sentences.append(f"a group that times out is {action}")
    return sentences


def _handled(agent: Agent, handler: Handler) -> list[str]:
    what = "each message" if agent.aggregation is None else "each completed group"
    inside = (
        "in the transaction of the store, with the offset"
        if handler.session or agent.lookups
        else "before the commit, again after a crash"
    )
    if handler.concurrency:
        inside = f"{handler.concurrency} at a time, one after the other for each key, after it was sealed in the store"
    sentences = [f"calls {_listed(handler.functions)} for {what}, {inside}"]
    if agent.chooses:
        sentences += [f"of what the handler sends, {output}" for output in of_outputs(agent)]
    elif agent.to is not None:
        sentences.append(
            f"sends the messages of the handler to {agent.to.topic} as {agent.to.format}, after the commit"
        )
    ends = {"stop": "stops the partition", "park": "waits with its key until `sluicegate parked retry`"}
    last = ends.get(handler.then, f"goes to {agent.dead_letters}")
    pauses = f"{spoken_duration(handler.backoff_first)} to {spoken_duration(handler.backoff_most)}"
    waits = "key" if handler.concurrency else "partition"
    item = what.split()[-1]
    sentences.append(
        f"a {item} whose handler fails is tried {counted(handler.attempts, 'time')}, {pauses} apart, while its {waits} "
        f"waits; then it {last}"
    )
    sentences += flow.meaning(handler, agent.dead_letters)
    if handler.outages:
        names = _listed(handler.outages)
        sentences.append(f"takes {names} for an outage, which counts no attempt, beside the errors of known libraries")
    if handler.isolate_after:
        alone = f"after {handler.isolate_after} failures of a group its messages are tried alone"
        sentences.append(
            f"{alone}; those that fail go to {agent.dead_letters}, and the others are handled without them"
        )
    return sentences


def firing(rule: Aggregation) -> str:
    """`fires at exactly 100 records of one key, or 30 s after the first record, by the worker's clock, even if no
    record follows; ...`"""
    ends = []
    if rule.count is not None:
        ends.append(f"at exactly {rule.count} {'record' if rule.count == 1 else 'records'} of one key")
    if isinstance(rule.until, str):
        ends.append(f"when {of_group(rule.until)}")
    elif rule.until is not None:
        ends.append(f"with the record whose {rule.until.field} equals {json.dumps(rule.until.equals)}")
    timed = [(rule.since_first, "first"), (rule.since_last, "last")]
    ends += [f"{spoken_duration(seconds)} after the {which} record" for seconds, which in timed if seconds is not None]
    ends += [deadlines.meaning(rule.deadline)] if rule.deadline is not None else []
    if rule.table:
        return "ends a group when it has no row any more, with a last result of count 0"
    if not ends:
        return f"ends a group only at a limit: {rule.max_items} records of one key, or {rule.max_bytes} collected bytes"
    text = ("ends a group " if isinstance(rule.until, str) else "fires ") + ", or ".join(ends)
    if rule.timed:
        text += ", by the worker's clock, even if no record follows"
        text += "; a later record of the key starts a new group" if rule.correlation is None else ""
    return text


def duplicates(dedupe: Deduplication, scope: str = "partition") -> str:
    """`drops a record whose header message-id was accepted in the same partition up to 1 h before; ...`"""
    what = "key" if dedupe.by == "key" else f"{dedupe.by} {dedupe.name}"
    without = "is a dead letter" if dedupe.on_missing == "dead-letter" else "is taken"
    horizon = spoken_duration(dedupe.horizon)
    if scope == "shared":
        return (
            f"drops a record whose {what} is in the buffer, or left it up to {horizon} before; a record without "
            f"one {without}"
        )
    return (
        f"drops a record whose {what} was accepted in the same partition up to {horizon} before "
        f"({dedupe.max_ids} ids are remembered, then the oldest are forgotten); a record without one {without}"
    )


def _key(rule: Aggregation) -> str:
    return "message key" if rule.key is None else f"value of {rule.key}"


def _result(rule: Aggregation) -> str:
    if not rule.compute:
        return "how many records a group had and why it ended"
    return "; ".join(f"{r.name} ({_reducer(r)})" for r in rule.compute)


def _reducer(reducer: Reducer) -> str:
    kind = kind_of(reducer)
    return kind.alone if reducer.argument is None else kind.phrase.format(reducer.argument, option=reducer.option)


def _topics(names: tuple[str, ...]) -> str:
    return _listed(tuple(map(in_words, names)))


def _listed(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def warnings(app: App, chosen_dead_letters: frozenset[str]) -> Iterator[FileFinding]:
    """Settings that run but are unsafe or surprising. `chosen_dead_letters` names the agents whose dead-letter topic
    the file sets."""
    if app.store.startswith("memory:"):
        hint = "use sqlite:///file.db or a server to keep state over a restart"
        yield FileFinding(("store",), "is not durable: everything is lost when the process ends", hint)
    for name, settings in {app.cluster: app.kafka, **app.clusters}.items():
        at: Path = ("kafka", *filter(None, (name,)))
        yield from kafka.warnings(at, settings)
        if settings.get("bootstrap.servers") == EMBEDDED:
            hint = "name a real broker to keep records over a restart"
            what = "is a broker inside this process, for demos and development"
            yield FileFinding((*at, "bootstrap.servers"), what, hint)
    for agent in app.agents:
        yield from _of_agent(agent, agent.name in chosen_dead_letters)
        yield from _of_dedupe(agent)
        if agent.on_error.decode == "skip" and not agent.rekeys:
            path = ("agents", agent.name, "on_error", "decode")
            yield FileFinding(
                path,
                "loses records that cannot be decoded: they are only counted",
                "let it be dead-letter to keep it",
                (path,),
            )
    yield from circles.warnings(app)
    yield from _near_inputs(app)


def _near_inputs(app: App) -> Iterator[FileFinding]:
    """Inputs that no agent writes and that look like an output of another agent."""
    writers = {(agent.rekeys or agent.name, to.topic) for agent in app.agents for to in agent.outputs}
    writers |= {("", schedule.topic) for schedule in app.schedules}
    for agent in app.agents:
        name = agent.rekeys or agent.name
        others = {topic for writer, topic in writers if writer != name}
        for topic in topic_names.topics(agent.topics):
            if (name, topic) not in writers and (near := misspelled(topic, others)):
                at = (*(correlating.place_of(agent) if agent.leg else ("agents", name)), "from")
                yield FileFinding(at, f"reads {topic}, which no agent writes", f"did you mean {near}?", (at,))


def _of_dedupe(agent: Agent) -> Iterator[FileFinding]:
    path = correlating.place_of(agent)
    dedupe, rule = agent.dedupe, agent.aggregation
    if dedupe is None:
        return
    if several(agent.topics) and agent.scope == "partition":
        what = "finds no duplicate in another topic (nor partition)"
        yield FileFinding(
            (*path, "dedupe"),
            what,
            "write each message and its duplicates into one topic, with one key",
            ((*path, "from"),),
        )
    if rule is not None and (dedupe.by, dedupe.name) in (("key", rule.key), ("field", rule.key)):
        needs = ((*path, "dedupe", "id"), (*path, "key"))
        yield FileFinding(
            needs[0],
            "is also the key of the groups: a group gets one record",
            "name what differs between messages",
            needs,
        )


def _of_hot_groups(agent: Agent, rule: Aggregation, aggregate: Path) -> Iterator[FileFinding]:
    """`hot_groups` that bounds nothing. The default of both bounds is the same."""
    groups = aggregate if rule.correlation is None else (*aggregate[:-1], correlating.CORRELATE)
    at, default = (*groups, "hot_groups"), GroupSettings.hot_groups
    if agent.scope == "partition" and rule.max_groups <= rule.hot_groups != default:
        what = f"bounds nothing: a partition has at most {rule.max_groups:,} groups by max_groups"
        yield FileFinding(at, what, "write a lower number, or leave it out", (at, (*groups, "max_groups")))
    elif rule.hot_groups < rule.max_groups and not agent.pageable:
        hint = "leave it out; groups of tumbling and hopping windows, of sessions and of correlations can be rows"
        yield FileFinding(at, "bounds nothing: all open groups of this agent stay in memory", hint, (at,))


def _of_agent(agent: Agent, dead_letters_chosen: bool) -> Iterator[FileFinding]:
    path: Path = ("agents", agent.name)
    rule, aggregate = agent.aggregation, (*path, "aggregate")
    if rule is None or agent.rekeys:
        return
    timed = rule.timed
    if rule.key is not None and agent.scope == "partition":
        what = "is not the message key: groups are exact only if all records of one value are in one partition"
        yield FileFinding((*path, "key"), what, "key the topic by this field where it is written", ((*path, "key"),))
    if several(agent.topics) and agent.scope == "partition":
        what = "has several topics: groups never span topics (nor partitions)"
        yield FileFinding(
            (*path, "from"),
            what,
            "write into one topic first if one group must hold records of both",
            ((*path, "from"),),
        )
    if timed and not dead_letters_chosen:
        what = f"there is a timeout and no dead-letter topic is set: {agent.dead_letters} is used"
        needs: tuple[Path, ...] = ((*aggregate, "timeout"), ("app",), ("dead_letters",), (*path, "dead_letters"))
        yield FileFinding((*aggregate, "timeout"), what, "set dead_letters, in the agent or at the top", needs)
    yield from _of_hot_groups(agent, rule, aggregate)
    if rule.window is not None:
        yield from windows.warnings(rule.window, (*aggregate, windows.WINDOW))
    elif rule.count is None and not timed and not rule.table:
        needs = (aggregate, (*aggregate, "count"), (*aggregate, "timeout"))
        what = (
            "has no timeout: a group whose end never comes stays open"
            if rule.until
            else "has no count, no timeout and no until"
        )
        hint = "add a timeout" if rule.until else "add one, else groups end only at a limit"
        yield FileFinding(aggregate, what, hint, needs)
    elif rule.deadline is not None and rule.since_first is None and rule.since_last is None:
        at = (*aggregate, "timeout")
        what = "leaves a group open if none of its records gives a deadline"
        yield FileFinding(at, what, "add first: 30d, or the longest time that a group may be open", (at,))
