"""What is waited for at a start, what is said meanwhile, and what is not waited for."""

import socket

import pytest

from sluicegate.streams.agent import App
from sluicegate.streams.cli.opening import waiting
from sluicegate.streams.cli.opening.waiting import System, kafka_of, store_of, wait_for
from sluicegate.streams.errors import NotAuthenticated, NotPermitted, PersistenceError, SystemNotReady, permanent
from tests.waiting import wait_until

STORE = System("the store", ("memory://",), "store")
KAFKA = System("Kafka", ("10.0.0.1:9092",), "kafka.bootstrap.servers")


def free_port() -> int:
    with socket.socket() as socket_:
        socket_.bind(("127.0.0.1", 0))
        return socket_.getsockname()[1]


@pytest.mark.parametrize(
    ("url", "place", "servers"),
    [
        ("redis://u:p@host/0", "host:6379", (("host", 6379),)),
        ("rediss://host:1/0?ssl_ca_certs=/x", "host:1", (("host", 1),)),
        ("redis+sentinel://a,b:2/main", "a:26379, b:2", (("a", 26379), ("b", 2))),
        ("postgresql://u:p@[::1]:5433/db", "[::1]:5433", (("::1", 5433),)),
        ("postgresql://[::1]/db", "[::1]:5432", (("::1", 5432),)),
        ("postgresql://localhost/db?host=/run/postgresql", "postgresql://localhost", ()),
        ("postgresql://%2Frun%2Fpostgresql/db", "postgresql://%2Frun%2Fpostgresql", ()),
        ("postgresql://localhost/db?hostaddr=10.0.0.1&port=1", "10.0.0.1:1", (("10.0.0.1", 1),)),
        ("mongodb://%2Ftmp%2Fmongodb-1.sock/db", "mongodb://%2Ftmp%2Fmongodb-1.sock", ()),
        ("mysql://localhost/db?unix_socket=/run/mysql.sock", "mysql://localhost", ()),
        ("mariadb://host/db", "host:3306", (("host", 3306),)),
        ("mongodb://a,b/db?replicaSet=x", "a:27017, b:27017", (("a", 27017), ("b", 27017))),
        ("mongodb+srv://cluster.example/db", "mongodb+srv://cluster.example", ()),
        ("sqlite:///state.db", "/folder/state.db", ()),
        ("memory://", "memory://", ()),
    ],
)
def test_the_places_of_a_store(url: str, place: str, servers: tuple[tuple[str, int], ...]) -> None:
    system = store_of(App("app", url, (), folder="/folder"))
    assert (str(system), system.servers) == (f"the store at {place}", servers)


def test_the_places_of_kafka() -> None:
    system = kafka_of(App("app", "memory://", (), {"bootstrap.servers": "PLAINTEXT://a:1, b"}))
    assert str(system) == "Kafka at a:1, b:9092"
    assert kafka_of(App("app", "memory://", (), {"bootstrap.servers": "embedded"})).servers == ()


@pytest.mark.parametrize("error", [NotAuthenticated("no"), NotPermitted("no"), permanent(PersistenceError("no"))])
def test_a_permanent_error_is_not_tried_again(error: Exception) -> None:
    def attempt() -> None:
        raise error

    with pytest.raises(SystemNotReady, match=r"^no$") as raised:
        wait_for(30.0, attempt, lambda seconds: pytest.fail("it waited"), system=STORE)
    assert raised.value.permanent


def test_without_the_mark_it_is_waited_for() -> None:
    """The twin of the test above."""
    now = [0.0]

    def attempt() -> None:
        raise PersistenceError("no")

    def pause(seconds: float) -> None:
        now[0] += seconds

    text = r"^the store at memory:// is not ready: no \(tried for 30 s\); start it, or correct `store` in the file$"
    with pytest.raises(SystemNotReady, match=text):
        wait_for(30.0, attempt, pause, lambda: now[0], system=STORE)
    assert now[0] == pytest.approx(30.0)


def test_a_name_that_does_not_resolve_is_not_waited_for() -> None:
    system = store_of(App("app", "redis://no-such-host.invalid/0", ()))
    with pytest.raises(
        SystemNotReady, match=r"no-such-host.invalid:6379 cannot be found: .* correct `store` in the file"
    ):
        wait_for(30.0, lambda: pytest.fail("it asked"), lambda seconds: pytest.fail("it waited"), system=system)


def test_one_name_that_resolves_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        servers = f"no-such-host.invalid:1,127.0.0.1:{server.getsockname()[1]}"
        system = kafka_of(App("app", "memory://", (), {"bootstrap.servers": servers}))
        assert wait_for(5.0, lambda: "there", system=system) == "there"


def test_a_server_that_is_down_is_named_and_its_driver_is_not_asked() -> None:
    system = kafka_of(App("app", "memory://", (), {"bootstrap.servers": f"127.0.0.1:{(port := free_port())}"}))
    text = rf"Kafka at 127.0.0.1:{port} is not ready: 127.0.0.1:{port}: Connection refused \(tried for 0.1 s\); "
    with pytest.raises(SystemNotReady, match=f"^{text}start it, or correct `kafka.bootstrap.servers` in the file$"):
        wait_for(0.1, lambda: pytest.fail("it asked"), system=system, tell=lambda *_: None)


def test_while_an_attempt_takes_its_time_what_is_waited_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TELL_FIRST", 0.02)
    monkeypatch.setattr(waiting, "TELL_EVERY", 0.05)
    waits: list[tuple[System, float, str]] = []
    begun: list[float] = []

    def attempt() -> str:
        begun.append(0.0)
        if len(begun) == 1:
            raise PersistenceError("refused")
        wait_until(lambda: len(waits) >= 3)
        return "there"

    assert (
        wait_for(30.0, attempt, lambda seconds: None, system=KAFKA, tell=lambda *arguments: waits.append(arguments))
        == "there"
    )
    assert {(str(system), why) for system, _, why in waits} == {("Kafka at 10.0.0.1:9092", "refused")}
    rest = [seconds for _, seconds, _ in waits]
    assert rest == sorted(rest, reverse=True)
    assert 20 < rest[-1] <= 30


def test_it_is_said_early_and_then_each_five_seconds() -> None:
    assert (waiting.TELL_FIRST, waiting.TELL_EVERY) == (2.0, 5.0)


def test_nothing_is_said_of_a_system_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TELL_FIRST", 0.5)
    assert wait_for(30.0, lambda: "there", system=KAFKA, tell=lambda *_: pytest.fail("it said something")) == "there"
