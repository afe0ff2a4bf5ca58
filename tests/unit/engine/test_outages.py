"""Which errors of a handler mean that a system does not answer: they count no attempt."""

import socket
import urllib.error
from typing import Any

import aiohttp
import pymongo.errors
import pytest
import redis.exceptions
import requests
import urllib3.exceptions

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Destination, Handler
from sluicegate.streams.errors import ConfigurationError, NotCommitted
from sluicegate.streams.handlers import Outage
from sluicegate.streams.handlers.outages import Outages, outage_type
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import dead, feed

HERE = "tests.unit.engine.test_outages"


class StockIsAway(Exception):
    pass


class NoStock(StockIsAway):
    pass


def named(name: str, *bases: str) -> Exception:
    """An error of a library that is not installed here: its class has the name and the bases of the library's."""
    kind: type[Exception] = Exception
    for path in (*reversed(bases), name):
        module, _, last = path.rpartition(".")
        kind = type(last, (kind,), {"__module__": module})
    return kind()


MAX_RETRY = urllib3.exceptions.MaxRetryError
AWAY: list[Exception] = [
    Outage(),
    ConnectionResetError(),
    TimeoutError(),
    socket.gaierror(),
    urllib.error.URLError(ConnectionRefusedError()),
    requests.ConnectionError(),
    requests.ReadTimeout(),
    requests.exceptions.ChunkedEncodingError(),
    aiohttp.ClientConnectionError(),
    aiohttp.ServerDisconnectedError(),
    aiohttp.ClientPayloadError(),
    urllib3.exceptions.ProtocolError(),
    MAX_RETRY(None, "/", urllib3.exceptions.ConnectTimeoutError()),  # type: ignore[arg-type]
    redis.exceptions.ConnectionError(),
    pymongo.errors.AutoReconnect(),
    named("httpx.ConnectError", "httpx.NetworkError", "httpx.TransportError"),
    named("httpx.ReadTimeout", "httpx.TimeoutException", "httpx.TransportError"),
    named("httpx.RemoteProtocolError", "httpx.ProtocolError", "httpx.TransportError"),
    named("botocore.exceptions.EndpointConnectionError", "botocore.exceptions.ConnectionError"),
    named("botocore.exceptions.ReadTimeoutError", "botocore.exceptions.HTTPClientError"),
    ExceptionGroup("tasks", [ConnectionError(), requests.Timeout()]),
]
NOT_AWAY: list[Exception] = [
    ValueError(),
    OSError(),
    NotCommitted("refused"),
    StockIsAway(),
    urllib.error.URLError("unknown url type"),
    urllib.error.HTTPError("http://a", 400, "no", None, None),  # type: ignore[arg-type]
    requests.HTTPError(),
    requests.exceptions.MissingSchema(),
    requests.TooManyRedirects(),
    aiohttp.InvalidURL("a"),
    MAX_RETRY(None, "/", urllib3.exceptions.ResponseError("too many redirects")),  # type: ignore[arg-type]
    named("httpx.UnsupportedProtocol", "httpx.TransportError"),
    named("httpx.LocalProtocolError", "httpx.ProtocolError", "httpx.TransportError"),
    ExceptionGroup("tasks", [ConnectionError(), ValueError()]),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_no_answer_is_an_outage(error: Exception) -> None:
    assert Outages()(error)


@pytest.mark.parametrize("error", NOT_AWAY, ids=lambda error: type(error).__name__)
def test_what_the_request_or_the_record_causes_is_none(error: Exception) -> None:
    assert not Outages()(error)


def test_an_agent_names_its_own() -> None:
    judged = Outages((f"{HERE}.StockIsAway", "OSError"))
    assert (judged(NoStock()), judged(OSError()), judged(ValueError())) == (True, True, False)
    assert outage_type("LookupError") is LookupError


@pytest.mark.parametrize("name", [f"{HERE}.NoSuch", f"{HERE}.HERE", "int", "nothing.here.Error", "KeyboardInterrupt"])
def test_what_is_no_class_of_errors_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"not a class of errors; write one as|there is no|has no"):
        Outages((name,))


@pytest.mark.parametrize("how", [{}, {"session": True}, {"concurrency": 2}])
def test_a_call_in_an_outage_counts_no_attempt(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[1] = [requests.ConnectionError() if number % 2 else StockIsAway() for number in range(5)]
    function = "tests.unit.engine.handlers:" + ("book" if how.get("session") else "note")
    handler = Handler((function,), attempts=1, outages=(f"{HERE}.StockIsAway",), **how)
    feed(log, ("k", 1))
    driver = Driver(Agent("a", ("in",), None, Destination("out"), "dead", handler=handler), store, log, clock).give(0)
    for _ in range(150):
        driver.later(1).turns(2)
    assert (handlers.calls.count(1), dead(log)) == (6, [])
