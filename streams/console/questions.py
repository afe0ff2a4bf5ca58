"""The questions of the page: each is a function from its fields to JSON. Every list is bounded."""

import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.console.dead_page import DeadShown, dead_facts, dead_page, dead_shown, letter_counts
from sluicegate.streams.console.group_table import ORDERS, GroupFilter, GroupTable
from sluicegate.streams.console.kept import LEAST, SHARE, KeptValue
from sluicegate.streams.console.letter_index import LetterIndex
from sluicegate.streams.console.planning import plan_of_the_file
from sluicegate.streams.console.progress import progress
from sluicegate.streams.console.ruling import rule_text
from sluicegate.streams.console.schedules import schedule_documents
from sluicegate.streams.console.snapshot import PartitionShown, StoreSnapshot, taken
from sluicegate.streams.console.systems import ConsoleSystems
from sluicegate.streams.console.wording import PAGE, StillReading, agent_of, number, optional, ordered, seconds, text
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.handlers.values import plain
from sluicegate.streams.journal import journal
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.history import LastHour
from sluicegate.streams.observe.http import CallFields
from sluicegate.streams.operations import auditing
from sluicegate.streams.operations.dead import dead_changes, dead_letters, dead_rows
from sluicegate.streams.operations.dead.dead_changes import DeadListing
from sluicegate.streams.operations.dead.dead_documents import payload
from sluicegate.streams.operations.dead.dead_letters import Letter
from sluicegate.streams.operations.desk import StoreDesk
from sluicegate.streams.operations.groups.group_changes import document, every, key_of, under_deployed, where
from sluicegate.streams.operations.groups.open_groups import OpenGroup, why
from sluicegate.streams.operations.stored_messages import message_document, time_text, timeout_document
from sluicegate.streams.rules.versions import UNVERSIONED
from sluicegate.streams.versions import catalogue, mac_keys
from sluicegate.streams.wording import counted

DEAD_ROWS = 1000  # the oldest dead rows of each partition
LANE_ROWS = 1000  # pending rows that are read for the lanes
PATIENCE = 0.5  # seconds that an answer waits for the first reading of the store
Facts = dict[str, Any]


