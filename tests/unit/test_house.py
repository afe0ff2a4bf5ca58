"""The house rules hold, and each check finds what it is for."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import house, house_report

PROJECT = Path(__file__).resolve().parents[2]


RULES = [
    house.circles,
    house.imports,
    house.rooms,
    house.sizes,
    house.names,
    house.nouns,
    house.types,
    house.dangers,
    house.headers,
    house.switches,
    house.references,
    house.links,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_rule_of(rule):
    assert "\n".join(rule(PROJECT)) == ""


def test_no_file_names_a_registry_host_or_a_folder_of_this_machine():
    assert house.hosts(PROJECT, here=PROJECT if len(PROJECT.parts) > 2 else None) == []


def test_no_driver_is_loaded_before_it_is_needed():
    code = "import sluicegate.connectors, sluicegate.streams.cli, sluicegate.schemas, sys; "
    code += f"print(*sorted({{*sys.modules}} & {{*{[*house.DRIVERS]}}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_the_commands_load_no_expressions_before_a_file_is_read():
    code = "import sluicegate.streams.cli, sys; print([name for name in sys.modules if '.expressions' in name])"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_every_service_for_development_is_healthy_only_after_a_check_and_is_bound_to_this_machine():
    services = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
    assert services.keys() == {"kafka", "redis", "mongodb", "postgres", "mariadb"}
    for service in services.values():
        assert service["healthcheck"]["test"][0] == "CMD"
        assert ":" in service["image"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "--appendfsync always" in " ".join(services["redis"]["command"])
    assert "--replSet" in services["mongodb"]["command"]


@pytest.fixture
def tree(tmp_path):
    """`tree(path, text)`: a project of one file."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("schemas/json.py", "from sluicegate.streams.contracts import values"),
        ("schemas/json.py", "import sluicegate.connectors"),
        ("streams/aggregation/rule.py", "from sluicegate.streams.contracts.stores import Clock"),
        ("streams/aggregation/rule.py", "from ..engine import owner"),
        ("streams/aggregation/rule.py", "import sluicegate.streams.ownership.owner"),
        ("streams/aggregation/rule.py", "from time import time"),
        ("streams/aggregation/rule.py", "import random"),
        ("streams/ownership/owner.py", "import sluicegate.connectors"),
        ("streams/ownership/owner.py", "def later():\n    from sluicegate.connectors.kafka import consumer"),
        (
            "streams/ownership/owner.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sluicegate.connectors.redis",
        ),
        ("streams/testing/driver.py", "from sluicegate.connectors.memory.state import MemoryStore"),
        ("streams/testing/driver.py", "def opened():\n    from sluicegate.connectors.sql.state import SqlStore"),
        ("streams/ownership/owner.py", "import confluent_kafka"),
        ("streams/cli/workers/demo.py", "from confluent_kafka import Producer"),
        ("connectors/redis/state.py", "from sluicegate.connectors.sql import state"),
        ("connectors/redis/state.py", "from ..sql import state"),
        ("connectors/redis/state.py", "import sqlite3"),
        ("connectors/redis/state.py", "from sluicegate.streams.ownership import owner"),
        ("connectors/redis/state.py", "import sluicegate.streams.config"),
        ("connectors/__init__.py", "from sluicegate.connectors.redis import state"),
        ("connectors/__init__.py", "from . import redis"),
        ("connectors/__init__.py", "import redis"),
        ("connectors/common.py", "import connectors.sql.state"),
        ("connectors/common.py", "import redis"),
        ("streams/ownership/owner.py", "from tests.waiting import wait_until"),
        ("streams/ownership/owner.py", "from streams.contracts.values import Claim"),
        ("connectors/redis/state.py", "import schemas.json"),
    ],
)
def test_an_import_in_the_wrong_direction_is_found(tree, path, text):
    tree("streams/ownership/owner.py", "")
    tree("connectors/sql/state.py", "")
    root = tree(path, text)
    assert [problem for problem in house.imports(root) if problem.startswith(f"{path}:")]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "streams/aggregation/rule.py",
            "import uuid\nfrom sluicegate.streams.contracts.values import Partition\nfrom . import groups\nimport "
            "sluicegate.schemas.json",
        ),
        (
            "streams/ownership/owner.py",
            "from sluicegate.streams.aggregation import rule\nfrom ..contracts.values import Claim\nimport time",
        ),
        ("streams/cli/workers/run.py", "import sluicegate.connectors.kafka"),
        ("streams/testing/driver.py", "def memory():\n    from sluicegate.connectors.memory.state import MemoryStore"),
        (
            "connectors/redis/state.py",
            "import redis\nfrom sluicegate.streams.contracts.values import Claim\n"
            "from . import scripts\nfrom sluicegate.streams import errors",
        ),
        (
            "connectors/__init__.py",
            "from sluicegate.streams.contracts.stores import Store\ndef open_store():\n    from "
            "sluicegate.connectors.redis import state",
        ),
        ("connectors/redis/state.py", "from sluicegate.connectors.common import check"),
        ("connectors/common.py", "from sluicegate.streams.contracts.values import Claim"),
        ("tests/unit/test_it.py", "import connectors, confluent_kafka, time"),
    ],
)
def test_an_import_in_the_right_direction_is_let_through(tree, path, text):
    tree("streams/errors.py", "")
    tree("connectors/common.py", "")
    assert house.imports(tree(path, text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from sluicegate.streams.ownership import owner",
        "import sluicegate.streams.ownership.owner",
        "from ..ownership import owner",
        "def later():\n    from sluicegate.streams.ownership.owner import Owner",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sluicegate.streams.ownership import owner",
    ],
)
def test_an_import_of_a_room_that_is_not_allowed_is_found(tree, text):
    tree("streams/ownership/owner.py", "")
    line = len(text.splitlines())
    outcome = f"streams/outbox/relay.py:{line}: the room outbox must not import the room ownership"
    assert house.rooms(tree("streams/outbox/relay.py", text)) == [outcome]


