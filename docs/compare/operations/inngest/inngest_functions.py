"""The functions of the files in this folder."""

from typing import Any


def send_mail(value: Any, send: Any) -> None:
    send({"n": value["n"]})


def write_rows(rows: Any, send: Any) -> None:
    send({"rows": len(rows)})
