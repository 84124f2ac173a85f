"""Values: what differs from run to run, and may be shown.

A task, its claims and the actions of its recording have `<value:NAME>` where a run has
the value. All errors about names and values are raised here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types.actions import SECRET_MARK, SecretText

VALUE_MARK = re.compile(r"<value:([A-Za-z_][A-Za-z0-9_]*)>")
"""The placeholder for a value, with its name."""
UNUSED_VALUE = (
    "the value {0!r} is never used. Write <value:{0}> in the task, or in a claim"
)
_BEGINNING = "<value:"


def value_mark(name: str) -> str:
    """Return the placeholder for a value."""
    return f"{_BEGINNING}{name}>"


def value_names(*texts: str) -> tuple[str, ...]:
    """Return the names of the values in texts, each once. Raises SettingsError for a
    placeholder without a valid name.
    """
    names: dict[str, None] = {}
    for text in texts:
        found = VALUE_MARK.findall(text)
        if text.count(_BEGINNING) > len(found):
            raise SettingsError(
                "the name of a value must be letters, digits and underscores, as in"
                f" <value:title>, got {text!r}"
            )
        names |= dict.fromkeys(found)
    return tuple(names)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values for their placeholders."""
    return VALUE_MARK.sub(lambda mark: values.get(mark[1], mark[0]), text)


def values_of(
    texts: Iterable[str],
    given: Mapping[str, object],
    of_test: Mapping[str, object],
    *,
    secrets: Collection[str],
    hide: Callable[[str], str],
) -> dict[str, str]:
    """Return the values that a task and its claims name, as text.

    They are among the `given` ones, or else the test's parameters and fixtures. `hide`
    takes all secrets out of a text, and `secrets` are the names of those that may be
    typed. Raises SettingsError.
    """
    names = value_names(*texts)
    check_names(names, [*given, *of_test], secrets)
    for name in given:
        if name not in names:
            raise SettingsError(UNUSED_VALUE.format(name))
    values = {}
    for name in names:
        value = given[name] if name in given else of_test[name]
        values[name] = _text_of(name, value, hide)
    return values


def check_names(
    names: Iterable[str], known: Collection[str], secrets: Collection[str]
) -> None:
    """Raise SettingsError for a name that stands for no value, or for a secret too."""
    for name in names:
        if name in secrets:
            raise SettingsError(
                f"{name!r} is the name of a secret, and of a value too. Take another"
                f" name for the value, or write <secret:{name}>"
            )
        if name not in known:
            there = ", ".join(map(repr, filter(_may_be_value, known))) or "none"
            raise SettingsError(
                f"{value_mark(name)} is no parameter or fixture of this test, and not in"
                f" values={{…}}. Its values can be: {there}"
            )


def _may_be_value(name: str) -> bool:
    """Return whether a message lists the name: no fixture of this plugin or pytest."""
    return name != "request" and not name.startswith(("vnc_", "_"))


def _text_of(name: str, value: object, hide: Callable[[str], str]) -> str:
    """Return a value as the text that is typed. Raises SettingsError."""
    is_value = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if not is_value or isinstance(value, SecretText):
        raise SettingsError(
            f"the value {name!r} must be text or a number, got a"
            f" {type(value).__name__}. Pass str(…) of it"
        )
    text = str(value)
    if not text.strip():
        raise SettingsError(f"the value {name!r} must not be empty, got {text!r}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise SettingsError(
            f"the value {name!r} must be text: it holds half of a surrogate pair"
        )
    if SECRET_MARK.search(text) or _BEGINNING in text:
        raise SettingsError(
            f"the value {name!r} must not have a placeholder in it, got {text!r}"
        )
    if hide(text) != text:
        raise SettingsError(
            f"the value {name!r} has the value of a secret in it, and values are shown."
            f" Write <secret:NAME> in place of {value_mark(name)}"
        )
    if hide(value_mark(name)) != value_mark(name):
        raise SettingsError(
            "the name of a value has the value of a secret in it. Take another name"
        )
    return text