def test_a_file_beside_the_rooms_imports_no_room_and_every_room_may_import_it(tree):
    tree("streams/outbox/relay.py", "from sluicegate.streams.errors import Fenced")
    root = tree("streams/errors.py", "from sluicegate.streams.outbox import relay")
    assert house.rooms(root) == ["streams/errors.py:1: the room (files) must not import the room outbox"]


def test_a_room_that_the_table_does_not_have_is_found(tree):
    tree("streams/errors.py", "")
    root = tree("streams/attic/old.py", "from sluicegate.streams.errors import Fenced")
    assert house.rooms(root) == ["streams/attic/old.py:1: the room attic is not in house.ARROWS"]


def test_allowed_directions_that_have_a_cycle_are_found(tree):
    allowed = {**house.ARROWS, "outbox": {*house.ARROWS["outbox"], "ownership"}}
    (problem,) = house.rooms(tree("streams/errors.py", ""), allowed)
    assert problem.startswith("the allowed directions have a cycle: ")


def test_the_project_gets_a_cycle_when_one_import_is_added(tmp_path):
    shutil.copytree(PROJECT / "streams", tmp_path / "streams", ignore=shutil.ignore_patterns("__pycache__"))
    relay = tmp_path / "streams" / "outbox" / "relay.py"
    relay.write_text(
        f"{relay.read_text()}\n\ndef late() -> None:\n    from sluicegate.streams.ownership import owner\n"
    )
    (problem,) = house.rooms(tmp_path)
    assert problem.endswith("the room outbox must not import the room ownership")


def test_a_circle_of_files_is_found_and_one_that_is_mended_leaves_the_list(tree):
    tree("streams/config/a.py", "from . import b")
    tree("streams/config/b.py", "def later():\n    from sluicegate.streams.config.c import x")
    root = tree("streams/config/c.py", "from sluicegate.streams.config import a")
    circle = {f"streams/config/{name}.py" for name in "abc"}
    assert house.circles(root, []) == [f"streams/config/a.py: a circle of imports: {', '.join(sorted(circle))}"]
    assert house.circles(root, [circle]) == []
    tree("streams/config/c.py", "")
    assert len(house.circles(root, [circle])) == 1


