"""The changes of the page. Each has a reason, uses the code of the command, and is recorded in the audit journal."""

import socket
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.console.questions import Questions
from sluicegate.streams.console.wording import PAGE, agent_of, optional, text
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.journal.journal import note
from sluicegate.streams.observe.http import CallFields
from sluicegate.streams.operations.dead import dead_causes, dead_changes
from sluicegate.streams.operations.dead.dead_changes import PAGE as SLICE
from sluicegate.streams.operations.dead.dead_letters import Letter
from sluicegate.streams.operations.dead.dead_rows import DeadOutput
from sluicegate.streams.operations.groups import group_changes
from sluicegate.streams.operations.groups.open_groups import OpenGroup

LONGEST_NAME = 200  # characters of a name
GONE = "the letter is gone from its topic"


def person(fields: CallFields) -> Person:
    """The operator with a new token. Raises ConfigurationError without a reason."""
    why = text(fields, "why", "").strip()
    if not why:
        raise ConfigurationError("say why: the reason is kept with the change, for `sluicegate audit`")
    who = (optional(fields, "by") or "unknown").strip()[:LONGEST_NAME]
    return Person(f"{who}@{socket.gethostname()} (console)", why, uuid.uuid4().hex)


class ConsoleChanges:
    """Fires and drops groups, and retries and drops dead records."""

    def __init__(self, app: App, questions: Questions) -> None:
        self._app, self._questions, self._desk = app, questions, questions.desk

    def fire(self, fields: CallFields) -> dict[str, Any]:
        """As `groups fire`."""
        agent, who, key = agent_of(self._app, fields), person(fields), text(fields, "key")
        with self._desk.store() as store:
            group = self._group(store, fields)
            group_changes.fire(store, agent, group, _shown(key), who)
        self._questions.expire()
        return {"fire": group_changes.document(group)}

    def drop(self, fields: CallFields) -> dict[str, Any]:
        """As `groups drop`."""
        agent, who, key = agent_of(self._app, fields), person(fields), text(fields, "key")
        with self._desk.store() as store, self._questions.systems.open_outputs(self._app, agent) as outputs:
            group = self._group(store, fields)
            group_changes.drop(store, agent, group, _shown(key), who, outputs)
        self._questions.expire()
        return {"drop": group_changes.document(group)}

    def _group(self, store: Store, fields: CallFields) -> OpenGroup:
        agent, key = agent_of(self._app, fields), text(fields, "key")
        group_changes.require_groups(agent)
        window, place = optional(fields, "window"), text(fields, "place")
        groups = group_changes.named(self._app.name, agent, store, time.time(), key, window, place)
        return group_changes.only(groups, _shown(key), place)

    def retry(self, fields: CallFields) -> dict[str, Any]:
        """As `dead retry`. `ask` in the answer is the question to which the operator must agree (`yes`) first. The
        contents of SLICE letters are in memory at a time."""
        agent, who = agent_of(self._app, fields), person(fields)
        ids, topics, again = _chosen_ids(fields), self._topics(), fields.get("again") is True
        rows, letters, done = self._dead(agent, fields, ids)
        if letters and fields.get("yes") is not True and (ask := dead_changes.question(topics(), letters)):
            return {"ask": ask}
        outcome: dict[str, Any] = {}
        for at in range(0, max(1, len(letters)), SLICE):
            short = letters[at : at + SLICE]
            whole = self._questions.whole_letters(short)
            with self._desk.store() as store:
                part = dead_changes.retry(
                    self._app,
                    agent,
                    store,
                    topics,
                    rows if not at else [],
                    whole,
                    _renewed(who),
                    again,
                    lambda: time.sleep,
                )
            there = {letter.id for letter in whole}
            gone = [letter.place for letter in short if letter.id not in there]
            part["left_out"] += [{"id": place, "why": GONE} for place in gone]
            outcome = {name: outcome[name] + value for name, value in part.items()} if at else part
        outcome["refused"] += [id for id in ids if id in done and id not in {row.row.id for row in rows}]
        self._questions.expire()
        return outcome

    def drop_dead(self, fields: CallFields) -> dict[str, Any]:
        """As `dead drop`."""
        agent, who = agent_of(self._app, fields), person(fields)
        rows, letters, _ = self._dead(agent, fields, _chosen_ids(fields))
        with self._desk.store() as store:
            outcome = dead_changes.drop(self._app, store, rows, letters, _renewed(who))
        self._questions.expire()
        return outcome

    def _dead(
        self, agent: Agent, fields: CallFields, ids: Sequence[str]
    ) -> tuple[list[DeadOutput], list[Letter], set[str]]:
        """The rows and the letters, without their contents, that the ids or the cause select, and the ids of rows that
        were retried before. A cause does not select letters that were retried."""
        seen = self._questions.dead_of(agent, self._questions.dead_shown.fresh()[0])
        if ids:
            with self._desk.store() as store:
                return dead_changes.select(self._app, agent, store, seen, ids)
        if seen.missing:
            raise SystemNotReady(f"dead letters cannot be read: {seen.missing}")
        items, _ = dead_causes.select(seen, text(fields, "cause"), None)
        return *dead_causes.divided([item for item in items if not item.shown["retried"]]), set()

    def retry_outbox(self, fields: CallFields) -> dict[str, Any]:
        """As `outbox retry`."""
        ids, who = _ids(fields), person(fields)
        with self._desk.store() as store:
            note(store, self._app.name, who, "outbox retry", *ids)
            return {"pending": store.outbox.requeue(ids)}

    def drop_outbox(self, fields: CallFields) -> dict[str, Any]:
        """As `outbox drop`."""
        ids, who = _ids(fields), person(fields)
        with self._desk.store() as store:
            note(store, self._app.name, who, "outbox drop", *ids)
            return {"dropped": store.outbox.drop(ids)}

    def _topics(self) -> dead_changes.OpenTopics:
        return lambda: self._questions.systems.open_topics(self._app)


def _renewed(who: Person) -> Callable[[], Person]:
    return lambda: who._replace(token=uuid.uuid4().hex)


def _shown(key: str) -> str:
    return group_changes.key_of(key).decode(errors="replace")


def _chosen_ids(fields: CallFields) -> list[str]:
    """The ids; None if the request names a cause. Raises ConfigurationError."""
    return [] if optional(fields, "cause") and "ids" not in fields else _ids(fields)


def _ids(fields: CallFields) -> list[str]:
    """The ids. Raises ConfigurationError."""
    ids = fields.get("ids")
    if not isinstance(ids, list) or not ids or len(ids) > PAGE or not all(isinstance(id, str) for id in ids):
        raise ConfigurationError(f"the field ids must be a list of 1 to {PAGE} ids")
    return ids
