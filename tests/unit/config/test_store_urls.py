"""A password in a URL: what a variable holds stays one part of the URL, and no piece of it comes out."""

from contextlib import closing

import pytest
from pymongo.uri_parser import parse_uri

from sluicegate.connectors import open_store
from sluicegate.connectors.redis.addresses import parsed
from sluicegate.connectors.sql.mysql import Mysql
from sluicegate.connectors.sql.postgresql import Postgresql
from sluicegate.streams.config import redacted
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.observe.logs import masked
from tests.unit.config.files import GOOD, lines, loaded

PASSWORDS = ["top@secret", "a:b/c?d#e", "100%25 [x] + &=", "p\u00e4ss\u0444", "@", "a@b@c/d@e", "'\"\\\\"]
USER, DATABASE = "us@er:1", "sh/op?"


def stored(tmp_path, text, **environ):
    return loaded(tmp_path, GOOD.replace("sqlite:///state.db", f"'{text}'"), environ)


def postgresql(url):
    known = Postgresql(url).resolved()
    return known["user"], known["password"], known["dbname"], known["host"]


def mysql(url):
    known = Mysql(url)._target
    return known["user"], known["password"].decode(), known["database"], known["host"]


def mongodb(url):
    known = parse_uri(url)
    return known["username"], known["password"], known["database"], known["nodelist"][0][0]


DRIVERS = {"postgresql": postgresql, "mysql": mysql, "mongodb": mongodb}


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("scheme", DRIVERS)
def test_a_driver_gets_user_password_and_database_as_the_variables_hold_them(tmp_path, scheme, password):
    database = "shop" if scheme == "mongodb" else DATABASE  # MongoDB's have no / in their names
    url = f"{scheme}://${{USER}}:${{PW}}@localhost/${{DB}}"
    app = stored(tmp_path, url, USER=USER, PW=password, DB=database).app
    assert DRIVERS[scheme](app.store) == (USER, password, database, "localhost")


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("rest", ["localhost:6379/0", "localhost"])
def test_redis_gets_user_and_password_as_the_variables_hold_them(tmp_path, rest, password):
    scheme = "redis" if rest.endswith("0") else "redis+cluster"
    app = stored(tmp_path, f"{scheme}://${{USER}}:${{PW}}@{rest}", USER=USER, PW=password).app
    address = parsed(app.store)
    assert (address.options["username"], address.options["password"]) == (USER, password)
    assert address.nodes == (("localhost", 6379),)


def test_a_path_of_sqlite_and_an_option_keep_what_their_variables_hold(tmp_path):
    app = stored(tmp_path, "sqlite:///${DIR}/a%20b.db", DIR=f"{tmp_path}/50% off?#").app
    (tmp_path / "50% off?#").mkdir()
    with closing(open_store(app.store)) as store:
        store.migrate()
    assert (tmp_path / "50% off?#" / "a b.db").exists()
    app = stored(tmp_path, "postgresql://localhost/db?passfile=${FILE}", FILE="/a b/&x=1").app
    assert Postgresql(app.store)._said["passfile"] == "/a b/&x=1"


WHOLE = "write the whole URL as one variable, or ${USER}:${PASSWORD}@${HOST}/${DATABASE}, one for each part"
MISPLACED = {
    "redis://${ADDRESS}/0": ("the host", WHOLE),
    "postgresql://${ADDRESS}@localhost/db": ("user and password", "write ${USER}:${PASSWORD}@, two variables"),
    "postgresql://localhost/db?${ADDRESS}": ("options", "write option=${NAME}, a variable for each value"),
}


@pytest.mark.parametrize("url", MISPLACED)
def test_a_variable_that_holds_several_parts_of_a_url_is_refused_with_the_reason(tmp_path, url):
    place, hint = MISPLACED[url]
    store = stored(tmp_path, url, ADDRESS="me:t0p-secret@localhost")
    what = f"${{ADDRESS}} stands for {place} and holds more than one part of a URL"
    assert lines(store.problems, tmp_path) == [f"f.yaml:3:1: store: {what}; {hint}"]


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "redis", "mongodb", "redis+cluster"])
@pytest.mark.parametrize("password", ["a@b", "a/b@c", "a?b", "#"])
def test_a_whole_url_whose_password_ends_nowhere_certain_is_refused_without_a_piece_of_it(tmp_path, scheme, password):
    url = f"{scheme}://me:{password}@localhost/0"
    store = stored(tmp_path, "${URL}", URL=url)
    assert lines(store.problems, tmp_path) == [
        "f.yaml:3:1: store: has an @ that does not end user and password; write %40 for @, %2F for /, %3F for ? and "
        "%23 for # in user, password and database; a ${NAME} that stands for one of them is encoded for you"
    ]
    with pytest.raises(ConfigurationError, match="has an @ that does not end user and password"):
        open_store(url)


def test_a_hint_that_shows_the_form_of_a_url_stays_as_it_is():
    for hint in ("redis://[user:password@]host[:port]", "postgresql://${USER}:${PASSWORD}@${HOST}/db"):
        assert masked(hint) == hint
    assert masked("redis://[user:pw@host") == "redis://***@host"


def test_a_url_is_shown_without_user_password_and_options(tmp_path):
    app = stored(tmp_path, "postgresql://${U}:${PW}@localhost/db?sslmode=prefer", U="us@er", PW="top@secret").app
    assert redacted(app.store) == "postgresql://***@localhost/db?***"
