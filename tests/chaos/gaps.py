"""Damage that must be loud: each function spoils partition 0 of a scenario whose workers are stopped, as its code
says."""

import sqlite3
import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.scene import Scene
from tests.waiting import wait_until

TABLES = ("claim", "changelog", "outbox", "dead")


def sql(scene: Scene, *statements: str) -> None:
    with sqlite3.connect(scene.store.removeprefix("sqlite:///")) as db:
        for statement in statements:
            db.execute(statement.format(key=f"partition_key = '{scene.name}/sums/{scene.name}.in/0'"))
    db.close()


def redis_do(scene: Scene, action: Callable[[Any, Callable[[str], str]], object]) -> None:
    import redis

    with redis.Redis.from_url(scene.store) as server:
        action(server, lambda part: f"sluicegate:{{{scene.name}/sums/{scene.name}.in/0}}:{part}")


def in_store(scene: Scene, statements: list[str], action: Callable[[Any, Callable[[str], str]], object]) -> None:
    if scene.store.startswith("sqlite"):
        sql(scene, *statements)
    else:
        redis_do(scene, action)


def wiped(scene: Scene) -> None:
    statements = [f"delete from sluicegate_{table} where {{key}}" for table in TABLES]
    in_store(scene, statements, lambda server, key: server.delete(*map(key, ("claim", "log", "outbox", "dead"))))


def swapped(scene: Scene) -> None:
    other = uuid.uuid4().hex
    statements = [f"update sluicegate_claim set incarnation = '{other}' where {{key}}"]
    in_store(scene, statements, lambda server, key: server.hset(key("claim"), "incarnation", other))


def entry_missing(scene: Scene) -> None:
    """The newest: what it says of open groups stands nowhere else."""
    newest = "number = (select max(number) from sluicegate_changelog where {key})"
    in_store(
        scene,
        [f"delete from sluicegate_changelog where {{key}} and {newest}"],
        lambda server, key: server.rpop(key("log")),
    )


def rewound(scene: Scene) -> None:
    """As a store that was restored from an older copy."""
    statements = ["update sluicegate_claim set version = version - 1 where {key}"]
    in_store(scene, statements, lambda server, key: server.hincrby(key("claim"), "version", -1))


def truncated(scene: Scene) -> None:
    """The topic ends before what was read: an unclean leader lost records."""
    statements = ["update sluicegate_claim set next_offset = next_offset + 1000000, version = version + 9 where {key}"]
    in_store(scene, statements, lambda server, key: server.hincrby(key("claim"), "offset", 1000000))


def deleted(scene: Scene) -> None:
    """Retention passes records that nobody has read."""
    topic = f"{scene.name}.in"
    scene.feed.send(200)
    end = scene.tap.ends(topic)[0]
    admin = AdminClient({"bootstrap.servers": scene.bootstrap, "log_level": 0})
    for future in admin.delete_records([TopicPartition(topic, 0, end)]).values():
        future.result(30)


def recreated(scene: Scene) -> None:
    topic = f"{scene.name}.in"
    admin = AdminClient({"bootstrap.servers": scene.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, 30, "the end of the topic")
    admin.create_topics([NewTopic(topic, scene.partitions, 1)])[topic].result(30)
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics, 30, "the new topic")


GAPS = {
    "store-wiped": wiped,
    "store-swapped": swapped,
    "store-rewound": rewound,
    "changelog-incomplete": entry_missing,
    "log-truncated": truncated,
    "retention-passed": deleted,
    "topic-recreated": recreated,
}
EVERYWHERE = {"topic-recreated"}
"""These cannot hit one partition alone."""
