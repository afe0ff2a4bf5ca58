"""`make audit`: what is known of the packages, and what is not because nobody could be asked, is one line each."""

import json
import stat
import sys
from pathlib import Path

import pytest

from tests import audit

SOUND = {"name": "a", "version": "1.0", "vulns": []}
BAD = {"name": "b", "version": "2.0", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1", "3.0"]}]}
UNKNOWN = {"name": "c", "version": "3.0", "skip_reason": "Dependency not found on PyPI and could not be audited"}
TRACEBACK = "Traceback (most recent call last):\n  File x, line 1\nConnectionError: no route to host\n\n"
NOT_ASKED = "packages: not audited: pip-audit could not ask its service"


@pytest.mark.parametrize(
    ("report", "line", "codes"),
    [
        ([SOUND], "packages: no known vulnerability in 1", (0, 0)),
        ([SOUND, BAD], "packages: b 2.0: CVE-1, mended in 2.1, 3.0", (1, 1)),
        ([UNKNOWN], "packages: not audited: the service knows none of the 1 packages; is it reached?", (0, 1)),
        ([SOUND, UNKNOWN], "packages: 1 of 2 are unknown to the service", (0, 1)),
        (TRACEBACK, f"{NOT_ASKED} (ConnectionError: no route to host)", (0, 1)),
        ("", f"{NOT_ASKED} (no answer)", (0, 1)),
    ],
)
def test_one_line_says_what_is_known(report: object, line: str, codes: tuple[int, int]) -> None:
    output, errors = ("", report) if isinstance(report, str) else (json.dumps({"dependencies": report}), "")
    verdict = audit.judged(output, errors)
    assert verdict.lines == [line]
    assert (verdict.code(network=False), verdict.code(network=True)) == codes


def program(path: Path, code: int, output: str = "", errors: str = "") -> None:
    text = f"import sys\nprint({output!r})\nprint({errors!r}, file=sys.stderr)\nsys.exit({code})\n"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(("bandit", "network", "code"), [(0, False, 0), (0, True, 1), (1, False, 1)])
def test_it_runs_to_its_end_where_no_service_is_reached(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], bandit: int, network: bool, code: int
) -> None:
    program(tmp_path / "bandit", bandit)
    program(tmp_path / "pip-audit", 1, errors=TRACEBACK)
    assert audit.main(tmp_path, network) == code
    output = capfd.readouterr()
    assert output.out.splitlines()[-1] == f"{NOT_ASKED} (ConnectionError: no route to host)"
    assert "Traceback" not in output.out + output.err
