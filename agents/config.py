"""Turning what a user wrote into a configuration object, with errors that name the field and what it may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..errors import ConfigError, UnknownNameError

Model = TypeVar("Model", bound=BaseModel)


def parse_config(model: type[Model], values: Model | dict[str, Any] | None) -> Model:
    """A validated `model` from an object of it, a dict of fields, or None for the defaults.

    Raises:
        UnknownNameError: a field that the model does not have; the nearest names are given.
        ConfigError: a value of the wrong type or out of range.
    """
    if isinstance(values, model):
        return values
    try:
        return model.model_validate(dict(values or {}))
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = list(field_names(model))
            raise UnknownNameError(f"field of {model.__name__}", path, known) from None
        raise ConfigError(f"{model.__name__}.{path} = {first.get('input')!r}: {first['msg'].lower()}") from None


def field_names(model: type[BaseModel], prefix: str = "") -> Iterable[str]:
    """Dotted names of all fields, those of nested configurations included."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from field_names(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def described_fields(config: BaseModel, prefix: str = "") -> Iterable[tuple[str, Any, str]]:
    """(dotted name, value as plain JSON, description) of all fields, those of nested configurations included."""
    plain = config.model_dump(mode="json")
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            yield from described_fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", plain[name], field.description or ""


def set_dotted(values: dict[str, Any], name: str, value: Any) -> None:
    """Set `values["a"]["b"]` for the name `a.b`, making the dicts between."""
    *parents, last = name.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
    values[last] = value
