"""The layers of settings, merged from defaults < ini < environment < command line < marker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_vnc_use.settings.settings import ENVIRONMENT_PREFIX, FIELDS, Settings
from pytest_vnc_use.settings.variables import VARIABLES


def read_value(field: str, value: object, origin: str) -> Any:
    """Return the value of one field as `Settings` needs it. The field's own parser reads a string.

    Raises SettingsError that names `origin`, the value, and what would be right.
    """
    read = FIELDS[field].metadata["read"]
    try:
        return read(value if isinstance(value, str) else _as_text(value))
    except ValueError as exc:
        from pytest_vnc_use.errors import SettingsError

        raise SettingsError(f"{origin} must be {exc}, got {value!r}") from exc


def _as_text(value: object) -> str:
    """Return the value as written on a command line. Raises ValueError if that is not possible."""
    if value is None:
        return ""
    if not isinstance(value, (tuple, list)):
        return _word(value)
    is_size = bool(value) and all(isinstance(each, int) and not isinstance(each, bool) for each in value)
    return ("x" if is_size else ",").join(map(_word, value))


def _word(value: object) -> str:
    if isinstance(value, (Mapping, list, tuple)):
        raise ValueError("text, a number, true or false, or a list of these")  # noqa: TRY004  # read_value names it
    return str(value)


def merge(*layers: tuple[Mapping[str, object], Callable[[str], str]]) -> Settings:
    """Return the settings merged from layers, weakest first.

    A layer is its values, and a function from a field to the name that users know. A value of None counts as not given.
    """
    values = {
        field: read_value(field, value, name_of(field))
        for layer, name_of in layers
        for field, value in layer.items()
        if value is not None
    }
    return Settings(**values)


def environment_layer(environ: Mapping[str, str] = VARIABLES) -> tuple[Mapping[str, object], Callable[[str], str]]:
    """Return the layer of the `VNC_USE_<FIELD>` variables."""

    def name_of(field: str) -> str:
        return ENVIRONMENT_PREFIX + field.upper()

    return {field: environ.get(name_of(field)) for field in FIELDS}, name_of
