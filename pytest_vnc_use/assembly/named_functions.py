"""The functions for a model that a module names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.errors.faults import named


def named_functions(module: str) -> Sequence[Callable[..., object]]:
    """Return the public functions that a module defines, in their order; () for "". Raises SettingsError."""
    if not module:
        return ()
    try:
        found = import_module(module)
    except (Exception, SystemExit) as exc:  # a user's own module may raise anything, and a script exits
        raise SettingsError(
            f"vnc_functions must be a module that can be imported (see PYTHONPATH), got {module!r}: {named(exc)}"
        ) from exc
    functions = [
        thing
        for name, thing in vars(found).items()
        if inspect.isfunction(thing) and thing.__module__ == found.__name__ and not name.startswith("_")
    ]
    if not functions:
        raise SettingsError(f"vnc_functions must be a module with functions of its own, got {module!r}")
    return functions
