"""`replay --shadow` and `--rebuild` while a real registry (Apicurio) is down: the store keeps the schemas."""

import json
import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

from tests.integration.supervised.run import Run
from tests.integration.test_avro import command
from tests.integration.test_registry_formats import AVRO, ORDER, PARTS, Scene, running, scene
from tests.unit.schemas.protos import kind
from tests.waiting import wait_until

__all__ = ["running", "scene"]
KEYS = 12
PLACE = ["--from", "earliest"]


def replayed(here: Scene, *words: str) -> tuple[int, Any]:
    done = subprocess.run(
        command("replay", str(here.file), "amounts", *words, "--json"), capture_output=True, text=True, timeout=120
    )
    print(done.stderr[-2000:])
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def serializer(here: Scene, form: str) -> Callable[[float], Any]:
    if form == "avro":
        avro = AvroSerializer(here.client, json.dumps(AVRO))
        return lambda amount: avro({"amount": amount}, here.at)
    order = kind("shop.Order", ORDER, **PARTS)
    protobuf = ProtobufSerializer(order, here.client, {"use.deprecated.format": False})
    return lambda amount: protobuf(order(amount=amount), here.at)


def filled(here: Scene, form: str, running: Callable[[Scene], Run]) -> None:
    """Two of three records of each key gave a result; the third is in an open group. Then the registry is down."""
    text = here.file.read_text().replace("count: 1", "count: 2").replace("http: {port: 0}", "http: false")
    here.file.write_text(re.sub(r"to: .*", f"to: {{topic: {here.ns}-amounts}}", text))  # only JSON is compared
    write = serializer(here, form)
    for number in range(3 * KEYS):
        here.producer.produce(f"{here.ns}-orders", write(float(number)), key=f"k{number % KEYS}")
    assert here.producer.flush(20) == 0
    run = running(here)
    wait_until(lambda: here.came("amounts") >= KEYS, 60, "the results")
    run.signal(SIGTERM)
    assert run.exit_code(40) == 0
    here.server.kill9()


def lost(folder: Path) -> None:
    """The store loses one partition that has open groups."""
    with closing(sqlite3.connect(folder / "state.db")) as store:
        [key] = store.execute("select partition_key from sluicegate_changelog limit 1").fetchone()
        for table in ("claim", "changelog", "outbox"):
            store.execute(f"delete from sluicegate_{table} where partition_key = ?", (key,))
        store.commit()


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_what_the_store_keeps_is_enough_to_compare_and_to_rebuild(
    form: str, scene: Callable[[str], Scene], running: Callable[[Scene], Run], tmp_path: Path
) -> None:
    here = scene(form)
    filled(here, form, running)
    code, comparison = replayed(here, "--shadow", *PLACE)
    assert (code, comparison["records"], comparison["identical"]) == (0, 3 * KEYS, KEYS)
    lost(tmp_path)
    code, comparison = replayed(here, "--rebuild")
    assert (code, len(comparison["rebuilt"])) == (0, 1)
    assert comparison["rebuilt"][0]["groups_restored"] > 0
    assert comparison["rebuilt"][0]["sent_anew"] == 0