def test_a_file_a_function_and_a_readme_may_have_just_so_many_lines(tree):
    function = "def long():\n" + "    x = 1\n" * 39
    assert house.sizes(tree("streams/a.py", function)) == []
    assert (
        len(
            house.sizes(tree("streams/a.py", "class A:\n    async " + function.replace("\n", "\n    ") + "    x = 1\n"))
        )
        == 1
    )
    assert house.sizes(tree("streams/a.py", "")) == []
    assert house.sizes(tree("README.md", "line\n" * 125)) == []
    assert len(house.sizes(tree("README.md", "line\n" * 126))) == 1


def test_a_folder_of_the_product_may_have_just_so_many_files(tree):
    for number in range(25):
        root = tree(f"streams/engine/part_{number}.py", "")
    assert house.sizes(root) == []
    assert house.sizes(tree("tests/more/test_more.py", "")) == []
    assert len(house.sizes(tree("streams/engine/one_more.py", ""))) == 1


def test_a_class_of_the_product_may_set_just_so_many_attributes(tree):
    wide = "class Wide:\n    def __init__(self):\n" + "".join(f"        self.a{n} = {n}\n" for n in range(20))
    assert house.sizes(tree("streams/a.py", wide)) == []
    assert house.sizes(tree("streams/a.py", wide + "        self.a0 = self.b = 0\n")) == [
        "streams/a.py:1: Wide has 21 attributes, at most 20"
    ]


def test_large_files_and_classes_are_reported_and_refuse_nothing(tree):
    attributes = "".join(f"        self.a{n} = {n}\n" for n in range(9))
    wide = f"class Wide:\n    b: int\n    c: int\n    d: int\n\n    def __init__(self):\n{attributes}"
    assert house_report.report(tree("streams/a.py", wide + "        self.e = 0\n" + "\n" * 400)) == [
        "streams/a.py: 416 lines, more than 400",
        "streams/a.py:1: Wide has 13 attributes, more than 12",
    ]
    assert house_report.report(tree("streams/a.py", wide)) == []


@pytest.mark.parametrize(
    "text",
    [
        "class ConnectionManager: ...",
        "class BaseStore: ...",
        "class AbstractStore: ...",
        "def parse_helper(): ...",
        "class StoreMixin: ...",
        "class HTTPBase: ...",
    ],
)
def test_a_name_that_says_nothing_is_found(tree, text):
    assert len(house.names(tree("streams/a.py", text))) == 1


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("found = 1", 1),
        ("a = [said for said in b]", 1),
        ("left = 1", 1),
        ("left, right = 1, 2", 0),
        ("a = [each for each in rows]", 1),
        ("a = [row for row in rows]", 0),
        ("a = [each for each in self._entries.values()]", 1),
        ("self.found = a.said", 0),
    ],
)
@pytest.mark.parametrize("path", ["streams/a.py", "tests/unit/test_a.py"])
def test_a_local_that_is_no_noun_is_found(tree, path, text, problems):
    assert len(house.nouns(tree(path, f"def f(a):\n    {text}\n"))) == problems


@pytest.mark.parametrize("path", ["streams/utils.py", "streams/helpers/a.py", "tests/kafka_utils.py"])
def test_a_file_or_folder_whose_name_says_nothing_is_found(tree, path):
    assert len(house.names(tree(path, ""))) == 1


def test_words_that_only_contain_a_forbidden_one_are_let_through(tree):
    text = "class Baseline: ...\ndef utility(): ...\ndef managed(): ...\ndef base64_text(): ..."
    assert house.names(tree("streams/database.py", text)) == []


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('ID = "sluicegate-id"', 1),
        ('def made(headers):\n    return headers[f"sluicegate-dead-{1}"]', 1),
        ('PREFIX = "sluicegate-"', 1),
        ('FOLDER = "sluicegate-demo-"', 0),
        ('"""The header `sluicegate-id`."""', 0),
    ],
)
def test_the_name_of_a_header_stands_in_one_file(tree, text, problems):
    tree(house.HEADERS, 'OWN, ID, DEAD = "sluicegate-", "sluicegate-id", "sluicegate-dead-"')
    assert len(house.headers(tree("streams/a.py", text))) == problems


