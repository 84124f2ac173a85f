"""Values read off the screen into a user's type: its JSON Schema, the question to a model, the conversion."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import Inconclusive, SettingsError
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.types import Frame, JsonObject, Reading, Report
from pytest_vnc_use.types.json_depth import TOO_DEEP, is_shallow
from pytest_vnc_use.types.protocols import Reader
from pytest_vnc_use.verification.verifier import check_answer, within

T = TypeVar("T")

_KEPT = frozenset({"type", "enum", "const", "description", "$ref"})
"""Keywords that every service's schemas may have. Other constraints, such as `minimum`, are checked on reading."""
_FORMATS = frozenset({"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_TYPING = frozenset({"type", "enum", "const", "anyOf", "$ref"})


@dataclass(frozen=True)
class Form(Generic[T]):
    """The form that a value must have.

    Its `schema` uses only what every service supports for bound answers, with every field required.
    """

    name: str
    adapter: TypeAdapter[T]
    schema: JsonObject

    @classmethod
    def of(cls, model: type[T]) -> Form[T]:
        """Return the form of a pydantic model, or of any type that pydantic knows. Raises SettingsError for others."""
        name = getattr(model, "__name__", repr(model))
        try:
            adapter = TypeAdapter(model)
            schema = adapter.json_schema()
        except Exception as exc:  # pydantic evaluates annotations, which may raise anything
            reason = (str(exc).splitlines() or [type(exc).__name__])[0]
            raise SettingsError(
                f"extract needs a type with a JSON Schema, such as a pydantic model, got {name!r}: {reason}"
            ) from exc
        return cls(name, adapter, _bindable(schema, name))

    def read(
        self,
        reader: object,
        question: str,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report,
        hide: Callable[[str], str] = str,
    ) -> Reading:
        """Return the reader's answer within the time, fitting or not. Raises PlannerError, Inconclusive.

        `hide` removes secrets from the descriptions in the schema.
        """
        _vnc_asks = "judge"
        if not isinstance(reader, Reader):
            name = type(reader).__name__
            raise Inconclusive(f"nobody can read values: {name} only judges claims; configure --vnc-judge=gemini")

        def read(left_s: float) -> Reading:
            return reader.read(question, _hidden(self.schema, hide), frame, timeout_s=left_s, report=report)

        reading = check_answer(reader, within(read, Deadline(timeout_s), "reads a value"), Reading)
        if not is_shallow(reading.value):
            raise Inconclusive(f"extract: the value {TOO_DEEP}")
        return reading

    def problem(self, reading: Reading) -> str:
        """Return why the value does not fit this form; "" if it fits."""
        try:
            self.filled(reading)
        except ValidationError as exc:
            errors = exc.errors(include_url=False)
            found = [(".".join(map(str, each["loc"])), f"{each['msg']}, got {each['input']!r}") for each in errors]
            return "; ".join(": ".join(filter(None, place_and_problem)) for place_and_problem in found)
        return ""

    def filled(self, reading: Reading) -> T:
        """Return the value in the user's own type. Raises pydantic's ValidationError."""
        return self.adapter.validate_json(json.dumps(reading.value))


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    """Return a schema without secrets in its texts; the names of fields stay."""
    match value:
        case str():
            return hide(value)
        case Mapping():
            return {key: _hidden(each, hide) for key, each in value.items()}
        case list() | tuple():
            return [_hidden(each, hide) for each in value]
        case _:
            return value


def unread(form: str, reading: Reading, problem: str) -> Inconclusive:
    """Return the error for a value that does not fit the form; it shows the value."""
    if reading.value is None:
        return Inconclusive(f"extract: no {form} is on the screen for {reading.question!r}: {reading.reason}")
    value = cut(json.dumps(reading.value, ensure_ascii=False))
    headline = f"extract: the value is not a valid {form}: {problem}"
    return Inconclusive(f"{headline}\n  read: {value}\n  reason: {reading.reason}")


# --- schemas ---------------------------------------------------------------------------------------------------------


def _bindable(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the schema as strict services need it, without keywords that they refuse. Raises SettingsError."""
    if "additionalProperties" in schema and schema["additionalProperties"] is not False:
        raise SettingsError(f"extract needs named fields, {place} is a dict with any keys; make it a list of models")
    bound: dict[str, Any] = {key: value for key, value in schema.items() if key in _KEPT}
    if schema.get("format") in _FORMATS:
        bound["format"] = schema["format"]
    if "$defs" in schema:
        bound["$defs"] = {name: _bindable(inner, name) for name, inner in schema["$defs"].items()}
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        bound["anyOf"] = [_bindable(choice, place) for choice in choices]
    if schema.get("type") == "array":
        # of a tuple, an item may be any of its members; their number and order are checked on reading
        members = [_bindable(member, place) for member in schema.get("prefixItems", ())]
        bound["items"] = {"anyOf": members} if members else _bindable(schema.get("items", {}), place)
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        bound["properties"] = {name: _bindable(inner, f"{place}.{name}") for name, inner in fields.items()}
        bound |= {"required": list(fields), "additionalProperties": False}
    if not _TYPING.intersection(bound):
        raise SettingsError(f"extract needs a concrete type everywhere, but {place} may be anything")
    return bound
