"""The strict JSON schemas for answers that OpenAI, and servers that follow it, refuse.

Source: developers.openai.com, "Structured outputs", supported schemas; its errors as issues of public projects quote
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

JsonObject = Mapping[str, Any]

KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "enum", "const", "anyOf", "$ref", "$defs"),
    *("items", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("pattern", "format", "description", "title"),
}


def problems_of_format(described: JsonObject, field: str) -> Iterator[str]:
    """Yield the faults; `described` holds the name, whether it is strict, and the schema of `field`."""
    if not described.get("name"):
        yield f"Missing required parameter: '{field}.name'."
    schema = described.get("schema")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        yield f"Invalid schema for {field}: schema must be a JSON Schema of 'type: \"object\"'."
    elif described.get("strict"):
        yield from (f"Invalid schema for {field}: {problem}" for problem in _problems_of_schema(schema, ()))


def _problems_of_schema(schema: JsonObject, where: tuple[str, ...]) -> Iterator[str]:
    context = f"In context={where}, "
    for name in sorted(set(schema) - KEYWORDS):
        yield f"{context}'{name}' is not permitted."
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield f"{context}'additionalProperties' is required to be supplied and to be false."
    for name in sorted(set(properties) - set(schema.get("required", ()))):
        yield f"{context}'required' is required to be an array including every key in properties. Missing '{name}'."
    for name, inner in properties.items():
        yield from _problems_of_schema(inner, (*where, "properties", name))
    for number, inner in enumerate(schema.get("anyOf", ())):
        yield from _problems_of_schema(inner, (*where, "anyOf", str(number)))
    if "items" in schema:
        yield from _problems_of_schema(schema["items"], (*where, "items"))
