"""The typed form answers as the exact form does, and the comparison finds it when the typed form does not."""

import pytest

from sluicegate.streams.expressions import typed
from tests.expressions import forms


def test_the_typed_form_answers_as_the_exact_form() -> None:
    tally = forms.compare(2_000, seed=1)
    assert tally.differences == []
    assert tally.typed > tally.expressions * 0.9
    assert tally.values > tally.typed


@pytest.mark.parametrize("proof", ["number", "text", "boolean"])
def test_without_a_proof_of_types_the_answers_differ(proof: typed.Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(typed._CHECKS, proof, "(T := X)")
    assert forms.compare(2_000, seed=1).differences


def test_without_the_bounds_of_integers_the_answers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed, "_NEAR", "(T := X)")
    assert forms.compare(2_000, seed=1).differences
