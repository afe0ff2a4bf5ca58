"""The other side of the comparisons: Faust's app is built, Java's is compiled, and all of Python's parses."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.servers import Unavailable, jars

PROJECT = Path(__file__).resolve().parents[3]
PAGES = PROJECT / "docs" / "compare"


def code(page: str, language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", (PAGES / f"{page}.md").read_text(encoding="utf-8"), re.S)
    return str(text)


@pytest.mark.parametrize("page", ["faust", "quix", "celery"])
def test_its_python_parses(page: str) -> None:
    ast.parse(code(page, "python"))


def test_the_app_of_faust_is_built(tmp_path: Path) -> None:
    (tmp_path / "shop_faust.py").write_text(code("faust", "python"), encoding="utf-8")
    program = (
        "import shop_faust; app = shop_faust.app; app.finalize()\n"
        "print(sorted(app.agents), sorted(app.tables), [topic.get_topic_name() for topic in (shop_faust.orders,)])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "['shop_faust.collect'] ['open-baskets'] ['orders']", done.stderr


def test_the_topology_of_kafka_streams_compiles(tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None:
        missing(Unavailable("Kafka Streams needs java on the PATH: install a Java 17 runtime"))
    (tmp_path / "Shop.java").write_text(code("kafka-streams", "java"), encoding="utf-8")
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main"]  # a runtime has the module, and no javac
    path = os.pathsep.join(map(str, Path(jars.kafka_streams()).glob("*.jar")))
    command = [*compiler, "-cp", path, "-d", str(tmp_path), "Shop.java"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
