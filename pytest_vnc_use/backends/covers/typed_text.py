"""The parts of a text that is typed: those that are secrets, and those between them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pytest_vnc_use.types import SECRET_MARK
from pytest_vnc_use.types.secret_text import SecretText


@dataclass(frozen=True)
class TypedPart:
    """A part of a typed text. `mark` is the placeholder of a secret, "" for other text."""

    text: str
    mark: str = ""

    def __repr__(self) -> str:
        return f"Part({self.mark or self.text!r})"

    @property
    def is_code(self) -> bool:
        """Return whether it is a one-time code, which is always different."""
        return self.mark.startswith("<totp:")


def parts_of(text: str, hide: Callable[[str], str]) -> list[TypedPart]:
    """Return the parts of a text, in order. `hide` replaces the value of each secret by its placeholder.

    If it is not clear which characters a placeholder replaced, the whole text is a secret.
    """
    hidden = hide(text.redacted if isinstance(text, SecretText) else text)
    marks = [found.group() for found in SECRET_MARK.finditer(hidden)]
    if not marks or hidden == str(text):
        return [TypedPart(str(text))]
    ends = [0, *(end for found in SECRET_MARK.finditer(hidden) for end in found.span()), len(hidden)]
    between = [hidden[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]
    values = re.fullmatch("(.+?)".join(map(re.escape, between)), text, re.DOTALL)
    if values is None:
        return [TypedPart(str(text), marks[0])]
    parts = [TypedPart(between[0])]
    for mark, value, after in zip(marks, values.groups(), between[1:], strict=True):
        parts += [TypedPart(value, mark), TypedPart(after)]
    return [part for part in parts if part.text]
