"""The quick form answers as the exact form does, and the comparison finds it when the quick form does not."""

import pytest

from sluicegate.schemas.json import Field, FieldDecoder, wanted
from sluicegate.streams.expressions.quick import Quick
from tests.expressions import forms


def test_the_quick_form_answers_as_the_exact_form() -> None:
    tally = forms.compare(10_000, seed=1)
    assert tally.differences == []
    assert tally.answered > tally.pairs / 3


def test_without_a_proof_of_types_the_answers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def unproved(form: Quick) -> FieldDecoder:
        return wanted([Field(".".join(field.path)) for field in form.fields])

    monkeypatch.setattr(forms, "proved", unproved)
    assert forms.compare(2_000, seed=1).differences


def test_when_missing_values_are_not_refused_the_answers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this proof, `a == 1 && b == 2` would be false for a record without `a` where the exact form fails."""

    def lenient(form: Quick) -> FieldDecoder:
        found = wanted([Field(".".join(field.path), required=False) for field in form.fields])
        return found._replace(chains=tuple(chain or "f0" for chain in found.chains))

    monkeypatch.setattr(forms, "proved", lenient)
    assert forms.compare(2_000, seed=1).differences
