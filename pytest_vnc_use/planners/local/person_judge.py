"""A judge that asks the person at the keyboard."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.types import Frame, Report, Verdict, VerdictKind

NOBODY = (
    "nobody is at the keyboard to say whether it holds: run the test at a terminal, or name a judge, such as "
    "--vnc-judge=gemini, with its key"
)
_KINDS: dict[str, VerdictKind] = {"yes": "holds", "y": "holds", "no": "fails", "n": "fails"}


class AtTheKeyboard:
    """A Judge that shows the screen as a picture and asks a person.

    `ask` gets the question, and raises EOFError if nobody is there. It takes as long as the person takes. An answer
    that is neither yes nor no is unsure.
    """

    def __init__(self, ask: Callable[[str], str] = input) -> None:
        self._ask = ask

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        """Return the person's verdict; unsure if nobody is there."""
        with tempfile.TemporaryDirectory(prefix="vnc-claim-") as folder:
            picture = Path(folder, "screen.png")
            picture.write_bytes(frame.png)
            try:
                answer = self._ask(f"\n{plain(claim)}\nLook at {picture}. Yes, or no, and what shows it?\n")
            except (EOFError, OSError):
                return Verdict(claim, "unsure", NOBODY, frame=frame.ref)
        word, _, reason = answer.strip().partition(" ")
        kind = _KINDS.get(word.lower().rstrip(",.:;"), "unsure")
        return Verdict(claim, kind, f"whoever recorded it said: {reason.strip() or word}", frame=frame.ref)
