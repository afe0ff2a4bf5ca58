"""`python -m tests.lock FILE`: from a report of pip (`pip install --dry-run --report`) on stdin to a lock with hashes,
for `pip install --require-hashes`. One hash a package: of the file that this Python on this kind of machine
installs."""

import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HEAD = """# What the tests were run with, with hashes: `LOCKED=1 make setup` installs exactly this, `make lock` makes \
it anew.
# For {system} with Python {python}; elsewhere `make setup` takes what pyproject.toml allows.
"""


def locked(report: Mapping[str, Any], system: str, python: str) -> str:
    """The text of the lock. Raises ValueError for a package whose archive has no SHA-256."""
    lines = []
    for item in report["install"]:
        name, version = item["metadata"]["name"].lower().replace("_", "-"), item["metadata"]["version"]
        if "dir_info" in item["download_info"]:  # the project itself
            continue
        digest = item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is None:
            raise ValueError(f"{name} {version} has no SHA-256 in pip's report")
        lines.append(f"{name}=={version} \\\n    --hash=sha256:{digest}\n")
    return HEAD.format(system=system, python=python) + "".join(sorted(lines))


if __name__ == "__main__":
    system = f"{platform.system()} {platform.machine()}"
    text = locked(json.load(sys.stdin), system, ".".join(platform.python_version_tuple()[:2]))
    Path(sys.argv[1]).write_text(text)
