"""Apps in Python as programs: on a real Kafka, killed and started again; the page docs/python.md; types for mypy."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.supervised.run import Run
from tests.integration.test_readme import blocks
from tests.mutation import twins
from tests.waiting import wait_until

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "python.md").read_text(encoding="utf-8")
ORDERS = 300
GUARD = 'if __name__ == "__main__":'
SHORT = """outbox={"poll": "100ms", "lease": "3s"}, timeouts={"poll": "100ms", "lease": "3s"}"""
"""What a killed dispatcher had in hand is sent by the next one after the lease."""
CALLS = '''
@app.agent(from_="NS-calls", to="NS-answers", dead_letters="NS-dead")
async def calls(call: dict[str, int], send: Send, schedule: Schedule) -> None:
    """Answers later: the dispatcher sends the timeout."""
    if "answer" in call:
        send(call)
    else:
        schedule({"answer": call["number"]}, after=0.2)


'''


def example() -> str:
    """The README's example."""
    (code,) = blocks("python")
    return code


def program(ns: str, timeout: str) -> str:
    """The example in the namespace, with the numbers of its orders in the result, smaller groups and one more agent."""
    text = example()
    for old, new in (
        ('{"orders": len(orders)', '{"numbers": [order.amount for order in orders]'),
        ('"orders"', f'"{ns}-orders"'),
        ('"baskets"', f'"{ns}-baskets"'),
        ('"shop.dead"', f'"{ns}-dead"'),
        ('App("shop"', f'App("{ns}"'),
        ("count=100", "count=7"),
        ('"30s"', f'"{timeout}"'),
        ('"localhost:9092"}', '"${KAFKA}", "session.timeout.ms": 6000}, http=False, ' + SHORT),
        ("import App, Send", "import App, Schedule, Send"),
        (GUARD, CALLS.replace("NS", ns) + GUARD),
    ):
        assert old in text, old
        text = text.replace(old, new)
    return text


class Shop:
    """The program in a folder, and a client of its broker."""

    def __init__(self, folder: Path, kafka: str, ns: str) -> None:
        self.folder, self.kafka, self.ns = folder, kafka, ns
        self.runs: list[Run] = []
        self.producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        self.consumer = Consumer({"bootstrap.servers": kafka, "group.id": ns, "enable.auto.commit": False})
        self.consumer.assign(
            [TopicPartition(f"{ns}-{name}", n, 0) for name in ("baskets", "answers", "dead") for n in range(2)]
        )
        self.found: dict[bytes, tuple[str, Any]] = {}
        self.dead: list[Any] = []

    def start(self, timeout: str) -> Run:
        (self.folder / "shop.py").write_text(program(self.ns, timeout), encoding="utf-8")
        self.runs.append(Run(sys.executable, str(self.folder / "shop.py")))
        return self.runs[-1]

    def committed(self) -> int:
        """The offsets that the agent of the baskets told Kafka."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": f"{self.ns}.baskets"})
        positions = consumer.committed([TopicPartition(f"{self.ns}-orders", number) for number in range(2)], timeout=10)
        consumer.close()
        return sum(max(position.offset, 0) for position in positions)

    def send(self, numbers: range) -> None:
        for number in numbers:
            order = {"customer": f"c{number % 5}", "amount": number}
            self.producer.produce(f"{self.ns}-orders", json.dumps(order), key=order["customer"])
            self.producer.produce(f"{self.ns}-calls", json.dumps({"number": number}), key=f"c{number % 5}")
        assert self.producer.flush(20) == 0

    def read(self) -> tuple[Counter[int], Counter[int]]:
        """How often each order is in a basket, and how often each call was answered. Copies have the same id."""
        while (message := self.consumer.poll(0.1)) is not None:
            if message.error() is None:
                headers = dict(message.headers())
                value = json.loads(message.value())
                self.found[headers["sluicegate-id"]] = (message.topic(), value)
        self.dead = [value for topic, value in self.found.values() if topic.endswith("-dead")]
        baskets = [value for topic, value in self.found.values() if topic.endswith("-baskets")]
        assert all(sum(basket["numbers"]) == basket["spent"] for basket in baskets)
        answers = Counter(value["answer"] for topic, value in self.found.values() if topic.endswith("-answers"))
        return Counter(int(number) for basket in baskets for number in basket["numbers"]), answers

    def close(self) -> None:
        self.consumer.close()
        for run in self.runs:
            run.close()


@pytest.fixture
def shop(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    monkeypatch.setenv("KAFKA", kafka)
    for name in ("orders", "baskets", "calls", "answers", "dead"):
        make_topic(f"{ns}-{name}", 2)
    made = Shop(tmp_path, kafka, ns)
    yield made
    made.close()


def test_the_example_counts_each_order_once_and_its_dispatcher_sends_although_it_is_killed(shop: Shop) -> None:
    once = Counter(range(ORDERS))
    for part in range(2):  # a record whose process died three times would be a dead letter
        run = shop.start("1s")
        run.wait("dispatcher.started", timeout=60)
        shop.send(range(part * 150, part * 150 + 150))
        wait_until(lambda part=part: len(shop.read()[0]) > part * 150 + 20, 60, "the first baskets")
        run.signal(signal.SIGKILL)
        run.exit_code()
    last = shop.start("1s")
    wait_until(lambda: all(len(output) == ORDERS for output in shop.read()), 90, "all orders and all answers")
    assert (shop.read(), shop.dead) == ((once, once), [])
    last.signal(signal.SIGTERM)
    assert last.exit_code(60) == 0


@pytest.mark.parametrize("without", ["", "restore-groups"])
def test_open_groups_of_a_killed_program_are_complete_after_it_starts_again(
    shop: Shop, without: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Three orders of each key before the kill, and four after it, are one group of seven. The twin loses the three."""
    if without:
        for name, value in twins.environment(without, tmp_path / "edited").items():
            monkeypatch.setenv(name, value)
    run = shop.start("8s")
    run.wait("dispatcher.started", timeout=60)
    shop.send(range(15))
    wait_until(lambda: shop.committed() == 15, 60, "the commit of the first orders")
    run.signal(signal.SIGKILL)
    run.exit_code()
    last = shop.start("8s")
    shop.send(range(15, 35))
    wait_until(lambda: {*range(15, 35)} <= {*shop.read()[0]}, 60, "the later orders")
    if without:
        assert not {*range(15)} & {*shop.read()[0]}
        twins.check(without, tmp_path / "edited", last.pids(2))
    else:
        assert shop.read()[0] == Counter(range(35))


