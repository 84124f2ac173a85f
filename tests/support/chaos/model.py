"""The model's fake server as a process that can be killed. As a script: `python
model.py BROKEN` prints its URL.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

from support.gemini_server import GeminiServer, Reply, Request, calls, text

TURNS = (
    calls(("type", {"text": "alice", "press_enter": True}), words="The name."),
    calls(("type", {"text": "20", "press_enter": True}), words="The number."),
)


def answer(request: Request, broken: Path) -> Reply:
    """Return the next turn of the one task that it can do, or the answer of a judge who
    knows what is broken.
    """
    if request.computer_use is None:
        number = json.dumps(request.body).partition("order ")[2][:2]
        verdict = "fails" if (broken / number).exists() else "holds"
        return text(
            json.dumps(
                {"reason": "as it is written there", "verdict": verdict, "box_2d": None}
            )
        )
    said = sum(content.get("role") == "model" for content in request.contents)
    return TURNS[said] if said < len(TURNS) else text("Done: alice pays 500.")


if __name__ == "__main__":
    contents: list[Any] = [
        turn.body["candidates"][0]["content"]
        for turn in TURNS
        if isinstance(turn.body, dict)
    ]
    with GeminiServer(lambda request: answer(request, Path(sys.argv[1]))) as server:
        server.with_ids = False
        server.said += contents  # it is the same service after it was killed
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        signal.pause()
