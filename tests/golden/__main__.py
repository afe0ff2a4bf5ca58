"""Records the features that `recorded/` lacks, and those whose state this build writes in another form."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.features import FEATURES
from tests.golden.play import recording
from tests.golden.test_golden import RECORDED, recordings


def newest(name: str) -> Path | None:
    files = [file for file in recordings(name) if file.exists()]
    return files[-1] if files else None


for name, feature in FEATURES.items():
    with TemporaryDirectory() as folder:
        text = json.dumps(recording(feature, Path(folder)), indent=1) + "\n"
    before = newest(name)
    if before is None or before.read_text("utf-8") != text:
        number = len(recordings(name)) + 1
        stem = name.replace(" ", "-")
        file = RECORDED / (f"{stem}.json" if before is None else f"{stem}.{number}.json")
        file.write_text(text, "utf-8")
        print(f"recorded {file.stem}")
