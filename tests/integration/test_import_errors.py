"""`sluicegate check` and `run` on a file whose module cannot be imported: the cause, its file and line, exit code 2."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).with_name("sluicegate"))
FILE = """\
app: shop
kafka: {bootstrap.servers: embedded}
store: memory://
http: false
agents:
  orders:
    from: orders
    handler: NAME
"""
REDUCER = FILE.replace(
    "    handler: NAME\n", "    aggregate: {count: 2, compute: {x: {reduce: NAME}}}\n    to: {topic: out}\n"
)
CODEC = FILE.replace("    handler: NAME\n", "    aggregate: {count: 2}\n    format: NAME\n    to: {topic: out}\n")
AT = "shop.yaml:8:5: agents.orders.handler: "

CASES = {
    "no module": (
        "shop:enter",
        {},
        ["shop:enter: there is no module shop; put shop.py or the folder shop next to the file"],
    ),
    "no submodule": (
        "shop.handlers:enter",
        {"shop/other.py": ""},
        ["there is no module shop.handlers: there is no handlers.py in {here}/shop; write it as package.module:name"],
    ),
    "no package": (
        "shop.handlers:enter",
        {"shop.py": ""},
        ["there is no module shop.handlers: shop ({here}/shop.py) is one module and no package; "],
    ),
    "no function": (
        "shop.handlers:entr",
        {"shop/handlers.py": "def enter(value): ..."},
        ["{here}/shop/handlers.py has no entr; did you mean enter?"],
    ),
    "what it imports": (
        "shop.handlers:enter",
        {"shop/handlers.py": "import os\nimport needslib\n"},
        [
            "importing shop.handlers needs the module needslib, which is not installed (shop/handlers.py:2 in "
            "<module>); install needslib"
        ],
    ),
    "syntax": (
        "shop.handlers:enter",
        {"shop/handlers.py": "def enter(value):\n    return (\n"},
        ["shop.handlers:enter: shop/handlers.py:2: '(' was never closed (SyntaxError); correct the module"],
    ),
    "syntax further on": (
        "shop.handlers:enter",
        {"shop/handlers.py": "import shop.more\n", "shop/more.py": "x =\n"},
        ["shop/more.py:1: invalid syntax (SyntaxError); correct the module"],
    ),
    "raises": (
        "shop.handlers:enter",
        {"shop/handlers.py": "import os\n\nBANK = os.environ['NO_SUCH_BANK']\n"},
        [
            "importing shop.handlers raised KeyError: 'NO_SUCH_BANK' (shop/handlers.py:3 in <module>); correct the "
            "module"
        ],
    ),
    "raises; with a hint of its own": (
        "shop.handlers:enter",
        {"shop/handlers.py": "raise ValueError('one; two')\n"},
        ["importing shop.handlers raised ValueError: one, two (shop/handlers.py:1 in <module>); correct the module"],
    ),
    "ends": (
        "shop.handlers:enter",
        {"shop/handlers.py": "import sys\nsys.exit('no bank')\n"},
        ["importing shop.handlers raised SystemExit: no bank (shop/handlers.py:2 in <module>); correct the module"],
    ),
    "a name out of another module": (
        "shop.handlers:enter",
        {"shop/handlers.py": "from json import nothing\n"},
        [
            "importing shop.handlers raised ImportError: cannot import name 'nothing' from 'json'",
            "(shop/handlers.py:1 in <module>)",
        ],
    ),
    "the name of a module of Python": (
        "code:enter",
        {"code.py": "def enter(value): ..."},
        ["code:enter: the name code is taken: Python imports ", "/code.py, not {here}/code.py; rename code.py"],
    ),
    "the name of a built-in module": (
        "time:enter",
        {"time.py": "def enter(value): ..."},
        ["the name time is taken: Python imports Python itself, not {here}/time.py; rename time.py"],
    ),
    "the name of our package": (
        "sluicegate:enter",
        {"sluicegate.py": "def enter(value): ..."},
        [
            "the name sluicegate is taken: Python imports ",
            "/sluicegate, not {here}/sluicegate.py; rename sluicegate.py",
        ],
    ),
    "the name of our package as a folder": (
        "sluicegate.orders:enter",
        {"sluicegate/orders.py": "def enter(value): ..."},
        ["the name sluicegate is taken: Python imports ", "/sluicegate, not {here}/sluicegate; rename sluicegate"],
    ),
    "the name of an installed package": (
        "yaml.handlers:enter",
        {"yaml/handlers.py": "def enter(value): ..."},
        ["the name yaml is taken: Python imports ", "/site-packages/yaml, not {here}/yaml; rename yaml"],
    ),
    "an import of a module with the name of ours": (
        "shop:enter",
        {"shop.py": "from sluicegate import Order\n", "sluicegate/__init__.py": "class Order: ...\n"},
        [
            "cannot import name 'Order' from 'sluicegate'",
            "the name sluicegate is taken: ",
            "not {here}/sluicegate (shop.py:1 in <module>); rename sluicegate",
        ],
    ),
}


def ended(folder: Path, command: str, text: str, modules: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, content in modules.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    (folder / "shop.yaml").write_text(text)
    return subprocess.run([COMMAND, command, "shop.yaml"], cwd=folder, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("name", CASES)
def test_check_names_the_cause_with_its_place(name: str, tmp_path: Path) -> None:
    handler, modules, expected = CASES[name]
    began = time.monotonic()
    result = ended(tmp_path, "check", FILE.replace("NAME", handler), modules)
    took = time.monotonic() - began
    assert result.returncode == 2, result.stderr
    line, *rest = [line for line in result.stderr.splitlines() if ": warning: " not in line]
    assert line.startswith(AT + handler)
    assert rest == ["1 problem"]
    for text in expected:
        assert text.replace("{here}", str(tmp_path.resolve())) in line
    assert "Traceback" not in result.stdout + result.stderr
    assert took < 20  # with room for a machine that does other things


@pytest.mark.parametrize("command", ["run", "test", "migrate", "status"])
def test_every_command_says_the_same(command: str, tmp_path: Path) -> None:
    handler, modules, [expected] = CASES["what it imports"]
    result = ended(tmp_path, command, FILE.replace("NAME", handler), modules)
    assert result.returncode == 2, result.stderr
    assert expected in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "at"), [(REDUCER, "8:37: agents.orders.aggregate.compute.x: "), (CODEC, "9:5: agents.orders.format: ")]
)
@pytest.mark.parametrize("name", ["what it imports", "syntax", "raises", "ends"])
def test_so_it_is_with_reducers_and_codecs(text: str, at: str, name: str, tmp_path: Path) -> None:
    handler, modules, [expected] = CASES[name]
    result = ended(tmp_path, "check", text.replace("NAME", handler), modules)
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith(f"shop.yaml:{at}")
    assert expected in result.stderr
