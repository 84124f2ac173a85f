"""Text with the values of secrets in it, which shows their names instead."""

from __future__ import annotations


class SecretText(str):
    """A text to type, with the values of secrets in it; its `repr` is that of `redacted`, which has their names.

    So a traceback, an assertion and a debugger show the names. Only the keyboard reads the characters. `str(…)` is the
    plain text.
    """

    redacted: str

    def __new__(cls, text: str, redacted: str) -> SecretText:
        """Return the text that `redacted` becomes with the values in it."""
        made = super().__new__(cls, text)
        made.redacted = redacted
        return made

    @classmethod
    def of(cls, name: str, value: str) -> SecretText:
        """Return the value of one secret."""
        return cls(value, f"<secret:{name}>")

    def __repr__(self) -> str:
        return repr(self.redacted)
