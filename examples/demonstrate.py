"""Makes the recordings of the examples again, without a user: plays the user of the
page that pytest names.

    python examples/demonstrate.py [OPTION OF PYTEST …]

What is done for each sentence stands in scripts.py, and goes to the page at a user's
pace. Every claim is said to hold; after the shop was changed, look at the screenshots
of the recordings' ends.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TextIO, cast
from urllib.parse import urlsplit

from scripts import SCRIPTS
from websockets.sync.client import ClientConnection, connect

from pytest_vnc_use.types import (
    Click,
    DesktopAction,
    Drag,
    KeyCombo,
    Proposal,
    Scroll,
    TypeText,
    Wait,
)

LOOKS_S, TYPES_S = 1.0, 0.1
"""The time for which a user looks at the result of an action, and that between two
characters.
"""


def main(options: Sequence[str]) -> int:
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(Path(__file__).parent),
        "--vnc-record=manual",
        *options,
    ]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as pytest:
        try:
            attend(cast(TextIO, pytest.stdout))
        except BaseException:
            # whatever it was, no user is there any more who would do the tasks
            pytest.kill()
            raise
    return pytest.returncode


def attend(output: TextIO) -> None:
    """Do each task that pytest asks for on the page that it names."""
    for line in output:
        sys.stdout.write(line)
        sys.stdout.flush()
        if url := re.search(r"http://\S+#\S+", line):
            threading.Thread(target=record, args=(url[0],), daemon=True).start()


def record(url: str) -> None:
    """Do the tasks on the page of that URL, as long as it asks for one."""
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc)) as connection:
        connection.request("POST", "/login", parts.fragment)
        cookie = {
            "Cookie": connection.getresponse().headers["set-cookie"].partition(";")[0]
        }
    with connect(
        f"ws://{parts.netloc}/page",
        additional_headers=cookie,
        proxy=None,
        max_size=None,
    ) as page:
        for message in (
            json.loads(message) for message in page if isinstance(message, str)
        ):
            for question in (
                message["questions"] if message["type"] == "state" else [message]
            ):
                if question.get("about") == "record" and question["type"] == "question":
                    send = partial(tell, page, question["id"])
                    for proposal in (
                        proposal
                        for turn in SCRIPTS[question["task"]]
                        for proposal in turn
                    ):
                        for action in by_hand(proposal):
                            perform(send, action)
                        time.sleep(LOOKS_S)
                    verdicts = dict.fromkeys(question["claims"], "holds")
                    answer = {"kind": "done", "is_done": "holds", "verdicts": verdicts}
                    page.send(
                        json.dumps({"type": "answer", "id": question["id"], **answer})
                    )


def tell(page: ClientConnection, question: str, *event: object) -> None:
    page.send(json.dumps({"type": "input", "id": question, "event": event}))


def perform(send: Callable[..., None], action: DesktopAction) -> None:
    """Send the events that a user's pointer and keyboard make."""
    match action:
        case Click(x, y, button, count):
            send("move", x, y)
            for _ in range(count):
                send("down", x, y, button)
                send("up", x, y, button)
        case Drag():
            send("down", action.x, action.y, "left")
            send("move", action.to_x, action.to_y)
            send("up", action.to_x, action.to_y, "left")
        case Scroll(x, y, direction, clicks):
            for _ in range(clicks):
                send("scroll", x, y, direction)
        case KeyCombo(keys):
            send("chord", keys)
        case TypeText(text):
            send("text", text)
        case Wait(seconds):
            time.sleep(seconds)
        case _:
            raise NotImplementedError(action)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
