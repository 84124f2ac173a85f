"""Actions that wait for approval on the page: those of a session that runs, and those of
runs that wait in their directories.
"""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_vnc_use.deadline import uncounted
from pytest_vnc_use.errors import RunDirectoryError, SettingsError
from pytest_vnc_use.runs.directory import RunDirectory, to_json
from pytest_vnc_use.runs.trace import Trace, read_trace
from pytest_vnc_use.runs.transcript import format_caption, outcome_of
from pytest_vnc_use.safety.allow_always import PolicyChange, always_allowing
from pytest_vnc_use.safety.rules import ReviewContext
from pytest_vnc_use.types import ApprovalRequest, Outcome
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.values import fill
from pytest_vnc_use.ui.link import Link, base64_of

MAX_LINES = 20
"""The maximum lines of a command's output that the page shows, the last ones."""


def question_of(
    trace: Trace, request: ApprovalRequest, policy: str
) -> tuple[dict[str, Any], PolicyChange | None]:
    """Return what the page shows of an action that waits, and what "allow always" would
    write; None if that cannot be written.

    `policy` is the policy file that the settings name.
    """
    started = trace.started
    context = ReviewContext(started.test_id, fill(started.task, started.values))
    for step in trace.steps:
        context = context.after(step)
    change = None
    why_no_change = ""
    try:
        change = always_allowing(request, policy, context, getpass.getuser())
    except (SettingsError, KeyError, OSError) as exc:
        # KeyError and OSError: the user has no name
        why_no_change = str(exc)
    frame = trace.last_frame
    try:
        image = RunDirectory.open(trace.path).load_png(frame)
    except RunDirectoryError:  # the run keeps no screenshots
        image = b""
    action = request.proposal.action
    explanation = request.proposal.intent
    if request.proposal.confirmation:
        explanation = request.proposal.confirmation.explanation
    question = {
        "about": "approval",
        "test": started.test_id,
        "task": context.task,
        "run": str(trace.path.resolve()),
        "step": request.number,
        "action": format_caption(action),
        "call": json.dumps(to_json(action), ensure_ascii=False),
        "explanation": explanation,
        "rule": request.ruling.explanation or request.ruling.rule,
        "points": [list(point) for point in points(action)],
        "size": [frame.width, frame.height],
        "image": base64_of(image),
        "diff": change.diff if change else "",
        "reason": why_no_change,
    }
    return question, change


class PageApprover:
    """An approver that asks the page about the actions of one test.

    `run_dir` returns the directory of its newest run. Allowed actions are added to
    `allowed`; in a rehearsal these need no answer.
    """

    def __init__(
        self,
        link: Link,
        run_dir: Callable[[], Path],
        allowed: set[str],
        *,
        is_rehearsal: bool,
    ) -> None:
        self._link = link
        self._run_dir = run_dir
        self._allowed = allowed
        self._is_rehearsal = is_rehearsal

    def approve(self, request: ApprovalRequest) -> bool:
        """Return whether the user allows the action. A policy file that changed
        meanwhile is shown again.
        """
        action = json.dumps(to_json(request.proposal.action), sort_keys=True)
        if self._is_rehearsal and action in self._allowed:
            return True
        while True:
            trace = read_trace(self._run_dir())
            policy = str(trace.started.settings.get("policy") or "")
            question, change = question_of(trace, request, policy)
            with uncounted():
                kind = self._link.put_question(**question)["kind"]
            if kind == "always" and change and not change.write():
                continue
            if kind not in ("allow", "always"):
                return False
            self._allowed.add(action)
            return True


class WaitingRuns:
    """The runs in `runs_dir` that wait, each answered by `cua-vnc approve` or `deny` in
    a separate process.

    `options` are what these commands need, such as `--vnc`; `policy` is the policy file
    that the settings name.
    """

    def __init__(self, runs_dir: Path, options: Sequence[str], policy: str) -> None:
        self._runs_dir = runs_dir.resolve()
        self._options = list(options)
        self._policy = policy
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._changes: dict[str, PolicyChange | None] = {}
        self._seen: dict[str, tuple[int, dict[str, Any] | None]] = {}
        """For each run the size of its trace, and the question in it, so that an
        unchanged trace is read once.
        """
        self.on_result: Callable[[str, str], object] = lambda run, text: None
        """Called from a thread with the run and the last lines, once a command has
        ended.
        """

    def questions(self) -> dict[str, dict[str, Any]]:
        """Return what the page shows of each run that waits, by the run's directory."""
        by_run = {}
        for file in sorted(self._runs_dir.glob("*/checkpoints.sqlite")):
            run = str(file.parent)
            if run in self._running:
                continue
            question = self._question(file.parent)
            if question:
                by_run[run] = question
        return by_run

    def _question(self, path: Path) -> dict[str, Any] | None:
        run = str(path)
        try:
            size = (path / "trace.jsonl").stat().st_size
            seen = self._seen.get(run)  # an answer may remove it meanwhile
            if seen and seen[0] == size:
                return seen[1]
            trace = read_trace(path)
        except (OSError, RunDirectoryError):
            # `cua-vnc approve` reports what is wrong with it
            return None
        question = None
        if trace.open_approval and outcome_of(trace) == str(Outcome.WAITING):
            question, change = question_of(trace, trace.open_approval, self._policy)
            question["type"] = "question"
            question["id"] = f"run {run} {trace.open_approval.number}"
            self._changes[run] = change
        self._seen[run] = size, question
        return question

    def answer(self, question: dict[str, Any], kind: str) -> str:
        """Start the command for an answer; return why it was not started, "" if it
        was.
        """
        run = str(question["run"])
        change = self._changes.get(run)
        self._seen.pop(run, None)
        if run in self._running:
            return "it is answered already"
        if kind == "always" and not (change and change.write()):
            return "the policy file has changed. Check the rule again"
        command = "approve" if kind in ("allow", "always") else "deny"
        argv = [
            sys.executable,
            "-m",
            "pytest_vnc_use.cli",
            command,
            Path(run).name,
            "--step",
            str(question["step"]),
            "--runs-dir",
            str(self._runs_dir),
            *self._options,
        ]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._running[run] = process
        threading.Thread(target=self._wait, args=(run, process), daemon=True).start()
        return ""

    def _wait(self, run: str, process: subprocess.Popen[str]) -> None:
        text, _ = process.communicate()
        del self._running[run]
        last_lines = text.splitlines()[-MAX_LINES:]
        self.on_result(run, "\n".join(last_lines))

    def close(self) -> None:
        """End the commands; their runs continue with `cua-vnc resume`."""
        for process in self._running.copy().values():
            process.terminate()
