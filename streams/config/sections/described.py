"""The descriptions of keys in parts of the JSON Schema that are written by hand."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


def described(model: type[BaseModel], properties: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The properties, each with the description and the examples of the model's field of that name."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return {
        name: {**node, "description": fields[name].description, "examples": fields[name].examples}
        for name, node in properties.items()
    }
