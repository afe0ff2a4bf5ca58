"""Files of any bytes: an App or problems, each in one line with a place, and soon."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.streams.config import load
from tests.fuzz.mutations import Mutator
from tests.fuzz.seeds import TIMES, drawn, replayable
from tests.unit.config.files import GOOD
from tests.unit.config.test_build import EVERYTHING

FILES = 150
SOON = 20.0  # seconds of this process's own time, where a good file takes 0.02
LARGE = 1024 * 1024


def judged(path: Path, content: bytes) -> bool:
    """Is it an app? Raises AssertionError for what nobody should have to read."""
    path.write_bytes(content)
    began = time.process_time()
    file = load(path, {"X": "y"})
    assert time.process_time() - began < SOON
    assert (file.app is None) == bool(file.problems)
    for problem in (*file.problems, *file.warnings):
        assert len(str(problem).splitlines()) == 1
        assert len(str(problem)) < 2_000
        assert problem.message
        assert problem.hint
    return file.app is not None


def test_a_file_with_other_bytes_is_judged(tmp_path: Path, fuzzed: Callable[[int], None]) -> None:
    random, path = drawn("file"), tmp_path / "f.yaml"
    mutator, good = Mutator(random, [GOOD.encode(), EVERYTHING.encode()]), 0
    with replayable():
        for _ in range(TIMES * FILES):
            good += judged(path, mutator.one())
    assert good < TIMES * FILES
    fuzzed(TIMES * FILES)


LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)
BOMBS = {
    "aliases of aliases": LAUGHS,
    "very many aliases": "a: &a 1\n" + "".join(f"b{n}: *a\n" for n in range(200)),
    "an alias of itself": "a: &a [*a]\n",
    "deep lists": "[" * 100_000,
    "deep mappings": "{a: " * 50_000,
    "deep indents": "".join(" " * n + f"k{n}:\n" for n in range(500)),
    "very many keys": "".join(f"k{n}: v\n" for n in range(90_000)),
    "very many items": "a: [" + "x," * 400_000 + "]",
    "one long word": "x" * 1_000_000,
    "one long key": "x" * 900_000 + ": 1",
    "one long number": "app: " + "9" * 1_000_000,
    "a long text": 'app: "' + "\\x41" * 200_000 + '"',
    "lines and lines": "\n" * 1_000_000,
    "nothing but dashes": "- " * 400_000,
    "question marks": "? " * 400_000,
    "open quotes": "a: '" + "''" * 400_000,
    "colons": "a:" * 400_000,
    "variables": "app: " + "${X}" * 200_000,
    "tags": "app: !!python/object/apply:os.system [ls]\n",
    "merge keys": "x: &x {a: 1}\napp: {<<: *x}\n",
    "comments": "#" * 900_000,
    "directives": "%YAML 1.1\n" * 50_000,
    "documents": "---\n" * 200_000,
    "anchors": "".join(f"k{n}: &a{n} 1\n" for n in range(50_000)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_is_meant_to_be_slow_is_refused_soon(
    name: str, tmp_path: Path, fuzzed: Callable[[int], None]
) -> None:
    content = BOMBS[name].encode()
    assert len(content) <= LARGE
    assert not judged(tmp_path / "f.yaml", content)
    fuzzed(1)


@pytest.mark.parametrize(("size", "words"), [(LARGE, "is not"), (LARGE + 1, "larger than 1 MiB")])
def test_a_file_of_more_than_a_mebibyte_is_refused(size: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"# " + b"x" * (size - 2))
    assert any(words in str(problem) for problem in load(path, {}).problems)
