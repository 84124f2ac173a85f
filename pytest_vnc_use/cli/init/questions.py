"""The four questions of `cua-vnc init`, asked at a terminal, or answered by options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pytest_vnc_use.cli.init.target import Target, read_target
from pytest_vnc_use.errors import SettingsError

T = TypeVar("T")

PROGRAM = """\
Which program do you test?
  a command            mousepad
  a web address        http://localhost:8000
  an image             container:IMAGE COMMAND
  a VNC server         winbox::5900
"""
TASK = "What does the first test do? One sentence, such as: Type Hello into the document\n"
RECORD = "Who records it? hand: you do it once in a VNC viewer; model: needs a key, costs money [hand]\n"
CI = "Which CI runs it? none, github, gitlab or jenkins [{default}]\n"
MOST_SHARDS = 50
"""GitLab lets a job need 50 others."""
RECORDS, CIS = ("hand", "model"), ("none", "github", "gitlab", "jenkins")


@dataclass(frozen=True)
class Answers:
    """The four answers: program and desktop, the task, `hand` or `model`, and the CI or `none`.

    `shards` is how many jobs of the CI share the replays; nobody is asked for it.
    """

    target: Target
    task: str
    record: str
    ci: str
    shards: int = 1


def given(
    program: str | None, where: str, task: str | None, record: str | None, ci: str | None, folder: Path
) -> Answers:
    """Return the answers that options give, with a default for `record` and `ci`. Raises SettingsError."""
    missing = " and ".join(
        name for name, value in (("PROGRAM", program), ("--task", task)) if value is None or not value.strip()
    )
    if program is None or task is None or missing:
        example = 'cua-vnc init mousepad --task "Type Hello into the document"'
        raise SettingsError(f"{missing} must be given where there is no terminal to ask at, such as: {example}")
    return Answers(
        read_target(program, where, folder),
        _sentence(task),
        _one_of("--record", RECORDS, record or "hand"),
        _one_of("--ci", CIS, ci or "none"),
    )


def asked(
    program: str | None, where: str, task: str | None, record: str | None, ci: str | None, folder: Path
) -> Answers:
    """Return the answers; ask for those that no option gives, again if one is invalid.

    Raises SettingsError for an invalid option, EOFError and KeyboardInterrupt if the person leaves.
    """
    default = likely_ci(folder)
    read_record, read_ci = partial(_one_of, "--record", RECORDS), partial(_one_of, "--ci", CIS)
    return Answers(
        _answer(PROGRAM, program, lambda text: read_target(text, where, folder)),
        _answer(TASK, task, _sentence),
        _answer(RECORD, record, lambda text: read_record(text or "hand")),
        _answer(CI.format(default=default), ci, lambda text: read_ci(text or default)),
    )


def with_shards(answers: Answers, text: str | None) -> Answers:
    """Return the answers with the number of jobs that an option gives. Raises SettingsError."""
    if text is None:
        return answers
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_SHARDS:
        raise SettingsError(f"--shards must be a whole number from 1 to {MOST_SHARDS}, got {text!r}")
    if int(text) > 1 and answers.ci == "none":
        raise SettingsError(f"--shards {text} needs a CI: give --ci github, gitlab or jenkins too")
    if int(text) > 1 and answers.target.kind == "address":
        raise SettingsError(f"--shards must be 1 for an address, which is one desktop for all jobs, got {text!r}")
    return replace(answers, shards=int(text))


def likely_ci(folder: Path) -> str:
    """Return the CI whose files are in the folder, or `none`."""
    signs = {"github": ".github", "gitlab": ".gitlab-ci.yml", "jenkins": "Jenkinsfile"}
    return next((ci for ci, name in signs.items() if (folder / name).exists()), "none")


def _answer(question: str, option: str | None, read: Callable[[str], T]) -> T:
    if option is not None:
        return read(option)
    print(question, end="")
    while True:
        try:
            return read(input("> ").strip())
        except SettingsError as exc:
            print(exc)


def _sentence(text: str) -> str:
    if not text.strip():
        raise SettingsError(f"the task must be a sentence, got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise SettingsError(f"the task must be text in UTF-8, got {text!r}") from exc
    return text.strip()


def _one_of(name: str, choices: tuple[str, ...], text: str) -> str:
    if text.lower() not in choices:
        raise SettingsError(f"{name} must be one of {', '.join(choices)}, got {text!r}")
    return text.lower()
