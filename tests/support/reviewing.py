"""A reviewer at a terminal: pytest with a pty as its keyboard, whose questions are answered one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

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
    answers: Iterable[str | Callable[[subprocess.Popen[str]], object]],
    *arguments: str,
) -> Reviewed:
    """Run pytest with --vnc-record=accept. An answer is what is typed, or a function of the process."""
    master, slave = os.openpty()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--vnc-record=accept", *arguments]
    environment = {**os.environ, "VNC_USE_REHEARSE": "0", "CI": ""}
    due, lines, questions, start = iter(answers), [], [], 0
    with subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout
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
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(slave)
            os.close(master)
    return Reviewed(code, "".join(lines), questions)
