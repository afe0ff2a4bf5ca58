"""The typed form of expressions, on more pairs and more texts than the tests of every change have."""

import random

import pytest

from tests.expressions import forms
from tests.hostile_texts import texts
from tests.unit.aggregation.test_compiler import LOCALS, condition, made_of, names_of


@pytest.mark.parametrize("seed", range(10, 15))
def test_the_typed_form_answers_as_the_exact_form(seed: int) -> None:
    assert forms.compare(10_000, seed).differences == []


@pytest.mark.parametrize("seed", range(10, 20))
def test_a_text_of_a_file_is_never_code(seed: int) -> None:
    chance = random.Random(seed)
    plain = names_of(made_of(condition(chance, ["a"] * 20)).__code__)
    for _ in range(500):
        assert names_of(made_of(condition(chance, texts(chance, 20))).__code__) - plain <= LOCALS
