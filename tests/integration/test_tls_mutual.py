"""Stores that want a certificate of ours: shown, they take us; not shown, or the wrong one, they are named at once as
what refuses us."""

import re
import traceback
from collections.abc import Callable

import pymysql
import pytest

from sluicegate.connectors import admission
from sluicegate.connectors.sql.mysql import Mysql
from sluicegate.streams.errors import ConfigurationError, NotAuthenticated, PersistenceError
from tests.integration.secured.systems import MUTUAL, Authority, Mutual
from tests.integration.test_tls_stores import committed
from tests.servers import Server
from tests.servers.certificates import authority
from tests.servers.shared import own_folder

KEY = "k3y-canary"
TURNED_AWAY = "does not accept our certificate, or requires one"
NOT_SHOWN = {"mariadb": "refuses user or password.*no ssl_cert"}  # it says no more to such a user
UNUSABLE = "cannot be used|cannot be read"


@pytest.fixture
def signed() -> Authority:
    return authority(own_folder() / "own")


@pytest.fixture(params=MUTUAL)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(name: str, own_server: Callable[..., Server], signed: Authority) -> Mutual:
    return MUTUAL[name](own_server, signed)


def wrong(store: Mutual, signed: Authority, name: str) -> dict[str, tuple[str, str]]:
    """What is wrong with each URL, and how that is said."""
    locked, absent = signed.locked("locked", KEY), signed.certified("absent")
    absent.key.unlink()
    absent.both.unlink()
    return {
        "not shown": (store.bare, NOT_SHOWN.get(name, TURNED_AWAY)),
        "ended": (store.showing(signed.certified("ended", days=-1)), TURNED_AWAY),
        "of another authority": (store.showing(authority(own_folder() / "another").certified("foreign")), TURNED_AWAY),
        "no password for its key": (store.showing(locked), UNUSABLE),
        "the wrong password for its key": (store.showing(locked, "wr0ng-canary"), UNUSABLE),
        "no file": (store.showing(absent), UNUSABLE),
        "no file of authorities": (store.bare.replace(str(signed.cert), f"{signed.cert}.absent"), UNUSABLE),
    }


def test_a_certificate_of_ours_opens_a_store_and_without_a_right_one_it_says_so_at_once(
    name: str, store: Mutual, signed: Authority
) -> None:
    for what, (url, words) in wrong(store, signed, name).items():
        with pytest.raises((NotAuthenticated, ConfigurationError), match=words) as caught:
            committed(url)
        text = "".join(traceback.format_exception(caught.value))
        assert "canary" not in text, (what, text)
        assert "URL" in str(caught.value), what
    assert committed(store.showing(signed.certified("client"))) == 7
    assert committed(store.showing(signed.locked("client2", KEY), KEY)) == 7


def test_twin_without_a_look_at_the_door_a_refusal_is_an_outage_that_is_waited_for(
    own_server: Callable[..., Server], signed: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MUTUAL["mongodb"](own_server, signed)
    monkeypatch.setattr(admission, "knock", lambda *_: None)
    monkeypatch.setattr("sluicegate.connectors.mongodb.connection.REPLY_SECONDS", 2)
    with pytest.raises(PersistenceError) as caught:
        committed(store.bare)
    assert not isinstance(caught.value, NotAuthenticated)


def test_a_server_that_is_away_is_no_refusal() -> None:
    made = admission.context("redis", admission.Files(), "the URL")
    admission.knock("redis", [("127.0.0.1", 1)], made, "the URL", b"PING\r\n")


def test_why_a_driver_was_cut_off_is_looked_up_when_it_did_not_hear_it(
    own_server: Callable[..., Server], signed: Authority
) -> None:
    """The answer of PyMySQL then, and of a MariaDB that went away for another reason."""
    store = MUTUAL["mariadb"](own_server, signed)
    cut_off = pymysql.err.OperationalError(
        2006, "MySQL server has gone away (SSLEOFError(8, 'EOF occurred in violation of protocol'))"
    )
    reason = Mysql(store.showing(signed.certified("ended", days=-1))).turned_away(cut_off)
    assert re.search(TURNED_AWAY, str(reason))
    assert Mysql(store.showing(signed.certified("client"))).turned_away(cut_off) is None
    assert Mysql(store.bare).turned_away(cut_off) is None
