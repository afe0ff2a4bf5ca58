"""Records the features that `recorded/` lacks."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.features import FEATURES
from tests.golden.play import recording

RECORDED = Path(__file__).parent / "recorded"

for name, feature in FEATURES.items():
    file = RECORDED / f"{name.replace(' ', '-')}.json"
    if not file.exists():
        with TemporaryDirectory() as folder:
            file.write_text(json.dumps(recording(feature, Path(folder)), indent=1) + "\n", "utf-8")
        print(f"recorded {name}")
