"""What a lost connection of a SQL server leaves in the log: lines without a traceback."""

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
import structlog

from connectors import open_store
from streams.errors import SluicegateError
from streams.observe import logs
from streams.values import Partition


def test_x(mariadb_url: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    logs.configure(json=True, descriptor=descriptor)
    store: Any = open_store(mariadb_url)
    store.migrate()
    def kill():
        import pymysql
        from sqlalchemy import make_url
        u = make_url(mariadb_url)
        c = pymysql.connect(host=u.host, port=u.port, user=u.username, password=u.password or "", database=u.database)
        cur = c.cursor()
        cur.execute("show processlist")
        rows = cur.fetchall()
        for row in rows:
            if row[0] != c.thread_id():
                with suppress(Exception):
                    cur.execute(f"kill {row[0]}")
        c.close()
    for what in range(4):
        try:
            if what == 0:
                kill(); store.buffer.count("x")
            if what == 1:
                kill(); store.claim(Partition("a", "b", "c", 0), "t", "m")
            if what == 2:
                with store.transaction() as s:
                    kill()
                    s.connection.execute(sqlalchemy.text("select 1"))
            if what == 3:
                claim = store.claim(Partition("a", "b", "c", 0), "t", "m")
                from streams.values import Changes
                def work(s):
                    kill()
                    s.connection.execute(sqlalchemy.text("select 1"))
                    return Changes(1)
                store.commit_with(claim, work)
            print(what, "fine")
        except Exception as e:
            print(what, type(e), e)
    print(path.read_text())
    assert 0
