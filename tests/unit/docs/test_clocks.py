"""The drawing of docs/time.md is the one that its program makes, and it can be read without animation."""

import xml.etree.ElementTree as ElementTree

from tests.docs.clocks import PICTURE, picture

COMMAND = "run: python -m tests.docs.clocks"
ALWAYS = {"svg", "title", "style", "rect", "text", "path", "circle", "g"}


def test_the_picture_is_current() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), COMMAND
    assert f"(pictures/{PICTURE.name})" in (PICTURE.parents[1] / "time.md").read_text(encoding="utf-8")


def test_it_has_no_script_and_names_no_other_host() -> None:
    root = ElementTree.fromstring(picture())
    assert {part.tag.partition("}")[2] for part in root.iter()} == ALWAYS
    assert picture().count("http") == 1  # its namespace


def test_only_readers_who_like_motion_see_it_move() -> None:
    still, _, moving = picture().partition("@media (prefers-reduced-motion: no-preference) {")
    moving = moving.partition("</style>")[0]
    assert "animation" not in still
    assert "opacity" not in still
    assert moving.count("infinite") > 10
    assert "animation" not in picture().partition("</style>")[2]
