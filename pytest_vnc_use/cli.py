"""`cua-vnc`: run a task without pytest, answer a run that waits, resume one, and read policy files.

Exit codes of run, approve, deny and resume:

    0   done, and every --expect claim holds
    1   done, but a claim fails, or the judge is unsure
    2   wrong usage: an option, a setting or a policy file
    3   gave_up                 4   step_limit or time_limit
    5   denied                  6   blocked
    7   waiting_for_approval    8   budget
    9   infra: the desktop or the model could not be reached
    130 Ctrl-C

The last line printed names the outcome and the run folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_vnc_use import assembly
from pytest_vnc_use.agent import VncUseAgent, step_line
from pytest_vnc_use.errors import InfraError, VncUseError
from pytest_vnc_use.ports import Approver
from pytest_vnc_use.settings import FIELDS, Settings
from pytest_vnc_use.types import ApprovalAsked, Outcome, RunEvent, RunResult, StepFinished

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
AGENT_OPTIONS = {
    "--vnc": "server",
    "--password-env": "password_env",
    "--planner": "planner",
    "--model": "model",
    "--environment": "environment",
    "--policy": "policy",
    "--exclude": "exclude",
    "--step-limit": "steps",
    "--seconds": "seconds",
    "--runs-dir": "runs_dir",
}
"""Options of the commands that drive a desktop, and the settings they give."""
CLAIM_FAILED, USAGE, INFRA, CTRL_C = 1, 2, 9, 130


class TerminalApprover:
    """Asks the person at the terminal."""

    def approve(self, asked: ApprovalAsked) -> bool:
        confirmation = asked.proposal.confirmation
        print(f"step {asked.number} wants to be confirmed: {asked.proposal.action}")
        print(f"  the model says: {confirmation.explanation if confirmation else asked.proposal.intent}")
        print(f"  ruled by: {asked.ruling.rule}")
        return input("carry it out? [y/N] ").strip().lower() in ("y", "yes")


class StepPrinter:
    """Prints each step as it is finished."""

    def observe(self, event: RunEvent) -> None:
        if isinstance(event, StepFinished):
            print(step_line(event.step), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except InfraError as exc:
        return _told(f"infra: {type(exc).__name__}: {exc}", INFRA)
    except VncUseError as exc:
        return _told(f"error: {exc}", USAGE)
    except KeyboardInterrupt:
        return _told("interrupted; `cua-vnc resume` goes on with the run", CTRL_C)


def _told(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


# --- the commands' arguments -----------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="cua-vnc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    for name, command, about in (
        ("approve", _approve, "carry out the action that a run waits with, and go on"),
        ("deny", _deny, "refuse the action that a run waits with"),
        ("resume", _resume, "go on with an interrupted or killed run from its last step"),
    ):
        answer = commands.add_parser(name, help=about, description=about)
        answer.add_argument("run_id", help="name of the run's folder under --runs-dir")
        _add_agent_options(answer)
        answer.set_defaults(command=command)
    _add_policy(commands)
    return root


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser("run", help="carry out a task", description="Carry out a task on a VNC desktop.")
    run.add_argument("--task", required=True, help="the sentence to carry out")
    run.add_argument(
        "--expect", action="append", default=[], metavar="CLAIM", help="claim to judge after it; repeatable"
    )
    run.add_argument(
        "--wait-for-approval",
        action="store_true",
        help="where no terminal is there to ask at, let the run wait for `cua-vnc approve` instead of denying",
    )
    _add_agent_options(run)
    run.set_defaults(command=_run)


def _add_agent_options(parser: argparse.ArgumentParser) -> None:
    default = Settings()
    for option, field in AGENT_OPTIONS.items():
        about, value = FIELDS[field].metadata["help"], getattr(default, field)
        shown = f"{about} (default: {value})" if value else about
        parser.add_argument(option, dest=field, required=field == "server", metavar=field.upper(), help=shown)


def _add_policy(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    policy = commands.add_parser("policy", help="check a policy file, or try it on recorded runs")
    kinds = policy.add_subparsers(required=True, metavar="check|test")
    check = kinds.add_parser("check", help="explain a policy file")
    check.add_argument("file")
    check.set_defaults(command=_policy_check)
    test = kinds.add_parser("test", help="say what a policy file would have ruled on recorded steps")
    test.add_argument("file")
    test.add_argument("run", nargs="+", help="run folder")
    test.set_defaults(command=_policy_test)


# --- the commands ----------------------------------------------------------------------------------------------------


def _agent(arguments: argparse.Namespace, *, hitl_mode: bool = True) -> VncUseAgent:
    given = {field: getattr(arguments, field) for field in AGENT_OPTIONS.values()}
    settings = assembly.settings_of({**given, "planner": given["planner"] or "gemini"})
    return VncUseAgent(settings=settings, hitl_mode=hitl_mode, observers=[StepPrinter()])


def _approver() -> Approver | None:
    """The person at the terminal, where there is a terminal."""
    return TerminalApprover() if sys.stdin is not None and sys.stdin.isatty() else None


def _run(arguments: argparse.Namespace) -> int:
    approver = _approver()
    with _agent(arguments, hitl_mode=approver is not None or arguments.wait_for_approval) as agent:
        result = agent.run(arguments.task, approver=approver)
        return _conclude(agent, result, arguments.expect)


def _approve(arguments: argparse.Namespace) -> int:
    with _agent(arguments) as agent:
        return _conclude(agent, agent.approve(arguments.run_id, approver=_approver()))


def _deny(arguments: argparse.Namespace) -> int:
    with _agent(arguments) as agent:
        return _conclude(agent, agent.deny(arguments.run_id))


def _resume(arguments: argparse.Namespace) -> int:
    with _agent(arguments) as agent:
        return _conclude(agent, agent.resume(arguments.run_id, approver=_approver()))


def _conclude(agent: VncUseAgent, result: RunResult, claims: Sequence[str] = ()) -> int:
    """Judge the claims of a run that is done; print what it came to, the outcome and the run folder last."""
    verdicts = [agent.verify(claim) for claim in claims] if result.outcome is Outcome.DONE else []
    for verdict in verdicts:
        print(verdict)
    if result.message:
        print(result.message)
    if result.outcome is Outcome.WAITING:
        print(f"nobody to ask here: `cua-vnc approve {result.run_id}` or `deny` answers it")
    print(f"{result.outcome} {result.run_folder}")
    return EXIT_CODES[result.outcome] if all(verdicts) else CLAIM_FAILED


def _policy_check(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.policy import explain, load_policy

    print(explain(load_policy(arguments.file)))
    return 0


def _policy_test(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.policy import load_policy, replay_rulings

    print(replay_rulings(load_policy(arguments.file), [Path(run) for run in arguments.run]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