def test_its_types_are_right_and_a_wrong_keyword_is_found_by_mypy(tmp_path: Path) -> None:
    wrong = example().replace("count=100", "cuont=100").replace("sum(order.amount", "sum(order.amuont")
    for name, text in (("shop.py", example()), ("wrong.py", wrong)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--ignore-missing-imports"]
    command += ["--follow-imports", "silent", "--cache-dir", str(tmp_path / "cache"), "shop.py", "wrong.py"]
    environ = {**os.environ, "MYPYPATH": str(PROJECT)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=400)
    problems = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert {line.partition(":")[0] for line in problems} == {"wrong.py"}, done.stdout + done.stderr
    assert ('"cuont"' in done.stdout, '"amuont"' in done.stdout) == (True, True)


def code(language: str) -> dict[str, str]:
    """The blocks of the page that name a file, by its name."""
    matches = [re.match(r"# (\S+)\n", text) for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)]
    return {match[1]: match.string for match in matches if match}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    for name, text in code("python").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_tests_of_the_page_pass(page: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    done = subprocess.run(command, cwd=page, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_file_that_the_page_writes_is_the_app(page: Path) -> None:
    (line,) = re.findall(r"^python -c (.*) > shop.yaml$", PAGE, re.M)
    written = ran(page, "-c", *shlex.split(line))
    (page / "shop.yaml").write_text(written, encoding="utf-8")
    ran(page, "-m", "sluicegate", "check", "shop.yaml")
    program = "from pathlib import Path; from sluicegate import App; from shop import app; "
    ran(page, "-c", program + "assert App.from_yaml(Path('shop.yaml')) == app")


def ran(folder: Path, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PACKAGE = {
    "pairs/__init__.py": "",
    "pairs/program.py": """
from sluicegate import App
from .orders import app

app.run()
""",
    "pairs/orders.py": """
from sluicegate import App, Send

app = App("pairs", store="sqlite:///state.db", kafka={"bootstrap.servers": "embedded"}, http=False)


@app.agent(from_="numbers", to="pairs", count=2)
def pairs(numbers: list[int], send: Send) -> None:
    send(sum(numbers))
""",
}


def test_a_package_runs_with_python_m_and_its_workers_find_its_modules(tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    for name, text in PACKAGE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = f"cd {tmp_path} && exec {sys.executable} -m pairs.program"
    run = Run(shutil.which("sh") or "sh", "-c", command)
    try:
        bootstrap = run.wait("broker.embedded", timeout=60)[0]["bootstrap"]
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        for number in (1, 2):
            producer.produce("numbers", key="k", value=str(number))
        assert producer.flush(10) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "log_level": 0})
        consumer.assign([TopicPartition("pairs", number, 0) for number in range(4)])
        answer = wait_until(lambda: (message := consumer.poll(0.2)) and not message.error() and message.value(), 60)
        consumer.close()
        assert answer == b"3"
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
        assert (tmp_path / "state.db").exists()
    finally:
        run.close()
