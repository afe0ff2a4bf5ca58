"""`make audit`: what bandit says of our own code, and known vulnerabilities of the packages in requirements.lock.

    python -m tests.audit TOOLS [--network]

pip-audit asks a service for the vulnerabilities. Without that service nothing is known of the packages: one line says
so, and with `--network` (a release) it is a failure.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CODE = ("streams", "connectors", "schemas")
OPTIONS = ("-r", "requirements.lock", "--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json")
LONGEST = 300  # seconds for which the service is waited for


class Verdict(NamedTuple):
    """`lines` say what was found. `asked`: each package was looked up. `sound`: nothing is known of those that were."""

    lines: list[str]
    asked: bool
    sound: bool

    def code(self, network: bool) -> int:
        return 0 if self.sound and (self.asked or not network) else 1


def judged(output: str, errors: str) -> Verdict:
    """What pip-audit's JSON and its errors show."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, LookupError, TypeError):
        why = next((line for line in reversed(errors.splitlines()) if line.strip()), "no answer").strip()
        return Verdict([f"packages: not audited: pip-audit could not ask its service ({why})"], False, True)
    skipped = [package for package in packages if "skip_reason" in package]
    bad = [(package, one) for package in packages for one in package.get("vulns", ())]
    lines = [
        f"packages: {package['name']} {package['version']}: {one['id']}, mended in "
        f"{', '.join(one['fix_versions']) or 'none'}"
        for package, one in bad
    ]
    if packages and len(skipped) == len(packages):
        lines.append(f"packages: not audited: the service knows none of the {len(packages)} packages; is it reached?")
    elif skipped:
        lines.append(f"packages: {len(skipped)} of {len(packages)} are unknown to the service")
    elif not bad:
        lines.append(f"packages: no known vulnerability in {len(packages)}")
    return Verdict(lines, not skipped, not bad)


def packages(tools: Path) -> Verdict:
    try:
        done = subprocess.run([tools / "pip-audit", *OPTIONS], capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return judged("", f"no answer within {LONGEST} s")
    return judged(done.stdout, done.stderr)


def main(tools: Path, network: bool) -> int:
    clean = subprocess.run([tools / "bandit", "-q", "-ll", "-r", *CODE]).returncode == 0
    print("code: bandit found nothing" if clean else "code: bandit found what is above", flush=True)
    verdict = packages(tools)
    print(*verdict.lines, sep="\n", flush=True)
    return max(verdict.code(network), int(not clean))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "--network" in sys.argv[2:]))
