"""Calls for orders, one by one and in batches: the programs of the pages run. Inngest and Hatchet need servers that no
package registry has, so their functions are called as their own SDKs do it."""

from collections.abc import Callable

from tests.integration.docs.compared import tools
from tests.integration.docs.compared.scene import Result, Scene
from tests.servers import Server, Valkey
from tests.waiting import wait_until

SAVE = """

def save(orders, spent):
    with open("saved.txt", "a") as saved:
        print(dict(orders), dict(spent), file=saved)
"""
ORDER = """
from batches_celery import collect

for number in range(101):
    collect.delay("bob" if number < 40 else "ann", 2)
"""


def numbers(results: list[Result], customer: str) -> list[int]:
    return [result.value["number"] for result in results if result.key == customer]


def test_parallel_consumer_calls_the_orders_of_a_customer_in_turn_and_holds_up_no_other(scene: Scene) -> None:
    """As we do."""
    scene.write("parallel-consumer", "Enter.java")
    command = tools.compiled(tools.parallel_consumer(), scene.folder, "Calls")
    for customer, number in (("ann", 1), ("ann", 2), ("bob", 3)):
        scene.send(customer, {"number": number})
    scene.run("parallel-consumer", *command, scene.kafka, scene.ns)
    scene.run_ours("parallel-consumer", "stubs:refused_once")
    for topic in ("entered", "our-entered"):
        results = scene.results(topic, 3)
        assert (numbers(results, "ann"), numbers(results, "bob")) == ([1, 2], [3])
        assert min(results, key=lambda result: result.at).key == "bob"


def test_celery_batches_makes_one_call_for_a_hundred_tasks_or_for_those_of_the_interval(
    scene: Scene, own_server: Callable[..., Server]
) -> None:
    scene.write("celery", "batches_celery.py", SAVE, own_server(Valkey).url.removesuffix("/0"))
    python = tools.python_of_batches()
    scene.run("worker", python, "-m", "celery", "-A", "batches_celery", "worker", "--concurrency", "1")
    scene.run("orders", python, "-c", ORDER)
    saved = scene.folder / "saved.txt"
    lines = wait_until(
        lambda: saved.exists() and len(text := saved.read_text().splitlines()) == 2 and text, 60, "calls"
    )
    assert lines == ["{'bob': 40, 'ann': 60} {'bob': 80, 'ann': 120}", "{'ann': 1} {'ann': 2}"]
