"""Twins run without the protection that they name, and a twin that kept it fails."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.ownership import crash
from sluicegate.streams.reading.receive import ReceivedShards
from tests.mutation import twins
from tests.mutation.protections import PROTECTIONS
from tests.mutation.twin.edits import Edit, edited
from tests.soak.crew import CLOCKS

PROJECT = Path(__file__).resolve().parents[2]
NOT_TESTS = re.compile(r"tests/(mutation/|unit/test_twins\.py)")
ASK = """
from sluicegate.streams.reading.receive import ReceivedShards
senders = ReceivedShards("in")
print([senders.note("shard", 1, 0.0) for _ in range(2)][-1], flush=True)
"""


@pytest.mark.parametrize("name", PROTECTIONS)
def test_each_text_stands_once_in_its_file_and_its_edit_is_python(name: str) -> None:
    for file in {edit.file for edit in PROTECTIONS[name]}:
        source = (PROJECT / file).read_text()
        mine = [edit for edit in PROTECTIONS[name] if edit.file == file]
        assert [source.count(edit.text) for edit in mine] == [1] * len(mine)
        without = edited(source, mine)
        assert ast.dump(ast.parse(without)) != ast.dump(ast.parse(source))
        assert not file.endswith("__init__.py"), "a package's own module is not found by the hook"


def undefined(source: str) -> str:
    """What ruff says of names in this source that nothing defines."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise"]
    return subprocess.run([*command, "-"], input=source, capture_output=True, text=True, timeout=60).stdout


def test_no_edit_uses_a_name_that_its_file_does_not_define() -> None:
    """Such a twin would fail at its edit, and not because its protection is missing."""
    for name, edits in PROTECTIONS.items():
        for file in {edit.file for edit in edits if edit.file.endswith(".py")}:
            source = edited((PROJECT / file).read_text(), [edit for edit in edits if edit.file == file])
            assert "F821" not in undefined(source), (name, undefined(source))
    assert "F821" in undefined("def f():\n    g()\n")


def test_each_protection_has_a_test_that_takes_it_out() -> None:
    files = (
        path
        for path in sorted((PROJECT / "tests").rglob("*.py"))
        if not NOT_TESTS.match(str(path.relative_to(PROJECT)))
    )
    used = {
        word for path in files for text in re.findall(r'"([a-z,-]+)"', path.read_text()) for word in text.split(",")
    }
    assert sorted(PROTECTIONS.keys() - used) == []


def asked_again() -> bool:
    senders = ReceivedShards("in")
    return [senders.note("shard", 1, 0.0) for _ in range(2)][-1]


def test_inside_the_protection_is_out_and_afterwards_it_is_back() -> None:
    before = ReceivedShards.note.__code__
    with twins.without("receive"):
        assert not asked_again()
    assert asked_again()
    assert ReceivedShards.note.__code__ is before


def test_only_functions_that_differ_change() -> None:
    others = {name: value.__code__ for name, value in vars(MemoryStore).items() if hasattr(value, "__code__")}
    restored = crash.CrashMarks.restore.__code__
    with twins.without("fence,crash-marks"):
        changed = [name for name, code in others.items() if vars(MemoryStore)[name].__code__ is not code]
        assert changed == ["_claimed_row"]
        assert crash.CrashMarks.restore.__code__ is not restored


def test_a_text_that_is_not_there_is_an_error() -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ImportError, match="0 times"):
        twins.take_out(patch, [Edit("streams/reading/receive.py", "no such text", "")])


def test_an_edit_that_changes_nothing_is_an_error() -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match="change no function"):
        twins.take_out(
            patch, [Edit("streams/reading/receive.py", "            self.late += 1", "            self.late += 1  # !")]
        )


# -- in a process ------------------------------------------------------------------------------------------------------


def answer(environ: dict[str, str], *options: str) -> tuple[str, str, int]:
    """What a process of a process says: is a number that it saw before a repeat? With the pid of the inner one."""
    inner = [sys.executable, *options, "-c", ASK]
    code = f"import subprocess; p = subprocess.Popen({inner!r}); print(p.pid, flush=True); p.wait()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environ, cwd=PROJECT, capture_output=True, text=True, timeout=60
    )
    pid, _, text = done.stdout.partition("\n")
    return text.strip(), done.stderr, int(pid)


def test_a_process_that_a_twin_starts_is_a_twin(tmp_path: Path) -> None:
    log = tmp_path / "log"
    output, _, pid = answer(twins.environment("receive", log), "-P")
    assert output == "False"
    twins.check("receive", log, [pid])


def test_a_process_of_its_own_has_its_protections(tmp_path: Path) -> None:
    output, _, pid = answer({})
    assert output == "True"
    with pytest.raises(AssertionError, match="have their protections"):
        twins.check("receive", tmp_path / "log", [pid])


def test_a_protection_whose_module_no_process_imported_was_not_taken_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _, _, pid = answer(twins.environment("receive,faust-order", log))
    with pytest.raises(AssertionError, match="faust-order"):
        twins.check("receive,faust-order", log, [pid])


def test_an_edit_that_does_not_fit_ends_the_process_and_fails_the_twin(tmp_path: Path) -> None:
    log = tmp_path / "log"
    edits = [Edit("streams/reading/receive.py", "no such text", "")]
    output, errors, pid = answer(twins.environment("receive", log) | {"TWIN_EDITS": json.dumps(edits)})
    assert output == ""
    assert "no such text" in errors
    with pytest.raises(AssertionError, match="broken"):
        twins.check("receive", log, [pid])


def test_the_hook_runs_the_next_sitecustomize_on_the_path(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_bytes(b"\0" * 6 + b"\x59\x40")  # 100.0
    environ = {"SOAK_CLOCK": str(clock), "PYTHONPATH": str(CLOCKS)}
    environ |= twins.environment("receive", tmp_path / "log", environ)
    code = "import sitecustomize, time; print(time.time.__name__, 'edits' in __import__('sys').modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=os.environ | environ, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["<lambda>", "True"], done.stderr
