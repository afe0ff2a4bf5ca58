"""The functions of the files in this folder."""

from typing import Any


def split(value: Any, key: str, send: Any) -> None:
    for item in value["items"]:
        send(item, key=f"{key}/{item['id']}")


def by_region(value: Any, send: Any) -> None:
    send(value, key="south" if value["postcode"] >= "5" else "north")


def without_names(value: Any, send: Any) -> None:
    send({name: None if name in ("name", "email") else part for name, part in value.items()})


def summary(result: Any, message: Any) -> Any:
    before = result or {"records": 0, "digits": 0}
    return {"records": before["records"] + 1, "digits": before["digits"] + len(str(message["amount"]))}


def cheaper(result: Any, message: Any) -> Any:
    return message if result is None or message["price"] < result["price"] else result


def enter(value: Any, session: Any) -> None:
    session.connection.exec_driver_sql("insert into orders values (?, ?)", (value["id"], value["total"]))


def show(key: str, value: Any) -> None:
    print(key, value)


def to_tenant(value: Any, key: str, send: Any) -> None:
    send(value, topic=f"tenant-{value['tenant']}", key=key)


def look(value: Any, send: Any, log: Any) -> None:
    log.info("order.seen", total=value["total"])
    send(value)
