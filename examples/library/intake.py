"""A script: the lines of a file go into a buffer, each once however often the script is run.

python -m examples.library.intake sqlite:///shop.db orders.jsonl
"""

import json
import sys
from collections.abc import Iterable
from typing import Any

from sluicegate import Entry, open_store


def take_in(store: Any, lines: Iterable[str]) -> tuple[int, int]:
    """How many were new, and how many were there already."""
    orders = [json.loads(line) for line in lines]
    entries = [
        Entry(order["id"], order["id"], "order", json.dumps(order).encode(), group=order["customer"])
        for order in orders
    ]
    stored, duplicates = store.buffer.insert("orders", entries)
    return stored, duplicates


if __name__ == "__main__":
    url, name = sys.argv[1:]
    store = open_store(url)
    store.migrate()
    with open(name, encoding="utf-8") as file:
        print(*take_in(store, file))
    store.close()
