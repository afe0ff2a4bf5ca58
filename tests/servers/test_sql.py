"""The SQL servers themselves: crash, pause and options."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from tests.servers import Mariadb, Postgres


def sql(url):
    """A connection whose transactions end by `commit`; one statement is sent by `run(connection, text)`."""
    target = urlsplit(url)
    if target.scheme == "postgresql":
        return psycopg.connect(url)
    return pymysql.connect(
        host=target.hostname, port=target.port, user=target.username, database=target.path[1:], read_timeout=5
    )


def run(connection, text):
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else None


@pytest.mark.parametrize("kind", [Postgres, Mariadb])
def test_a_killed_sql_server_comes_back_with_what_it_had_committed_and_nothing_else(own_server, kind):
    server = own_server(kind)
    connection, other = sql(server.url), sql(server.url)
    run(connection, "create table t (n integer)")
    run(connection, "insert into t values (1)")
    connection.commit()
    run(other, "insert into t values (2)")
    server.kill9()
    server.restart()
    assert list(run(sql(server.url), "select n from t")) == [(1,)]


@pytest.mark.parametrize("kind", [Postgres, Mariadb])
def test_a_paused_sql_server_answers_again_after_resume(own_server, kind):
    server = own_server(kind)
    connection = sql(server.url)
    server.pause()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(run, connection, "select 1")
        with pytest.raises(TimeoutError):
            answer.result(0.3)
        server.resume()
        assert list(answer.result(10)) == [(1,)]


@pytest.mark.parametrize(
    ("kind", "args", "question"),
    [(Postgres, ["fsync=off"], "show fsync"), (Mariadb, ["--skip-innodb-doublewrite"], "select @@innodb_doublewrite")],
)
def test_options_of_an_own_sql_server_win_over_the_defaults(own_server, kind, args, question):
    asked = [run(sql(own_server(kind, args=options).url), question)[0][0].lower() for options in ((), args)]
    assert asked == ["on", "off"]