class Questions:
    """Answers from the board, which has the reports of the workers of this run, and from the store."""

    def __init__(self, app: App, board: Board, systems: ConsoleSystems, clock: Callable[[], float]) -> None:
        self.app, self.systems = app, systems
        self.desk = StoreDesk(lambda: systems.open_store(app))
        self._board = board
        self._history = LastHour(time.time)
        board.keep(self._history)
        self._clock = clock
        self.snapshot = KeptValue(self._snapshot, clock)
        self.letters = LetterIndex(app)
        self.dead_shown = KeptValue(self._dead, clock)
        self._progress = KeptValue(self._read_progress, clock)
        self._plan = KeptValue(self._read_plan, clock)

    def overview(self, _: CallFields) -> Facts:
        """The workers and their partitions, from their reports, and the number of dead records at the last reading. It
        does not wait for the store."""
        facts: Facts = {"agents": [_agent(agent) for agent in self.app.agents], "now": time.time(), "again": LEAST}
        facts |= {"reasons": self._board.unready(), "degraded": self._board.degraded()}
        dead = dead_facts(self.dead_shown.newest(), letter_counts(self._board.reports()))
        return {**self._board.status(), **facts, **dead}

    def history(self, fields: CallFields) -> Facts:
        """The samples of the last hour after `since`, a time of an earlier answer; and the last errors."""
        return {**self._history.document(seconds(fields, "since")), "again": LEAST}

    def partitions(self, _: CallFields) -> Facts:
        snapshot, age = self._snapshot_now()
        return {"partitions": [_partition(partition) for partition in snapshot.partitions], "age": age}

    def groups(self, fields: CallFields) -> Facts:
        """One page of the open groups of an agent with the text `search` in their key. Filters: one partition
        (`place`), overdue groups (`late`), groups `older` than this number of seconds, and groups with the same reason
        to wait (`waits`). `open` counts all groups, also the `unlisted` ones, which are in no page. With `fresh` the
        store is read again; until then the answers have what was read before."""
        agent, first = agent_of(self.app, fields), number(fields, "first", 0, 10**9)
        order, descending = ordered(fields, ORDERS, "-age")
        wanted = GroupFilter(
            text(fields, "search", "").casefold(),
            text(fields, "place", ""),
            text(fields, "waits", ""),
            bool(optional(fields, "late")),
            number(fields, "older", 0, 10**9),
            order,
            descending,
        )
        if optional(fields, "fresh"):
            self.snapshot.renew()
        snapshot, age = self._snapshot_now()
        table = snapshot.groups[agent.name]
        with _Paced(self._clock) as paced:
            matches = table.selected(wanted, age)
            groups = [_row(table, row, age) for row in matches[first : first + PAGE]]
        facts = {"open": len(table) + table.unlisted, "unlisted": table.unlisted, "waits": sorted(table.waits)}
        pages = {"found": len(matches), "first": first, "page": PAGE}
        again = paced.again if wanted.grows else LEAST
        return {"groups": groups, **facts, **pages, "age": age, "again": again}

    def why(self, fields: CallFields) -> Facts:
        """The reasons why the groups of this key are open, and their computed fields."""
        agent = agent_of(self.app, fields)
        key, place, window = key_of(text(fields, "key")), text(fields, "place"), optional(fields, "window")
        with self.desk.store() as store:
            agent, note = under_deployed(self.app.name, agent, store)
            groups = every(self.app.name, agent, store, time.time(), key, place)
        groups = [group for group in groups if window in (None, _window(group))][:PAGE]
        texts = ["; ".join([why(group, agent), *([note] if note else [])]) for group in groups]
        return {
            "groups": [
                {**_group(group, 0.0), "why": words, "values": plain(group.values)}
                for group, words in zip(groups, texts, strict=True)
            ]
        }

    def timeouts(self, fields: CallFields) -> Facts:
        key = optional(fields, "key")
        wanted = optional(fields, "destination"), optional(fields, "owner"), None if key is None else key.encode()
        with self.desk.store() as store, _Paced(self._clock) as paced:
            scheduled, count = store.timeouts.find(*wanted, PAGE), store.timeouts.count()
            recurring = schedule_documents(self.app, store.timeouts)
        return {
            "schedules": recurring,
            "timeouts": [timeout_document(timeout) for timeout in scheduled],
            "count": count,
            "again": paced.again,
        }

    def outbox(self, fields: CallFields) -> Facts:
        """The rows of one state, and the lanes of the pending rows."""
        with self.desk.store() as store, _Paced(self._clock) as paced:
            rows = store.outbox.find(optional(fields, "state"), optional(fields, "topic"), PAGE)
            pending = store.outbox.find("pending", None, LANE_ROWS)
            counts = {state: store.outbox.count(state) for state in ("pending", "dispatched", "dead")}
            lanes = store.outbox.lanes()
        by_lane: dict[str, Facts] = {}
        for row in pending:
            lane = by_lane.setdefault(str(row.lane), {"pending": 0, "oldest": time_text(row.created_at), "attempts": 0})
            lane["pending"] += 1
            lane["attempts"] = max(lane["attempts"], row.attempts)
        rest = {"lanes": by_lane, "lane_count": lanes, "lanes_of": len(pending), "again": paced.again}
        return {"rows": [message_document(row) for row in rows], "counts": counts, **rest}

    def dead(self, fields: CallFields) -> Facts:
        """The dead records, newest first unless `order` says otherwise. `fresh` reads them again: the page sets it when
        a view is opened."""
        known = self.dead_shown.within(PATIENCE)
        if known is None:
            raise StillReading("The dead letters are being read.")
        shown, age = self.dead_shown.fresh() if optional(fields, "fresh") and known[1] else known
        with _Paced(self._clock) as paced:
            page = dead_page(shown, fields)
        return {**page, "age": age, "again": paced.again}

    def payload(self, fields: CallFields) -> Facts:
        """The error, the key, the value and the headers of one dead row or letter. Raises ConfigurationError for a
        letter that is gone from its topic."""
        name, agent = text(fields, "id"), agent_of(self.app, fields)
        rows, short = dead_changes.select_ids(self.dead_of(agent, self.dead_shown.get()[0]), [name])
        letters = self.whole_letters(short[:1])
        if short and not letters:
            raise ConfigurationError(f"the dead letter of {name} is gone from its topic")
        return {**payload(rows, letters), "error": letters[0].error if letters else rows[0].reason}

    def dead_of(self, agent: Agent, shown: DeadShown) -> DeadListing:
        """What is dead of one agent. The letters have no contents (`whole_letters`)."""
        seen = shown.listing
        rows = [row for row in seen.rows if row.partition.agent == agent.name]
        return seen._replace(rows=rows, letters=[letter for letter in seen.letters if letter.agent == agent.name])

    def whole_letters(self, letters: Sequence[Letter]) -> list[Letter]:
        """These letters with their contents, without those that are gone from their topic. Raises SystemNotReady and
        PersistenceError."""
        if not letters:
            return []
        with self.desk.store() as store:
            mac = mac_keys.read(store, self.app.name)
        return self.letters.whole(self.systems.open_topics(self.app), mac, letters)

    def rule(self, fields: CallFields) -> Facts:
        """The rule of an agent as YAML: the rule of the run, or one of its versions."""
        agent, wanted = agent_of(self.app, fields), number(fields, "version", 0, 10**9)
        with self.desk.store() as store, _Paced(self._clock) as paced:
            deployed = catalogue.read(store, self.app.name).get(agent.name, UNVERSIONED)
        other = deployed.agent(wanted) if wanted else agent
        text = f"version {wanted} is not kept: no partition needs it any more" if other is None else rule_text(other)
        return {"text": text, "version": wanted or deployed.number, "again": paced.again}

    def progress(self, _: CallFields) -> Facts:
        """Deployments and replays of each agent."""
        deployments, age = self._progress.get()
        snapshot, _age = self._snapshot_now()
        switching = [_partition(partition) for partition in snapshot.partitions if partition.earlier]
        return {"agents": deployments, "switching": switching, "age": age}

    def plan(self, _: CallFields) -> Facts:
        """The changes that a deployment of the run's current file would make."""
        plan, age = self._plan.get()
        return {**plan, "age": age}

    def audit(self, fields: CallFields) -> Facts:
        """The changes by operators, newest first."""
        first, search = number(fields, "first", 0, 10**9), text(fields, "search", "").casefold()
        snapshot, age = self._snapshot_now()
        with self.desk.store() as store:
            changes = [*snapshot.changes, *auditing.noted(self.app, store)]
        changes.sort(key=lambda change: -change[0].at)
        documents = [auditing.document(*change) for change in changes]
        if search:
            documents = [change for change in documents if search in " ".join(map(str, change.values())).casefold()]
        page = documents[first : first + PAGE]
        return {"changes": page, "found": len(documents), "first": first, "page": PAGE, "age": age}

    def expire(self) -> None:
        """Read again, because something was changed."""
        self.snapshot.expire()
        self.dead_shown.expire()

    def _snapshot_now(self) -> tuple[StoreSnapshot, float]:
        """The snapshot and its age. Raises StillReading."""
        snapshot = self.snapshot.within(PATIENCE)
        if snapshot is None:
            groups = counted(sum(self._reported().values()), "open group")
            raise StillReading(f"The store is being read: {groups} in all.")
        return snapshot

    def _reported(self) -> dict[Partition, int]:
        """The numbers of open groups that the workers reported."""
        return {
            Partition(self.app.name, report.agent, partition.topic, partition.number): partition.groups
            for report in self._board.reports()
            for partition in report.partitions
        }

    def _snapshot(self) -> StoreSnapshot:
        return taken(self.app, self.desk.store, self._reported())

    def _dead(self) -> DeadShown:
        counts, names = letter_counts(self._board.reports()), [agent.name for agent in self.app.agents]
        with self.desk.store() as store:
            rows = list(dead_rows.dead_rows(store, self.app.name, names, DEAD_ROWS))
            keys = mac_keys.listed(store, self.app.name) or (None, 0.0)
        try:
            letters, older = self.letters.read(self.systems.open_topics(self.app), *keys)
        except (ConfigurationError, SystemNotReady) as error:
            return dead_shown(DeadListing(rows, [], str(error), 0), counts)
        with self.desk.store() as store:
            notes = journal.notes(store, self.app.name)
        settled = dead_letters.retried(notes), dead_letters.dropped(notes)
        return dead_shown(DeadListing(rows, letters, "", older, *settled), counts)

    def _read_plan(self) -> Facts:
        try:
            new = self.systems.read_file()
        except ConfigurationError as error:
            return {"error": str(error)}
        with self.desk.store() as store:
            return plan_of_the_file(self.app, new, store)

    def _read_progress(self) -> list[Facts]:
        with self.desk.store() as store:
            return progress(self.app, store)


