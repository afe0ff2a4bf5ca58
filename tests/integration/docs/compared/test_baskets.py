"""Count and sum the orders of each customer: the programs of the pages run beside our file, on the same orders."""

import ast
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.bench.load import create
from tests.bench.peers import environment
from tests.integration.docs.compared import engines, pages, tools
from tests.integration.docs.compared.scene import Result, Scene
from tests.servers import Server, Valkey, jars

pytestmark = pytest.mark.timeout(600)  # the first run of a test installs the product
ORDERS = (("ann", 2, 101), ("bob", 5, 3))
"""Customers, the amount of each of their orders, and how many there are."""
FULL, ANN, BOB = ("ann", 100, 200.0, "count"), ("ann", 1, 2.0, "timeout"), ("bob", 3, 15.0, "timeout")
DONE = [FULL, ANN, BOB]


def order(scene: Scene, at: int = 0) -> None:
    for customer, amount, times in ORDERS:
        scene.send(customer, {"amount": amount}, times, at)


def baskets(results: list[Result]) -> list[tuple[object, ...]]:
    """Sorted. Quix Streams has no reason."""
    return sorted((r.key, r.value["count"], float(r.value["spent"]), r.value.get("reason", "")) for r in results)


def both_do_it(scene: Scene, page: str) -> None:
    """Their program runs already."""
    scene.run_ours(page)
    order(scene)
    assert baskets(scene.results("our-baskets", 3)) == sorted(DONE)
    assert baskets(scene.results("baskets", 3)) == sorted(DONE)


def test_faust_does_the_job(scene: Scene) -> None:
    scene.write("faust", "shop_faust.py")
    scene.run("faust", tools.fetched(environment.python), "-m", "faust", "-A", "shop_faust", "worker", "--without-web")
    both_do_it(scene, "faust")


def test_celery_does_the_job_with_one_process(scene: Scene, own_server: Callable[..., Server]) -> None:
    redis = own_server(Valkey).url.removesuffix("/0")
    scene.write("celery", "shop_celery.py", redis=redis)
    python = tools.python()
    scene.run("worker", python, "-m", "celery", "-A", "shop_celery", "worker", "--beat", "--concurrency", "1")
    scene.run("consumer", python, "-c", "import shop_celery; shop_celery.consume()")
    both_do_it(scene, "celery")


def test_flink_does_the_job_on_a_cluster_in_its_process(scene: Scene) -> None:
    scene.write("flink", "Baskets.java")
    java, *rest = tools.compiled(tools.fetched(environment.flink_libraries), scene.folder, "FlinkOrders")
    topics = scene.named("orders"), scene.named("baskets")
    scene.run("flink", java, *environment.FLINK_OPENED, *rest, scene.kafka, *topics)
    both_do_it(scene, "flink")


def test_quix_streams_ends_a_basket_by_its_count_and_others_by_the_time_of_a_later_record(scene: Scene) -> None:
    """Where our basket ends by itself, its basket stays open until a record of a later window comes."""
    scene.write("quix", "shop_quix.py")
    scene.run("quix", tools.fetched(environment.python), "shop_quix.py")
    scene.run_ours("quix")
    begin = int(time.time()) // 3 * 3000  # of a window
    order(scene, begin)
    assert baskets(scene.results("our-baskets", 3)) == sorted(DONE)
    assert baskets(scene.results("baskets", 1)) == [("ann", 100, 200.0, "")]
    scene.quiet("baskets", 8.0)  # longer than the window, and than a checkpoint
    scene.send("eve", {"amount": 1}, at=begin + 3000)
    assert baskets(scene.results("baskets", 3)) == sorted((*basket[:3], "") for basket in DONE)


def test_ksml_does_the_job_with_ticks_of_a_producer(scene: Scene) -> None:
    for name, text in pages.of_ksml(scene.ns, scene.kafka).items():
        (scene.folder / name).write_text(text, encoding="utf-8")
    create(scene.kafka, scene.named("ticks"))
    engines.ksml(scene)
    both_do_it(scene, "ksml")


def test_the_definition_of_ksml_is_a_document_whose_functions_are_python() -> None:
    """Where KSML is not there."""
    definition, runner = map(yaml.safe_load, pages.codes("ksml", "yaml")[1:])
    functions, streams, pipelines = definition["functions"], definition["streams"], definition["pipelines"]
    for function in functions.values():
        ast.parse(function.get("code", ""))
        ast.parse(function.get("expression", "None"), mode="eval")
    [clock] = definition["producers"].values()
    ends = {pipeline[end] for pipeline in pipelines.values() for end in ("from", "to")}
    assert ends | {clock["to"]} == {*streams}
    mappers = {step["mapper"] for pipeline in pipelines.values() for step in pipeline["via"]}
    assert {*mappers, clock["generator"]} == {*functions}
    assert [*runner["ksml"]["definitions"].values()] == ["shop-ksml.yaml"]


def test_the_topology_of_kafka_streams_does_the_job(tmp_path: Path) -> None:
    text = pages.programs("kafka-streams")["Shop.java"].replace("persistentKeyValueStore", "inMemoryKeyValueStore")
    (tmp_path / "Shop.java").write_text(text, encoding="utf-8")
    libraries = tools.fetched(lambda: jars.kafka_streams(environment.KAFKA_STREAMS))
    java = tools.compiled(libraries, tmp_path, "Orders")
    done = subprocess.run(java, capture_output=True, text=True, timeout=60)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"count": 100, "spent": 200.0, "reason": "count"},
        {"count": 1, "spent": 2.0, "reason": "timeout"},
    ], done.stderr
