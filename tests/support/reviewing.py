"""A reviewer at a terminal: pytest with a pty as its keyboard, whose questions are answered one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from support.forked_python import ForkedPython

TIMEOUT_S = 240
KEYS = "anything else: no"


@dataclass
class Reviewed:
    """The end of a pytest process: its exit code, all that it printed, and the text of each question."""

    code: int
    out: str
    questions: list[str]


def review(
    directory: Path,
    answers: Iterable[str | Callable[[ForkedPython], object]],
    *arguments: str,
) -> Reviewed:
    """Run pytest with --vnc-record=accept. An answer is what is typed, or a function of the process."""
    master, slave = os.openpty()
    command = ["pytest", "-p", "no:cacheprovider", "--vnc-record=accept", *arguments]
    environment = {**os.environ, "VNC_USE_REHEARSE": "0", "CI": ""}
    due, lines, questions, start = iter(answers), [], [], 0
    process = ForkedPython(*command, cwd=directory, env=environment, stdin=slave)
    assert process.stdout
    try:
        for line in process.stdout:
            lines.append(line)
            if KEYS in line:
                questions.append("".join(lines[start:]))
                start = len(lines)
                answer = next(due, "n\n")
                if isinstance(answer, str):
                    os.write(master, answer.encode())
                else:
                    answer(process)
        code = process.wait(TIMEOUT_S)
    finally:
        process.kill()
        process.stdout.close()
        os.close(slave)
        os.close(master)
    return Reviewed(code, "".join(lines), questions)