@pytest.mark.parametrize(
    "text",
    [
        'if failpoints.unsafe("fence"):\n    pass',
        'OFF = os.environ.get("SLUICEGATE_UNSAFE")',
        'UNFENCED = FENCE.replace("and token = ?", "")',
        '"""For the twins of the chaos tests."""',
    ],
)
def test_a_switch_that_turns_a_protection_off_is_found(tree, text):
    assert len(house.switches(tree("connectors/sql/a.py", text))) == 1


def test_what_is_unsafe_may_be_said(tree):
    assert house.switches(tree("streams/a.py", "UNSAFE = frozenset()  # what is unsafe about it")) == []


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')",
        "exec('1')",
        "import pickle",
        "from pickle import loads",
        "import yaml\nyaml.load('', Loader=yaml.SafeLoader)",
        "from yaml import load",
        "import yaml\nclass Mine(yaml.UnsafeLoader): ...",
        "compile('1', '', 'eval')",
        "__import__('os')",
        "import os\nos.system('ls')",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import marshal",
        "import shelve",
        "import time\ndef test_it():\n    time.sleep(1)",
    ],
)
def test_what_runs_code_out_of_data_or_sleeps_in_a_test_is_found(tree, text):
    assert len(house.dangers(tree("tests/a.py", text))) == 1


def test_one_file_may_compile_and_run_code(tree):
    text = "exec(compile(tree, '', 'exec'))"
    assert house.dangers(tree("streams/aggregation/compiled/compiler.py", text)) == []
    assert len(house.dangers(tree("streams/aggregation/accept.py", text))) == 2


def test_a_redis_eval_and_a_safe_load_are_let_through(tree):
    assert house.dangers(tree("streams/a.py", "client.eval('return 1', 0)\nyaml.safe_load('')\ncompile_schema()")) == []


@pytest.mark.parametrize("host", house.REGISTRY_HOSTS)
def test_a_registry_host_is_found_in_any_text_file(tree, host):
    assert house.hosts(tree("docs/a.md", f"fetch https://files.{host}/x and more")) != []


def test_a_folder_of_the_machine_is_found_and_generated_folders_are_passed_over(tree, tmp_path):
    assert len(house.hosts(tree("docs/a.md", f"see {tmp_path}/docs"), here=tmp_path)) == 1
    tree("docs/a.md", "nothing")
    assert house.hosts(tree(".venv/lib/a.py", house.REGISTRY_HOSTS[0]), here=tmp_path) == []


ELSEWHERE = "X" + "2"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("streams/a.py", '"""What is checked (protocol' + '.md, Claim)."""'),
        ("streams/a.py", "SIZE = 1  # measured (design" + "/performance)"),
        ("connectors/a.py", f'def found():\n    """Both classes at once ({ELSEWHERE})."""'),
        ("tests/contracts/list.txt", f"1. refused ({ELSEWHERE})"),
        ("tests/test_a.py", '"""What a poll returns (contracts' + ' 91 to 102)."""'),
        ("docs/a.md", "Read [more](b" + ".md)."),
    ],
)
def test_a_reference_to_what_the_repository_does_not_hold_is_found(tree, path, text):
    assert len(house.references(tree(path, text))) == 1


def test_a_reference_to_a_document_of_the_repository_is_let_through(tree):
    tree("docs/protocol.md", "See [the proof](proof/soak.md).")
    tree("docs/proof/soak.md", "Ninety seconds.")
    root = tree("streams/a.py", f'"""The claim (docs/protocol.md)."""\nCARRIERS = ("{ELSEWHERE}",)')
    assert (house.references(root), house.links(root)) == ([], [])


@pytest.mark.parametrize("path", ["README.md", "docs/a.md", "docs/proof/a.md"])
def test_a_link_that_leads_to_no_file_is_found(tree, path):
    text = "[here](#above), [there](https://example.com/a), [lost](lost" + ".md#part)"
    assert len(house.links(tree(path, text))) == 1


def test_a_type_name_that_is_taken_is_found(tmp_path: Path) -> None:
    for package in house.PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "streams" / "a.py").write_text("class Place: ...\nLIMIT = 1\nT = str\n")
    (tmp_path / "streams" / "b.py").write_text("LIMIT = 2\nT = int\nOther = Place = tuple[str, int]\n")
    assert house.types(tmp_path) == ["streams/b.py:3: the type name Place is taken by streams/a.py:1"]
