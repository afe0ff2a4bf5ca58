"""The README does what it says: its file is loaded, its commands are run, its result is what comes out."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.waiting import wait_until

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


@pytest.fixture
def shop(tmp_path: Path, kafka: str, ns: str) -> tuple[Path, dict[str, str]]:
    """The README's file under names of this test's own, and the environment for its commands."""
    text = "".join(blocks("yaml"))
    for word in ("clicks", "baskets", "shop"):
        text = re.sub(rf"(app: |from: |topic: |dead_letters: |expect_nothing: ){word}", rf"\g<1>{ns}-{word}", text)
    (tmp_path / "shop.yaml").write_text(text + "http: {port: 0}\n", encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return tmp_path, {**os.environ, "PATH": path, "KAFKA_BOOTSTRAP_SERVERS": kafka}


def commands() -> list[list[str]]:
    (text,) = blocks("sh")
    return [line.split("#")[0].split() for line in text.splitlines()]


def results(kafka: str, topic: str) -> list[dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "readme", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(4)])
    documents: list[dict[str, Any]] = []

    def one() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            documents.append(json.loads(message.value()))
        return bool(documents)

    wait_until(one, 60, "a result")
    consumer.close()
    return documents


def test_226_its_file_and_its_commands_work_in_the_order_given(
    shop: tuple[Path, dict[str, str]], kafka: str, ns: str
) -> None:
    folder, environ = shop
    for command in commands():
        if command[1] == "run":
            _run(command, folder, environ, kafka, ns)
        else:
            done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60)
            early = command == ["sluicegate", "check", "shop.yaml", "--connect"]
            # its topics come with the next command
            assert done.returncode == (3 if early else 0), f"{command}: {done.stdout}{done.stderr}"
    assert "run" in [command[1] for command in commands()]


def _run(command: list[str], folder: Path, environ: dict[str, str], kafka: str, ns: str) -> None:
    with (folder / "run.log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=folder, env=environ, stderr=log)
        try:
            producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
            for _ in range(100):
                producer.produce(f"{ns}-clicks", json.dumps({"amount": 47}), key="UA")
            assert producer.flush(20) == 0
            (result,) = results(kafka, f"{ns}-baskets")
        finally:
            worker.send_signal(signal.SIGTERM)
            code = worker.wait(40)
    assert code == 0
    (shown,) = blocks("json")
    assert list(result) == list(json.loads(shown))
    assert (result["key"], result["count"], result["reason"], result["spent"]) == ("UA", 100, "count", 4700)


def test_its_python_has_at_most_twelve_lines_and_does_what_it_says(tmp_path: Path) -> None:
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    (tmp_path / "shop.py").write_text(code, encoding="utf-8")
    program = (
        "import asyncio, shop\n"
        "sent = []\n"
        "asyncio.run(shop.baskets([shop.Order('ann', 2.5), shop.Order('bob', 1)], sent.append))\n"
        "assert sent == [{'orders': 2, 'spent': 3.5}]\n"
        "assert shop.app.check() == ()\n"
        "with shop.app.test_driver() as driver:\n"
        "    driver.send('orders', {'customer': 'ann', 'amount': 2}, key='ann', times=101)\n"
        "    driver.send('orders', {'customer': 'ann', 'amount': 'two'}, key='ann')\n"
        "    driver.crash()\n"
        "    driver.advance('30s')\n"
        "    assert [each.value['orders'] for each in driver.read('baskets')] == [100, 1]\n"
        "    assert [each.reason for each in driver.dead_letters()] == ['undecodable']\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_first_test_for_pytest_of_the_guide_passes_on_its_file(tmp_path: Path) -> None:
    guide = (PROJECT / "docs" / "testing.md").read_text(encoding="utf-8")
    driven = re.findall(r"```python\n(.*?)```", guide, re.S)[0]
    (tmp_path / "shop.yaml").write_text("".join(blocks("yaml")), encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(driven, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "sluicegate.streams.testing.plugin",
        "test_shop.py",
    ]
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # so that it is loaded once, installed or not
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_every_make_target_it_names_exists() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", README))
    assert named >= {"demo", "test", "setup", "check", "servers", "chaos", "bench"}
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"


def test_every_file_it_names_exists() -> None:
    for path in re.findall(r"\((docs/[^)]+)\)|`((?:tests|schemas)/[\w./]+\.\w+)`", README):
        assert (PROJECT / (path[0] or path[1]).partition("#")[0]).exists(), path
