"""The secrets of an agent: those of its tasks, and those of the environment that no run folder may hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types.secret_text import SecretText


@dataclass(frozen=True)
class Secrets:
    """The values by name that a task may use, and three redactors.

    `declared` knows these values only, and puts them back when they are typed. `at_start` also knows API keys.
    `everything` knows all keys and passwords: it redacts whatever is kept or reported. All three hide the secrets of
    other tests too.
    """

    values: Mapping[str, str]
    declared: Redactor
    at_start: Redactor
    everything: Redactor

    @classmethod
    def of(
        cls,
        values: Mapping[str, str],
        api_keys: Mapping[str, str],
        ambient: Mapping[str, str],
        others: Collection[tuple[str, str]] = (),
    ) -> Secrets:
        """Return the secrets of a task with the API keys and the other ambient secrets of the environment.

        `others` are the names and values of what other tests of the session declare. Raises SettingsError for a value
        that nothing can type.
        """
        for name, value in values.items():
            if any("\ud800" <= character <= "\udfff" for character in value):
                raise SettingsError(f"the secret {name!r} must be text: it holds half of a surrogate pair")
        return cls(
            {name: SecretText.of(name, value) for name, value in values.items()},
            Redactor(values, others=others, acts=True),
            Redactor({**values, **api_keys}, others=others),
            Redactor({**values, **ambient}, others=others),
        )
