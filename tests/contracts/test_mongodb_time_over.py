"""A step on MongoDB that runs out of time holds nobody up: its transaction ends at the server, too."""

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

from sluicegate.connectors.mongodb import connection
from sluicegate.streams.errors import PersistenceError
from tests.servers import Proxy

Patch = pytest.MonkeyPatch


class WithinTheLimit:
    """In the place of a context of its own."""

    def run(self, call: Callable[[], None]) -> None:
        call()


def in_session(used: list[Any], concern: Any, client: connection.MongoServer, work: Callable[[Any], Any]) -> Any:
    with client.start_session() as session:
        used.append(session.session_id)
        return connection.transact(session, concern, work, 1000)


@pytest.mark.parametrize("where", ["work", "commit"])
@pytest.mark.parametrize("ended", [True, False], ids=["", "twin"])
def test_a_step_whose_time_is_over_leaves_no_lock_behind(
    mongodb_url: str, ns: str, monkeypatch: Patch, where: str, ended: bool
) -> None:
    """The driver sends nothing after its deadline, no abort either: whoever waited next held a lock of its own then,
    and so on."""
    # of one, the next session would be the same again
    first, other = connection.client(mongodb_url), connection.client(mongodb_url)
    data = first.get_database(ns, write_concern=connection.database(first).write_concern)
    data.create_collection("late")

    def raised(session: Any) -> Any:
        return session.client[ns]["late"].find_one_and_update(
            {"_id": 1}, {"$inc": {"n": 1}}, upsert=True, session=session
        )

    def late(session: Any) -> None:
        raised(session)
        threading.Event().wait(1.2)
        if where == "work":
            raised(session)

    used: list[Any] = []
    transact = partial(in_session, used, data.write_concern)
    if not ended:
        monkeypatch.setattr(connection, "Context", WithinTheLimit)
    try:
        monkeypatch.setattr(connection, "REPLY_SECONDS", 1.0)
        with pytest.raises(PersistenceError, match="time limit"):
            transact(first, late)
        monkeypatch.setattr(connection, "REPLY_SECONDS", 4.0)
        with contextlib.nullcontext() if ended else pytest.raises(PersistenceError):
            transact(other, raised)
    finally:
        other.admin.command("killSessions", used)
        first.drop_database(ns)
        first.close()
        other.close()


@pytest.mark.parametrize(("end", "waits"), [(0.2, False), (6.0, True)], ids=["", "twin"])
def test_a_commit_in_doubt_does_not_wait_twice_for_a_server_that_is_gone(
    mongodb_url: str, ns: str, proxy: Callable[..., Proxy], monkeypatch: Patch, end: float, waits: bool
) -> None:
    """Once for its outcome; telling it to forget the session has a limit of its own."""
    wire = proxy(mongodb_url)
    near, other = (
        connection.client(mongodb_url.replace(f":{urlsplit(mongodb_url).port}", f":{wire.port}")),
        connection.client(mongodb_url),
    )
    data = near.get_database(ns, write_concern=connection.database(near).write_concern)
    data.create_collection("late")

    def gone_before_the_commit(session: Any) -> None:
        data["late"].insert_one({"_id": 1}, session=session)
        wire.refuse()
        wire.reset()

    monkeypatch.setattr(connection, "REPLY_SECONDS", 1.0)
    monkeypatch.setattr(connection, "GONE_SECONDS", end)
    began = time.monotonic()
    session = near.start_session()
    with pytest.raises(PersistenceError):
        connection.transact(session, data.write_concern, gone_before_the_commit)
    took = time.monotonic() - began
    other.admin.command("killSessions", [session.session_id])
    other.drop_database(ns)
    other.close()
    near.close()
    assert (took > 5) is waits
