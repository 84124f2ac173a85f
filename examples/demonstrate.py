"""Makes the recordings of the examples again, by demonstration, with nobody there: plays the person at the VNC viewer.

    python examples/demonstrate.py [OPTION OF PYTEST …]

What is done for each sentence stands in scripts.py: pointer and keyboard go to the viewer's port that pytest names, at
a person's pace. What is said of the claims stands here, as read off the screen that the sentence ends on; after the
shop was changed, look at it again: it is the screenshot of the recording's end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TextIO, cast

from scripts import SCRIPTS

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.types import Click, DesktopAction, KeyCombo, Proposal, TypeText, Wait

DONE = "The screen shows that this task has been carried out completely: "
SAID = {
    "the basket shows 2 apples and a total of 3.00": (
        "yes, the one row says Apples, 1.50 each, 2 and 3.00, and below stands Total 3.00"
    ),
    f"{DONE}Sign in as alice with the password wonderland": "yes, the products are shown, and Signed in: alice",
    f"{DONE}Try to sign in as alice with the password queen": "yes, it says Wrong name or password",
    f"{DONE}Try to sign in as alice with the password wonderland in capitals": "yes, it says Wrong name or password",
    f"{DONE}Try to sign in as mallory with the password wonderland": "yes, it says Wrong name or password",
    f"{DONE}Sign in as alice, add two apples to the basket and open the basket": "yes, the basket shows 2 apples",
    f"{DONE}Add one honey and one tea to the basket, then make it two honey in the basket": (
        "yes, the rows say honey 2 and tea 1"
    ),
    f"{DONE}Put tea into the basket, then empty the basket and confirm it in the dialog": "yes, The basket is empty",
    f"{DONE}Put tea into the basket, then ask to empty the basket but keep it after all": "yes, the tea is there",
    f"{DONE}Write a note of two lines, 'No nuts, please.' and 'Merci, René & Zoë!', and save it": (
        "yes, both lines are there, and it says Saved"
    ),
    f"{DONE}Load the stock report, wait until it is there, and confirm the stock": "yes, it says Stock confirmed",
    f"{DONE}Drag the apples and then the pears from the shelf into the gift box": "yes, both are in the box",
    f"{DONE}Read the terms to their end and accept them": "yes, it says Accepted",
    f"{DONE}Sign in as bob with the password builder and open the gift box": (
        "yes, the page Gift box is open, marked in the sidebar, and below stands Signed in: bob"
    ),
}
LOOKS_S, TYPES_S = 1.0, 0.1
"""So long a person looks at what came of an action, and takes from one character to the next."""


def main(options: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", str(Path(__file__).parent), "--vnc-record=manual", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pytest:
        try:
            attend(cast(TextIO, pytest.stdout), cast(TextIO, pytest.stdin))
        except BaseException:  # whatever it was, nobody is there any more who would do the tasks
            pytest.kill()
            raise
    return pytest.returncode


def attend(told: TextIO, keyboard: TextIO) -> None:
    """Do each task that pytest asks for, and answer about each claim."""
    before = ""
    for line in map(str.rstrip, told):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        if "vncviewer" in line:
            show(before, line.split()[-1])
        elif line in SAID:
            keyboard.write(f"{SAID[line]}\n")
            keyboard.flush()
        before = line


def show(task: str, address: str) -> None:
    """Do the task in a viewer of the desktop at that address."""
    with closing(connect(address)) as viewer:
        for proposal in (proposal for turn in SCRIPTS[task] for proposal in turn):
            for action in by_hand(proposal):
                viewer.perform(action)
            look(viewer)


def by_hand(proposal: Proposal) -> Iterator[DesktopAction]:
    """Do it by hand: click into a field, and type one character after the other."""
    match proposal.action:
        case TypeText(text=text, x=x, y=y, press_enter=press_enter):
            if x is not None and y is not None:
                yield from (Click(x, y), Wait(LOOKS_S))
            for character in text:
                yield from (TypeText(character), Wait(TYPES_S))
            if press_enter:
                yield KeyCombo(("return",))
        case action:
            yield action  # type: ignore[misc]  # no script calls a function


def look(viewer: VNCController) -> None:
    viewer.settle()
    viewer.perform(Wait(LOOKS_S))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
