"""What a Redis URL may say: one server, the primary that sentinels name, a cluster, and TLS to each of them."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socket import create_connection, create_server, socket

import pytest

from sluicegate.connectors import open_store
from sluicegate.connectors.redis import addresses
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError, PersistenceError
from tests.contracts.given import claimed, opened

SERVED = {
    "redis://h": ("", (("h", 6379),), "", {}),
    "redis://:p%40ss@h:7/3": ("", (("h", 7),), "", {"password": "p@ss", "db": 3}),
    "rediss://u:p@[::1]:7/0?ssl_ca_certs=/ca.pem": (
        "",
        (("::1", 7),),
        "",
        {"username": "u", "password": "p", "db": 0, "ssl": True, "ssl_ca_certs": "/ca.pem"},
    ),
    "redis+sentinel://u:p@a,b:7/main/2": (
        "sentinel",
        (("a", 26379), ("b", 7)),
        "main",
        {"username": "u", "password": "p", "db": 2},
    ),
    "rediss+sentinel://a/main?ssl_check_hostname=false": (
        "sentinel",
        (("a", 26379),),
        "main",
        {"ssl": True, "ssl_check_hostname": False},
    ),
    "redis+cluster://:p@a:1,b:2": ("cluster", (("a", 1), ("b", 2)), "", {"password": "p"}),
    "rediss+cluster://a/0?ssl_cert_reqs=none&socket_timeout=3": (
        "cluster",
        (("a", 6379),),
        "",
        {"ssl": True, "ssl_cert_reqs": "none", "socket_timeout": 3.0},
    ),
}
REFUSED = [
    "redis://",
    "redis://hush@",
    "redis://a,b/0",
    "redis://a:0",
    "redis://a:65536",
    "redis://:hush@a:port/0",
    "redis://a/hush",
    "redis://a?ssl_ca_certs=x",
    "redis+sentinel://:hush@a,b",
    "redis+sentinel://:hush@a/main/zero",
    "redis+sentinel://:hush@a,/main",
    "rediss+sentinel://a/main?ssl_cert_reqs=hush",
    "redis+cluster://:hush@a/1",
    "redis+cluster://:hush@a?nonsense=1",
    "rediss+cluster://:hush@a?ssl_ciphers=AES",
    "rediss+cluster://:hush@a?ssl_check_hostname=perhaps&db=hush",
]


@pytest.mark.parametrize("url", SERVED)
def test_a_url_says_kind_nodes_primary_and_options(url: str) -> None:
    kind, nodes, primary, options = SERVED[url]
    address = addresses.parsed(url)
    assert (address.kind, address.nodes, address.primary) == (kind, nodes, primary)
    assert {name: value for name, value in address.options.items() if name in options} == options
    assert address.options.keys() - options.keys() <= addresses._bounded(1, 1).keys()


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_of_no_form_is_refused_with_the_right_one_and_without_its_secrets(url: str) -> None:
    kind = url.partition("://")[0].partition("+")[2]
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)
    assert str(caught.value) == f"the Redis URL cannot be read: {addresses.FORMS[kind]}"


@pytest.mark.parametrize("url", SERVED)
def test_an_address_shows_no_password_and_every_call_has_a_timeout(url: str) -> None:
    address = addresses.parsed(url.replace(":p@", ":hush@"))
    assert "hush" not in repr(address)
    assert all(address.options[name] > 0 for name in ("socket_timeout", "socket_connect_timeout"))


def test_sentinels_have_their_own_login_and_short_timeouts() -> None:
    client = addresses.server("redis+sentinel://u:p@a/main?sentinel_username=su&sentinel_password=sp")()
    [sentinel] = addresses.sentinels(client)
    options = sentinel.connection_pool.connection_kwargs
    assert (options["username"], options["password"], options["socket_timeout"]) == (
        "su",
        "sp",
        addresses.SENTINEL_SECONDS,
    )
    assert client.connection_pool.connection_kwargs["password"] == "p"


@pytest.mark.parametrize(
    "url", ["redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", "redis+cluster://127.0.0.1:1,127.0.0.1:2"]
)
def test_where_nobody_answers_the_result_is_unknown(url: str, partition: Partition) -> None:
    store = open_store(url)
    for action in (lambda: claimed(store, partition), store.level, store.migrate, lambda: store.partitions("app")):
        with pytest.raises(PersistenceError):
            action()
    store.close()


def test_a_server_that_is_no_cluster_is_no_cluster(redis_url: str, partition: Partition) -> None:
    with pytest.raises(PersistenceError, match=r"[Cc]luster"):
        open_store(redis_url.replace("redis://", "redis+cluster://")).read(partition)


# -- TLS: the server of the tests is built without it, so something before it speaks it
# -----------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For localhost, signed by itself; its key beside it."""
    path = tmp_path_factory.mktemp("tls") / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *subject]
    subprocess.run(
        [*made, "-keyout", str(path.with_suffix(".key")), "-out", str(path)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return path


def _pump(source: socket, target: socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for server in (source, target):
        with suppress(OSError):
            server.close()


@pytest.fixture
def tls_port(certificate: Path, redis_url: str) -> Iterator[int]:
    """A port that ends TLS before the run's server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    [target] = addresses.parsed(redis_url).nodes

    def accept() -> None:
        with suppress(OSError):
            while True:
                link, _ = listener.accept()
                with suppress(OSError):
                    inner = context.wrap_socket(link, server_side=True)
                    outer = create_connection(target)
                    for pair in ((inner, outer), (outer, inner)):
                        threading.Thread(target=_pump, args=pair, daemon=True).start()

    with create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


def test_a_store_over_tls_trusts_the_authority_that_the_url_names(
    tls_port: int, certificate: Path, partition: Partition
) -> None:
    store = opened(f"rediss://localhost:{tls_port}/0?ssl_ca_certs={certificate}")
    assert store.commit(claimed(store, partition), Changes(7, entries=[b"e"])).offset == 7
    store.close()


@pytest.mark.parametrize(
    ("host", "options"),
    [
        pytest.param("localhost", "", id="an authority that is not known"),
        pytest.param("127.0.0.1", "?ssl_ca_certs={}", id="another host"),
        pytest.param("localhost", "?ssl_ca_certs={}.absent", id="a file that is not there"),
    ],
)
def test_no_other_certificate_is_trusted(
    tls_port: int, certificate: Path, host: str, options: str, partition: Partition
) -> None:
    store = open_store(f"rediss://{host}:{tls_port}/0{options.format(certificate)}")
    with pytest.raises(PersistenceError):
        store.read(partition)
    store.close()


def test_whoever_asks_for_no_check_gets_none(tls_port: int, partition: Partition) -> None:
    store = open_store(f"rediss://127.0.0.1:{tls_port}/0?ssl_cert_reqs=none&ssl_check_hostname=false")
    assert store.read(partition) is None
    store.close()
