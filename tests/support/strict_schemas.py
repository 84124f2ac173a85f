"""The strict JSON schemas for answers that OpenAI and servers that follow it refuse, and with other keywords Anthropic.

Source: developers.openai.com, "Structured outputs", supported schemas; its errors as issues of public projects quote
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
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
        yield from (f"Invalid schema for {field}: {problem}" for problem in problems_of_schema(schema))


def problems_of_schema(
    schema: JsonObject, keywords: Set[str] = KEYWORDS, *, all_required: bool = True, where: str = "the schema"
) -> Iterator[str]:
    """Yield the faults of a schema whose every object is closed, and with `all_required` has no optional property."""
    properties = schema.get("properties", {})
    for name in sorted(set(schema) - keywords):
        yield f"In {where}, '{name}' is not permitted."
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield f"In {where}, 'additionalProperties' is required to be supplied and to be false."
    for name in sorted(set(properties) - set(schema.get("required", ()))) if all_required else ():
        yield f"In {where}, 'required' is required to be an array including every key in properties. Missing '{name}'."
    inner = {**properties, **schema.get("$defs", {}), **dict(enumerate(schema.get("anyOf", ())))}
    inner |= {"items": schema["items"]} if "items" in schema else {}
    for name, part in inner.items():
        yield from problems_of_schema(part, keywords, all_required=all_required, where=f"{where}.{name}")
