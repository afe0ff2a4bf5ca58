"""Files for commands."""

from pathlib import Path

FILE = """\
app: shop
kafka: {bootstrap.servers: BOOTSTRAP}
store: sqlite:///state.db
dead_letters: shop.dead
start_timeout: WAIT
http: false
agents:
  totals:
    from: [orders, refunds]
    aggregate: {count: 2, timeout: {after: 30s}, compute: {sum: {sum: amount}}}
    to: {topic: totals}
  alerts:
    from: totals
    aggregate: {count: 3}
    to: {topic: alerts}
    dead_letters: alerts.dead
"""
NOBODY = "127.0.0.1:1"
SOON, LATE = "300ms", "30s"  # nobody answers: say so soon; a broker answers: a busy machine may need long for it


def written(folder: Path, bootstrap: str = NOBODY, text: str = FILE) -> str:
    path = folder / "shop.yaml"
    path.write_text(text.replace("BOOTSTRAP", f'"{bootstrap}"').replace("WAIT", SOON if bootstrap == NOBODY else LATE))
    return str(path)
