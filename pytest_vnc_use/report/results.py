"""The results of a session's tests, as other programs read them: `vnc-results.json`,
versioned.

Within a version fields are only added, so readers should ignore fields that they do not
know.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.plain_text import count_of, got
from pytest_vnc_use.runs.directory import (
    FINE,
    Trace,
    from_json,
    read_trace,
    to_json,
    write_atomically,
)
from pytest_vnc_use.runs.json_lines import read_json
from pytest_vnc_use.runs.transcript import outcome_of
from pytest_vnc_use.types import FrameRef, Usage
from pytest_vnc_use.types.verdicts import USER_VERDICT

RESULTS = "vnc-results.json"
FORMAT = "pytest-vnc-use results"
VERSION = 1


@dataclass(frozen=True)
class JudgedClaim:
    """A claim and a judge's verdict on it: `holds`, `fails` or `unsure`."""

    claim: str
    verdict: str
    reason: str
    model: str


@dataclass(frozen=True)
class RunFigures:
    """One run of a test.

    `outcome` is an `Outcome`, or `error`, `unfinished`, `unreadable`. `models` are the
    models that answered. `rehearsal` is the number of the rehearsal that the run
    belongs to, 0 for a run of the test itself. `transients` describe transient frames
    of a replay that its recording does not have. `usage` is that of the planner's
    answers and of the verdicts. `steps_s` is the duration of the steps, the model's
    thinking included. `dollars` is None if they are unknown. `checked_by` states what
    decided whether the task is done: a `claim`, its `end_state`, the `user` who
    recorded it, or with `expect=None` the test's `body`.
    """

    directory: str
    task: str = ""
    outcome: str = "unreadable"
    message: str = ""
    steps: int = 0
    steps_s: float = 0.0
    planner: str = ""
    models: tuple[str, ...] = ()
    usage: Usage = Usage()
    verdicts: tuple[JudgedClaim, ...] = ()
    transients: tuple[str, ...] = ()
    dollars: float | None = None
    checked_by: str = ""
    rehearsal: int = 0


@dataclass(frozen=True)
class RehearsalFigures:
    """One replay of a recording right after it was made. Number 0 stands for no replay:
    the recording cannot repeat before a user changes something.

    If the test did not repeat, `problem` is the reason, `advice` has a remedy a line,
    and `recorded` and `seen` are the screenshots. `learnt` is what was learnt, a line
    each, such as `new variant, from (60, 120) to (200, 160)`.
    """

    number: int
    repeated: bool
    problem: str = ""
    advice: str = ""
    recorded: str = ""
    seen: str = ""
    learnt: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class ItemResult:
    """The result of a test, by its pytest id.

    `result` is `passed, failed, error, skipped, xfailed` or `xpassed`. A test that
    failed has a `triage` (`settings` if a setting is wrong), the `rule` that decided it
    and a line of `message`. `retried_for` are the triages of earlier attempts by
    pytest-rerunfailures. `runs` are the runs of all attempts, oldest first, and of the
    `rehearsals` of its recording, whose time is in `duration_s` too. `healed` and
    `not_healed` are the drifts at which a model continued, each as a line: `healed` of
    the attempt that passed, `not_healed` of those that did not. `checked_by` is that of
    each task, `none` for a test without a task.
    """

    test: str
    result: str
    triage: str | None = None
    rule: str = ""
    message: str = ""
    duration_s: float = 0.0
    retried_for: tuple[str, ...] = ()
    runs: tuple[RunFigures, ...] = ()
    dollars: float | None = None
    rehearsals: tuple[RehearsalFigures, ...] = ()
    healed: tuple[str, ...] = ()
    not_healed: tuple[str, ...] = ()
    checked_by: tuple[str, ...] = ("none",)

    @property
    def is_unrepeated(self) -> bool:
        """Return whether the test was recorded, and a rehearsal did not repeat."""
        return not all(rehearsal.repeated for rehearsal in self.rehearsals)

    @property
    def is_bad(self) -> bool:
        """Return whether the test failed or raised an error; a result unknown to pytest
        is no pass.
        """
        return self.result not in FINE


@dataclass(frozen=True)
class DivergentRun:
    """One of two runs where they diverge: its directory, its action (a line), and the
    screen before it.
    """

    test: str
    directory: str
    action: str
    text: str
    frame: FrameRef | None


@dataclass(frozen=True)
class Divergence:
    """The first step (from 1) at which two runs differ, and the sentence of the task
    about it.

    `sentence` is the one that shares most words with the text of the two runs on that
    step: a guess, "" if none does.
    """

    step: int
    sides: tuple[DivergentRun, DivergentRun]
    sentence: str = ""


@dataclass(frozen=True)
class Reliability:
    """The result of the repetitions of one test: `rate` is passed / repeated, with its
    Wilson interval of 95 %.

    A repetition that passed only when pytest-rerunfailures reran it does not count as
    passed. `pass_k` is pass^k, the chance that k runs in a row all pass, for k the
    number of repetitions: `rate` to the power of k, and the same for the ends of the
    interval.
    """

    test: str
    repeated: int
    passed: int
    rate: float
    rate_low: float
    rate_high: float
    pass_k: float
    pass_k_low: float
    pass_k_high: float
    divergence: Divergence | None = None

    @property
    def meaning(self) -> str:
        """How often the test passed, and what these runs show of it."""
        count = f"passed {self.passed} of {self.repeated} runs"
        if self.passed < self.repeated:
            low = round(100 * self.rate_low)
            high = round(100 * self.rate_high)
            return f"{count}, and of 100 more runs {low} to {high} would pass"
        # a test that fails 1 run in `rarest` passes all of these in 5 % of cases
        rarest = int(1 / (1 - 0.05 ** (1 / self.repeated)))
        if rarest < 2:
            return f"{count}, too few to rule out that it fails 1 run in 2"
        return (
            f"{count}, which rules out that it fails 1 run in {rarest}, but not that it"
            " fails less often"
        )


