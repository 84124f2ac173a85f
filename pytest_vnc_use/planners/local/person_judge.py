"""A judge that asks the person at the keyboard."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from pytest_vnc_use.errors import Inconclusive
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.types import Frame, Report, Verdict, VerdictKind
from pytest_vnc_use.types.verdicts import PERSON_SAID

NOBODY = (
    "no user is at the keyboard to say whether it holds: run the test at a terminal, or name a judge, such as "
    "--vnc-judge=gemini, with its key"
)
REFUSED = "recording refused by its user: nothing was recorded"
ENDED = "the input ended (Ctrl-D) before the answer, so nothing was recorded: run the test again, and answer yes or no"
_KINDS: dict[str, VerdictKind] = {"yes": "holds", "y": "holds", "no": "fails", "n": "fails", "unsure": "unsure"}
_MOST_QUESTIONS = 3
_LONGEST_ANSWER = 40


class InputEnded(EOFError):
    """The person at the terminal ended the input, by Ctrl-D."""


class AtTheKeyboard:
    """A Judge that shows the screen as an image and asks a person.

    `ask` gets the question, and raises EOFError if no user is there, InputEnded if one was. It takes as long as the
    person takes. An answer that is neither yes nor no is asked again; after three it is unsure. Where the person
    `records` what they did, a no says nothing about the product: it raises Inconclusive.
    """

    def __init__(self, ask: Callable[[str], str] = input, *, records: bool = False) -> None:
        self._ask = ask
        self._records = records

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        """Return the person's verdict; unsure if nobody is there, or does not answer."""
        with tempfile.TemporaryDirectory(prefix="vnc-claim-") as directory:
            image = Path(directory) / "screen.png"
            image.write_bytes(frame.png)
            try:
                answer = self._answer(f"\n{plain(claim)}\nLook at {image}. Yes, or no, and what shows it?\n")
            except (EOFError, OSError) as exc:
                reason = ENDED if isinstance(exc, InputEnded) else NOBODY
                return Verdict(claim, "unsure", reason, frame=frame.ref)
        word, _, reason = answer.partition(" ")
        kind, said = _kind(answer) or "unsure", f"{PERSON_SAID}{reason.strip() or word}"
        if kind == "fails" and self._records:
            raise Inconclusive(f"{REFUSED}\n  {said}\n  claim: {plain(claim)}")
        return Verdict(claim, kind, said, frame=frame.ref)

    def _answer(self, question: str) -> str:
        """Ask until the answer is clear, and return it; the last one if none is. Raises as `ask` does."""
        answer = ""
        for _ in range(_MOST_QUESTIONS):
            answer = self._ask(question).strip()
            if _kind(answer):
                break
            given = answer[:_LONGEST_ANSWER]
            question = f"{given!r} is unclear: answer yes or no, and what shows it; or unsure\n"
        return answer


def _kind(answer: str) -> VerdictKind | None:
    """Return the verdict that an answer begins with; None if it is unclear."""
    return _KINDS.get(answer.partition(" ")[0].lower().rstrip(",.:;"))
