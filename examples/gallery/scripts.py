"""What to do for each sentence of the gallery, a list for each turn: how its recordings
are made without a model.
"""

from __future__ import annotations

from pytest_vnc_use.types import Action, Click, KeyCombo, TypeText, Wait

SCRIPTS: dict[str, list[list[Action]]] = {
    "Add the line 'see you on Monday.' at the end of the letter, and save it": [
        [KeyCombo(("ctrl", "end"))],
        [TypeText("see you on Monday.\n")],
        [KeyCombo(("ctrl", "s"))],
    ],
    "Put bread below the apples on the list, save it and leave the editor": [
        [KeyCombo(("down",)), TypeText("bread\n")],
        [KeyCombo(("ctrl", "o")), KeyCombo(("enter",))],
        [KeyCombo(("ctrl", "x"))],
    ],
    "Order 3 pears": [
        [Click(150, 135)],
        [TypeText("pears")],
        [TypeText("3", 310, 135, clear_first=True, press_enter=True)],
    ],
    "Write 12 and 30 into the first two cells, and their sum below": [
        # on a busy machine the toolbars come seconds after the window, and follow a
        # cell as late
        [Wait(10.0)],
        [TypeText("12\n"), Wait(5.0)],
        [TypeText("30\n"), Wait(5.0)],
        [TypeText("=SUM(A1:A2)\n"), Wait(5.0)],
        [KeyCombo(("ctrl", "s")), Wait(5.0)],
    ],
    "Type 'hello, guest' into the machine": [[TypeText("hello, guest")]],
    "Choose the file letter.txt in the dialog": [
        [Click(374, 129)],
        [Click(1232, 845)],
    ],
    "Send the line 'the parcel is here' to the other desktop": [
        [TypeText("the parcel is here\n")],
    ],
}