@dataclass(frozen=True)
class Totals:
    """Sums over all tests of a session; `triage` counts those that failed or raised an
    error.
    """

    tests: int
    results: dict[str, int]
    triage: dict[str, int]
    runs: int
    steps: int
    usage: Usage
    dollars: float | None


@dataclass(frozen=True)
class SessionResults:
    """All tests of a session that use a desktop, in the order in which they finished;
    times are UTC.

    `problems` are other failures: a module that could not be collected, a job without
    results. `exit_status` is pytest's, and None where these are the results of several
    jobs together.
    """

    started_at: str
    ended_at: str
    tests: tuple[ItemResult, ...]
    totals: Totals
    reliability: tuple[Reliability, ...] = ()
    problems: tuple[str, ...] = ()
    exit_status: int | None = None
    format: str = FORMAT
    version: int = VERSION


def figures_of(run_dir: Path) -> RunFigures:
    """Return the figures of a run directory; if it cannot be read, the message has the
    reason.
    """
    try:
        trace = read_trace(run_dir)
    except RunDirectoryError as exc:
        return RunFigures(str(run_dir), message=str(exc))
    message = ""
    if trace.ended:
        message = ": ".join(filter(None, [trace.ended.message, trace.ended.error]))
    times = [step.times for step in trace.steps]
    steps_s = sum(
        time.model_s + time.act_s + time.settle_s + time.capture_s for time in times
    )
    return RunFigures(
        directory=str(run_dir),
        task=trace.started.task,
        outcome=outcome_of(trace),
        message=message,
        steps=len(trace.steps),
        steps_s=round(steps_s, 3),
        planner=trace.started.planner,
        checked_by=_checked_by(trace),
        models=tuple(sorted({turn.decision.model for turn in trace.turns} - {""})),
        usage=trace.usage,
        dollars=trace.dollars,
        verdicts=tuple(
            JudgedClaim(verdict.claim, verdict.kind, verdict.reason, verdict.model)
            for verdict in trace.verdicts
        ),
        transients=tuple(transient.problem for transient in trace.transients),
    )


def _checked_by(trace: Trace) -> str:
    if trace.started.body_checks:
        return "body"
    if any(USER_VERDICT in verdict.reason for verdict in trace.verdicts):
        return "user"
    return "claim" if trace.started.expect else "end_state"


def session_results(
    started_at: str, ended_at: str, tests: Sequence[ItemResult]
) -> SessionResults:
    """Return the tests with their sums."""
    runs = [*chain.from_iterable(test.runs for test in tests)]
    dollars = [test.dollars for test in tests if test.dollars is not None]
    triages = [test.triage for test in tests if test.is_bad and test.triage]
    totals = Totals(
        tests=len(tests),
        results=dict(Counter(test.result for test in tests)),
        triage=dict(Counter(triages)),
        runs=len(runs),
        steps=sum(run.steps for run in runs),
        usage=sum((run.usage for run in runs), Usage()),
        dollars=sum(dollars) if dollars else None,
    )
    return SessionResults(started_at, ended_at, tuple(tests), totals)


def write_results(path: Path, results: SessionResults) -> None:
    """Write all results or nothing, replacing earlier ones. Raises
    RunDirectoryUnwritable, OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps(to_json(results), ensure_ascii=False, indent=1)
    write_atomically(path, text.encode("utf-8", "replace"))


def read_results(path: Path) -> SessionResults:
    """Return the results in a file. Raises RunDirectoryError if there are none, or they
    are of a newer version.
    """
    try:
        content = read_json(path, "results")
    except FileNotFoundError as exc:
        raise RunDirectoryError(f"there are no results at {str(path)!r}") from exc
    actual = f"a {type(content).__name__}"
    if isinstance(content, dict):
        kind = content.get("format")
        version = content.get("version")
        if kind == FORMAT and isinstance(version, int) and version <= VERSION:
            return from_json(SessionResults, content)
        actual = got({"format": kind, "version": version})
    raise RunDirectoryError(
        f"{str(path)!r} must be {FORMAT} up to version {VERSION}, got {actual}"
    )


_FAILED = 1
_EXIT_PROBLEMS = {
    2: "pytest was interrupted (exit status 2): tests may be missing",
    3: "pytest ended with an internal error (exit status 3): tests may be missing",
    4: "pytest ended with a usage error (exit status 4): tests may be missing",
}
NO_TESTS = "at least one job must run a test on a desktop, none did"
"""The problem of jobs that are green only because none of them has a test."""
_SUCCESS_STATUSES = (0, 5)
"""All passed; no test was collected, as in a job of many that got none."""


def session_problems(
    exit_status: int, uncollected: Sequence[str], failed: int, *, has_bad: bool
) -> Iterator[str]:
    """Yield the other problems of a session; `has_bad`: one of its tests with a desktop
    failed.

    `uncollected` are the node ids that could not be collected, `failed` counts the
    failed tests without a desktop.
    """
    for nodeid in uncollected:
        yield f"{nodeid or 'the session'} could not be collected"
    if failed:
        yield f"{count_of(failed, 'test')} without a desktop failed"
    if exit_status in _EXIT_PROBLEMS:
        yield _EXIT_PROBLEMS[exit_status]
    elif exit_status not in (*_SUCCESS_STATUSES, _FAILED):
        yield f"pytest ended with exit status {exit_status}: tests may be missing"
    elif exit_status == _FAILED and not (uncollected or failed or has_bad):
        yield "pytest ended with exit status 1, but no test here failed"
