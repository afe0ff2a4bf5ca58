"""`check --connect` compares what a topic takes with what the app sends, and says which setting to change."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}"}}
store: memory://
http: false
agents:
  baskets: {{from: {ns}-large, aggregate: {{count: 2}}, to: {ns}-small, dead_letters: {ns}-dead}}
"""


def test_topics_that_take_less_or_more_than_a_message_of_the_app(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str]
) -> None:
    for name, size in {"large": 50_000_000, "small": 500_000, "dead": 1_048_588}.items():
        make_topic(f"{ns}-{name}", max_message_bytes=size)
    (tmp_path / "shop.yaml").write_text(FILE.format(ns=ns, kafka=kafka))
    done = subprocess.run(
        [SLUICEGATE, "check", "shop.yaml", "--connect"], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert (
        f"kafka: topic {ns}-large may have records of up to 50000000 bytes, and a message of the app has up to 1000000"
        "; the dead letter of a larger record has its beginning, and larger outputs are dead letters; "
        "kafka: message.max.bytes raises it, up to 4194304"
    ) in done.stdout
    assert (
        f"kafka: topic {ns}-small takes messages of up to 500000 bytes, and the app sends up to 1000000; "
        "larger ones become dead rows: set its max.message.bytes to 1000000, or kafka: message.max.bytes to 500000"
    ) in done.stdout
    assert f"topic {ns}-dead takes" not in done.stdout
    assert (
        f"kafka: topic {ns}-large takes batches of up to 50000000 bytes, and producers choose their compression; "
        "unpacked they may have a thousand times as many: set its compression.type to uncompressed"
    ) in done.stdout
    assert f"topic {ns}-small takes batches" not in done.stdout
