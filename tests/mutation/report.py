"""docs/proof/mutation.md: guard, file, and the first test that fails without it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.guard import Guard

PLACE = Path("docs", "proof", "mutation.md")
SURVIVED, HUNG, BROKEN, OPEN = "SURVIVED", "no end within the time", "BROKEN", "not run"
HEAD = """# Guards and the tests that miss them

Written by `make mutate`, which takes each guard out in a copy of the tree and runs its tests; do not edit. The files
of `tests/mutation` with a table `GUARDS` have the guards; a unit test keeps them true.

"""


def write(project: Path, guards: Sequence[Guard], tests: Mapping[str, str]) -> None:
    results = [tests.get(guard.promise, OPEN) for guard in guards]
    killed, waiting = sum(missed(result) for result in results), results.count(OPEN)
    also = f" {waiting} more were not run." if waiting else ""
    lines = [
        f"{len(guards) - waiting} guards, {killed} missed by a test, {results.count(SURVIVED)} survived.{also}",
        "",
    ]
    lines += ["| promise | guard in | first test that fails without it |", "|---|---|---|"]
    lines += [
        f"| {guard.promise} | `{guard.file}` | {_cell(result)} |" for guard, result in zip(guards, results, strict=True)
    ]
    (project / PLACE).parent.mkdir(exist_ok=True)
    (project / PLACE).write_text(HEAD + "\n".join(lines) + "\n")


def missed(result: str) -> bool:
    """Whether the result is a test that fails without the guard, and passes with it."""
    return "::" in result and not result.startswith((HUNG, BROKEN))


def _cell(result: str) -> str:
    return f"`{result}`" if "::" in result else result


def read(project: Path, guards: Sequence[Guard]) -> dict[str, str]:
    """What the report says of each guard that it knows."""
    if not (project / PLACE).exists():
        return {}
    known = {guard.promise for guard in guards}
    rows = [
        line.strip("| ").split(" | ") for line in (project / PLACE).read_text().splitlines() if line.startswith("| ")
    ]
    return {row[0]: row[2].strip("`") for row in rows if len(row) == 3 and row[0] in known}
