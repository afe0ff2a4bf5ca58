"""The walk through a page finds what the page says wrongly."""

from pathlib import Path

import pytest

from tests.integration.docs.walk import Walk, blocks, shows


def walked(page: str, folder: Path) -> None:
    walk = Walk(folder, {})
    for block in blocks(page):
        walk.does(block)


GOOD = """
```sh
export WORD=hello
```

```python
# a.py
print("old")
```

```diff
--- a.py
-print("old")
+import os
+print(os.environ["WORD"], 12, "and more")
```

<!-- exit 3 -->
```sh
python3 a.py
exit 3
```

```text
hello 12...
```
"""


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    walked(GOOD, tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("hello 12", "hello 13"), ("exit 3", "exit 4"), ('-print("old")', '-print("new")'), ("hello 12...", "hello 12")],
)
def test_a_page_that_is_wrong_fails(right: str, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        walked(GOOD.replace(right, wrong, 1), tmp_path)


def test_dots_stand_for_lines_or_a_part_of_one_and_nothing_else_is_left_out() -> None:
    printed = "one\n  two   2026-01-01T00:00:00.1Z\nthree\n"
    assert shows("one\ntwo 2026-11-25T01:00:00.000Z\nthree", printed)
    assert shows("one\n...", printed)
    assert shows("...\nth...", printed)
    assert not shows("one\nthree", printed)
    assert not shows("one\ntwo", printed)
