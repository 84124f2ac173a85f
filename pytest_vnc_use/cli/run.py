"""A run by a command: asks a person at the terminal, prints each step, and returns the result as an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.agent import VncUseAgent
from pytest_vnc_use.errors import AgentFailed, InfraError, VncUseError, faults
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.runs.progress import Progress, ShownProgress
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.runs.terminal_line import can_show
from pytest_vnc_use.runs.transcript import line, plain, step_line
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage.failure_text import LONGEST_ERROR, sanitize
from pytest_vnc_use.types import ApprovalAsked, Outcome, RunEvent, RunResult, StepFinished
from pytest_vnc_use.types.protocols import Approver

EXIT_CODES = {
    Outcome.DONE: 0,
    Outcome.GAVE_UP: 3,
    Outcome.STEP_LIMIT: 4,
    Outcome.TIME_LIMIT: 4,
    Outcome.DENIED: 5,
    Outcome.BLOCKED: 6,
    Outcome.WAITING: 7,
    Outcome.BUDGET: 8,
}
CLAIM_FAILED, INFRA, DEFECT, CTRL_C = 1, 9, 70, 130


class TerminalApprover:
    """An approver that asks the person at the terminal."""

    def approve(self, asked: ApprovalAsked) -> bool:
        """Return whether the person says yes; Ctrl-D is a no."""
        confirmation = asked.proposal.confirmation
        print(f"step {asked.number} wants to be confirmed: {line(asked.proposal.action)}")
        print(f"  the model says: {line(confirmation.explanation if confirmation else asked.proposal.intent)}")
        print(f"  ruled by: {line(asked.ruling.rule)}")
        try:
            return input("carry it out? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:  # Ctrl-D
            return False


class StepPrinter:
    """An observer that prints each step when it is finished; on a terminal a line below shows the run's state.

    The line shows neither the run's own `secrets` nor those that `settings` name.
    """

    def __init__(self, settings: Settings, secrets: Mapping[str, str]) -> None:
        self._progress: ShownProgress | None = None
        if (terminal := _terminal()) is not None:
            all_secrets = Secrets.of(secrets, build.api_keys(), build.ambient_secrets(settings))
            self._progress = ShownProgress(Progress("", all_secrets.everything.hide_pieces), terminal)

    def observe(self, event: RunEvent) -> None:
        """Print the step if the event finishes one."""
        if isinstance(event, StepFinished):
            with self._progress.line.interrupted() if self._progress else nullcontext():
                print(step_line(event.step), flush=True)
        if self._progress:
            self._progress.observe(event)

    def __enter__(self) -> StepPrinter:
        return self

    def __exit__(self, *error: object) -> None:
        """Erase the line."""
        if self._progress:
            self._progress.line.close()


def _terminal() -> int | None:
    """Return the file descriptor of the terminal on which a line can be rewritten; None without one."""
    try:
        number = sys.stdout.fileno()
    except (AttributeError, OSError):  # there is no standard output, or no file behind it
        return None
    return number if can_show(number) else None


def approver_here() -> Approver | None:
    """Return an approver that asks at the terminal; None if there is no terminal."""
    return TerminalApprover() if sys.stdin is not None and sys.stdin.isatty() else None


def drive(agent: VncUseAgent, run: Callable[[], RunResult], claims: Sequence[str], printer: StepPrinter) -> int:
    """Run, judge, and print the results; the outcome and the run folder come last, whatever happens.

    `printer` is one of the agent's observers.

    Returns the exit code. Raises VncUseError for wrong usage.
    """
    try:
        with printer, agent:
            return _conclude(agent, run(), claims)
    except (InfraError, AgentFailed) as exc:  # AgentFailed: an own planner answers no action
        return _report_break(agent, "infra", f"infra: {type(exc).__name__}: {exc}", INFRA)
    except KeyboardInterrupt:
        return _report_break(agent, "interrupted", "`cua-vnc resume` goes on with the run", CTRL_C)
    except VncUseError:
        raise
    except Exception as exc:  # noqa: BLE001  # a defect must not exit with the code of a failed claim
        if users_error := faults.text_of_users_error(exc):
            return _report_break(agent, "infra", f"infra: {users_error}", INFRA)
        return _report_break(
            agent, "defect", f"{type(exc).__name__}: {exc}; please report it with the run folder", DEFECT
        )


def _report_break(agent: VncUseAgent, word: str, message: str, code: int) -> int:
    print(cut(sanitize(message, hide=str), LONGEST_ERROR), file=sys.stderr)
    print(word, *(plain(str(run)) for run in agent.runs[-1:]))
    return code


def _conclude(agent: VncUseAgent, result: RunResult, claims: Sequence[str]) -> int:
    """Judge the claims of a run that is done, and print the results."""
    verdicts = [agent.assess(claim) for claim in claims] if result.outcome is Outcome.DONE else []
    for verdict in verdicts:
        print(line(verdict))
    if result.message:
        print(line(result.message))
    if result.outcome is Outcome.WAITING:
        step = len(result.steps) + 1
        print(f"nobody to ask here: `cua-vnc approve {result.run_id} --step {step}` or `deny` answers it")
    print(f"{result.outcome} {plain(str(result.run_folder))}")
    return EXIT_CODES[result.outcome] if all(verdict.holds for verdict in verdicts) else CLAIM_FAILED
