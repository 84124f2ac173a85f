"""The result of one check of `cua-vnc doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Word = Literal["ok", "--", "FAIL"]


@dataclass(frozen=True)
class Finding:
    """The result of one check: it works, it is missing and was not asked for, or it fails."""

    word: Word
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.word:<4}  {self.about}: {self.text}"
