"""The form of covers.py as a program in a terminal: options as `--NAME=VALUE`. It has nothing that blinks."""

from __future__ import annotations

import os
import select
import sys
import time
import tty

PROMPT = "Your code: "


def show(text: str) -> None:
    os.write(1, text.encode())


def main(options: dict[str, str]) -> None:
    tty.setraw(0)
    show(PROMPT)
    text, spoilt_s, is_entered = "", float("inf"), False
    while not is_entered or spoilt_s < float("inf"):
        if select.select([0], [], [], 0.02)[0]:
            letter = os.read(0, 1).decode()
            is_entered |= letter == "\r"
            text += letter.strip()
            if "hidden" not in options:
                show(letter.strip())
            if letter.strip() and len(text) == 10 and "wrong" in options:
                spoilt_s = time.monotonic() + int(options.get("late", "0")) / 1000
        if time.monotonic() > spoilt_s:
            at, spoilt_s = int(options["wrong"]), float("inf")
            text = f"{text[:at]}3{text[at + 1 :]}"
            show(f"\r{PROMPT}{text}")
    show(f"\r\n\r\n{text} is signed in\r\n")
    while os.read(0, 1):
        pass


if __name__ == "__main__":
    main(dict(option.removeprefix("--").split("=") for option in sys.argv[1:]))
