"""Texts that are nearly expressions: each is refused, or means what cel-cpp says."""

import random
import re
import time
from collections.abc import Iterator
from typing import Any

from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.tree import Node
from tests.expressions.judge import Judge, difference, no_extensions, watched
from tests.expressions.pairs import Pair, Pairs

MOST = 0.01
"""Seconds of CPU time to read a text."""
LENIENT = re.compile(
    r"has\(|timestamp|duration|int\(|double\(|substring"  # cel-cpp reads years of two digits and the like
    r"|\b(?:int|uint|double|bool|string|bytes|list|map|type|null_type)\b(?! *\()"  # names of types are values there
)
SIGNS = [
    *"()[]{}.,:?!&|=<>+-*/%\"'\\` \n",
    "&&",
    "||",
    "==",
    "has(",
    "size(",
    "0x",
    "1e",
    "in",
    "null",
    "true",
    "é",
    "\x00",
]


def _compiled(node: Node) -> Any:
    return exact(node, lambda name: lambda record: record.get(name))


def broken(seed: int, count: int) -> list[str]:
    """Expressions with a few characters removed, added or moved."""
    rnd, supply = random.Random(seed), Pairs(seed, extended=False)
    strs = []
    for _ in range(count):
        text = list(supply.next().text)
        for _ in range(rnd.randint(1, 3)):
            at = rnd.randint(0, len(text))
            text[at : at + rnd.randint(0, 2)] = rnd.choice((rnd.choice(SIGNS), ""))
        strs.append("".join(text))
    return strs


def misread(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Texts that we take and cel-cpp does not, that mean something else there, or that take long. Raises what reading
    raises besides ExpressionError."""
    judge, record = Judge(), Pairs(3, extended=False).document()
    with watched(), no_extensions():
        for text in broken(seed, count):
            taken, seconds = _read(text)
            if seconds > MOST and _read(text)[1] > MOST:  # the first time may have been a collection of garbage
                yield text, f"takes {seconds:.3f} s"
            if not taken:
                continue
            if "has(" not in text and not judge.takes(text):
                yield text, "cel-cpp refuses it"
            elif not LENIENT.search(text) and difference(judge, Pair(text, record), extended=False) is not None:
                yield text, "cel-cpp answers otherwise"


def _read(text: str) -> tuple[bool, float]:
    """Whether it is an expression, and the CPU time to find out."""
    began = time.thread_time()
    try:
        _compiled(parse(text))
    except ExpressionError:
        return False, time.thread_time() - began
    return True, time.thread_time() - began
