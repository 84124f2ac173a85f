"""Functions that a model may call. A user's function becomes a declaration: its name,
its docstring, its type hints.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.errors.causes import named
from pytest_vnc_use.types import JsonObject

_JSON_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}
_ENDS_LATER = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)


@dataclass(frozen=True)
class Declaration:
    """The description of one function for a model. `parameters` is a JSON schema of
    type object.
    """

    name: str
    description: str
    parameters: JsonObject


Offered = Union[Callable[..., Any], Declaration]
"""A function, or the declaration of a function that the agent itself performs."""

VERIFY = Declaration(
    "verify",
    "Ask a question of an independent observer, who sees only the screen as it is now"
    " and knows nothing of the task. The answer is text, and why.",
    {
        "type": "object",
        "properties": {"question": {"type": "string"}},
        "required": ["question"],
    },
)
"""The function that the agent itself answers, if there is a judge."""
LIST_ELEMENTS = Declaration(
    "list_elements",
    "List what is in view.",
    {"type": "object", "properties": {}, "required": []},
)
"""The function that the agent answers with text read off the screen, if the desktop
cannot list its elements.
"""

BROWSER_STATE = Declaration(
    "get_browser_state",
    "Return the URL, the title and the whole visible text of the page that the browser"
    " shows.",
    {"type": "object", "properties": {}, "required": []},
)
"""The function that a model in a browser may call, unless the user has one of this name.
"""


def declare(function: Callable[..., Any]) -> Declaration:
    """Return the declaration of a function whose parameters all have type hints.

    Hints may be str, int, float, bool, dict, list[…], Literal[…], and unions of one of
    these with None. Raises SettingsError if the docstring is missing, if a parameter
    has no hint or one with no counterpart in JSON, and for a coroutine or a generator.
    """
    name = getattr(function, "__name__", "")
    description = inspect.getdoc(function) or ""
    if not name.isidentifier() or not description:
        raise SettingsError(
            f"a function for the model needs a name and a docstring, got {function!r}"
        )
    if any(ends_later(function) for ends_later in _ENDS_LATER):
        raise SettingsError(
            "a function for the model must be a normal function, got the coroutine or"
            f" generator {name!r}"
        )
    try:
        hints = get_type_hints(function)
    except Exception as exc:  # a hint in quotes is code, and may raise anything
        raise SettingsError(
            f"the type hints of {name!r} cannot be read: {named(exc)}"
        ) from exc
    parameters = list(inspect.signature(function).parameters.values())
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            parameter.name: _schema_of(parameter, hints, name)
            for parameter in parameters
        },
        "required": [
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty
        ],
    }
    return Declaration(name, description, schema)


def declare_all(
    functions: Iterable[Offered], *, taken: Iterable[str]
) -> tuple[Declaration, ...]:
    """Return the declarations, with unique names that are not `taken`. Raises
    SettingsError.
    """
    declarations: dict[str, Declaration] = {}
    reserved = set(taken)
    for function in functions:
        declaration = (
            function if isinstance(function, Declaration) else declare(function)
        )
        if declaration.name in reserved or declaration.name in declarations:
            raise SettingsError(
                f"another function already has the name {declaration.name!r}. Rename"
                " one of them"
            )
        declarations[declaration.name] = declaration
    return tuple(declarations.values())


def _schema_of(
    parameter: inspect.Parameter,
    hints: dict[str, Any],
    function: str,
) -> JsonObject:
    where = f"parameter {parameter.name!r} of {function!r}"
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise SettingsError(
            f"{where} must be a keyword parameter, got {str(parameter)!r}"
        )
    if parameter.name not in hints:
        raise SettingsError(
            f"{where} needs a type hint, such as `{parameter.name}: str`"
        )
    return _schema(hints[parameter.name], where)


def _schema(hint: Any, where: str) -> JsonObject:
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin is Literal and type(arguments[0]) in _JSON_TYPES:
        return {"enum": list(arguments), "type": _JSON_TYPES[type(arguments[0])]}
    if origin in (Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        if len(inner) == 1:
            return _schema(inner[0], where)
    if origin is list and arguments:
        return {"type": "array", "items": _schema(arguments[0], where)}
    for hint_type, name in _JSON_TYPES.items():
        if (origin or hint) is hint_type:
            return {"type": name}
    raise SettingsError(
        f"{where} must be str, int, float, bool, list or dict, got {hint!r}"
    )