class _Paced:
    """The minimum interval of repeated questions by the page, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.again = LEAST

    def __enter__(self) -> "_Paced":
        self._began = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self.again = max(LEAST, (self._clock() - self._began) / SHARE)


def _agent(agent: Agent) -> Facts:
    rule, handler = agent.aggregation, agent.handler
    return {
        "name": agent.name,
        "topics": list(agent.topics),
        "to": [to.topic for to in agent.outputs],
        "count": rule.count if rule is not None else None,
        "groups": agent.grouped,
        "handler": handler is not None,
        "scope": agent.scope,
        "delivery": agent.delivery,
    }


def _partition(shown: PartitionShown) -> Facts:
    watermark = None if shown.watermark is None else rfc3339(shown.watermark / 1000)
    earlier = [{"version": version, "groups": count} for version, count in shown.earlier.items()]
    _, agent, topic, partition = shown.partition
    place = {"agent": agent, "topic": topic, "partition": partition, "owner": shown.owner or None}
    facts = {"offset": shown.offset, "unsent": shown.unsent, "dead": shown.dead, "watermark": watermark}
    return {**place, **facts, "version": shown.version, "earlier": earlier, "again": shown.again, "note": shown.note}


def _row(table: GroupTable, row: int, age: float) -> Facts:
    window = table.window(row)
    shown = {} if window is None else {"window": rfc3339(window / 1000)}
    return {**_group(table.group(row), age), **shown, "waits": table.waits_of(row)}


def _group(group: OpenGroup, age: float) -> Facts:
    """`age` is the age of the reading in seconds. `name` identifies the group in questions and changes."""
    fires_in = None if group.fires_in is None else group.fires_in - age
    text = {"text": group.key.decode(errors="replace"), "name": f"base64:{_base64(group.key)}", "place": where(group)}
    return {**document(group), **text, "age": group.age + age, "fires_in": fires_in}


def _base64(key: bytes) -> str:
    return b64encode(key).decode()


def _window(group: OpenGroup) -> str | None:
    return None if group.window is None else rfc3339(group.window.start / 1000)
