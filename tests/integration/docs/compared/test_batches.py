"""Calls for orders, one by one and in batches: the programs of the pages run. Inngest and Hatchet need servers that no
package registry has: where these are not there, only their functions are called, as their own SDKs do it."""

import base64
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.docs.compared import engines, pages, tools
from tests.integration.docs.compared.scene import Result, Scene
from tests.servers import Postgres, Server, Valkey, free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(600)  # the first run of a test installs the product
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


ANSWERS = """

@app.after_request
def keep(response):
    if flask.request.method == "POST":
        with open("answers.txt", "a") as answers:
            print(response.get_data(as_text=True), file=answers)
    return response
"""
EVENTS = """
import inngest
from shop_inngest import client

client.send_sync([inngest.Event(name="shop/order", data={"account": "acme", "amount": 2})] * 101)
"""
CALLS = """
from shop_hatchet import Order, enter

orders = [enter.create_bulk_run_item(input=Order(account="acme", amount=2))] * 101
for result in enter.run_many(orders):
    print("result:", *result.values(), flush=True)
"""


def ours_enters(scene: Scene, page: str) -> None:
    """Our file makes a call of a hundred orders, and one of the order that is left."""
    scene.run_ours(page)
    scene.send("acme", {"amount": 2}, 101)
    assert [result.value["orders"] for result in scene.results("our-entered", 2)] == [100, 1]


def test_inngest_makes_one_call_for_a_hundred_events_or_for_those_of_the_timeout(scene: Scene) -> None:
    """As we do."""
    scene.write("inngest", "shop_inngest.py", ANSWERS)
    port = free_port()
    server = engines.inngest(scene, f"http://127.0.0.1:{port}/api/inngest")
    program = ["env", f"INNGEST_DEV={server}", tools.python()]
    scene.run("app", *program, "-m", "flask", "--app", "shop_inngest", "run", "--port", str(port))
    wait_until(lambda: engines.functions(server), 60, "the function")
    scene.run("events", *program, "-c", EVENTS)
    answers = scene.folder / "answers.txt"
    wait_until(lambda: answers.exists() and len(answers.read_text().splitlines()) == 2, 60, "calls")
    assert answers.read_text().splitlines() == ["100", "1"]
    ours_enters(scene, "inngest")


def test_hatchet_makes_one_call_for_a_hundred_orders_or_for_those_of_the_interval(
    scene: Scene, own_server: Callable[..., Server]
) -> None:
    """As we do. Each caller gets the number of the orders that its own was in a call with."""
    tools.brought(*engines.HATCHET)
    scene.write("hatchet", "shop_hatchet.py")
    program = ["env", *engines.hatchet(scene, own_server(Postgres).url), tools.python()]
    scene.run("worker", *program, "shop_hatchet.py")
    engines.logged(scene.folder / "worker.log", "starting hatchet")
    scene.run("calls", *program, "-c", CALLS)
    log = scene.folder / "calls.log"
    wait_until(lambda: log.read_text().count("result: ") == 101, 60, "results")
    assert sorted(re.findall("result: (.*)", log.read_text())) == ["1", *["100"] * 100]
    ours_enters(scene, "hatchet")


BATCH = {"account": "acme", "amount": 2}
INNGEST = f"""
import json
import inngest
from inngest.experimental import mocked
from shop_inngest import enter

orders = [inngest.Event(name="shop/order", data={BATCH})] * 100
run = mocked.trigger(enter, orders, mocked.Inngest(app_id="shop"))
batch = enter.get_config("http://localhost/api/inngest").main.batch_events
print(json.dumps([run.status.name, run.output, batch.max_size, batch.timeout.total_seconds(), batch.key]))
"""
HATCHET = f"""
import asyncio
import json
from shop_hatchet import Order, enter

[task] = enter.to_proto().tasks
orders = {{str(number): Order(**{BATCH}) for number in range(100)}}
output = asyncio.run(enter.tasks[0].fn(orders, None))
batch = task.batch
print(json.dumps([output, batch.batch_max_size, batch.batch_max_interval_ms, batch.batch_group_key]))
"""


def printed(page: str, name: str, program: str, folder: Path, **environ: str) -> object:
    """What a program prints that imports the one of the page."""
    (folder / name).write_text(pages.programs(page)[name], encoding="utf-8")
    command = [str(tools.python()), "-c", program]
    environ |= {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_function_of_inngest_takes_a_batch_and_asks_for_such_batches(tmp_path: Path) -> None:
    """With the mocked client of its SDK."""
    answer = printed("inngest", "shop_inngest.py", INNGEST, tmp_path, INNGEST_DEV="1")
    assert answer == ["COMPLETED", 100, 100, 30.0, "event.data.account"]


def test_the_task_of_hatchet_takes_a_batch_and_asks_for_such_batches(tmp_path: Path) -> None:
    """Its SDK has no mock of a batch. The token names an engine, which is not asked."""
    claims = {"sub": "tenant", "server_url": "http://127.0.0.1:1", "grpc_broadcast_address": "127.0.0.1:1"}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)
    ]
    token = ".".join([*parts, ""])
    answer = printed("hatchet", "shop_hatchet.py", HATCHET, tmp_path, HATCHET_CLIENT_TOKEN=token)
    assert answer == [{"orders": 100}, 100, 30000, "input.account"]
