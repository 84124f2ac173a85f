"""`cua-vnc run`, `approve`, `deny`, `resume` and `reenact`: one run, its steps printed,
its result an exit code.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_vnc_use.agent import build, credentials, leasing
from pytest_vnc_use.agent.agent import Again, VncUseAgent
from pytest_vnc_use.agent.connection import Connection
from pytest_vnc_use.agent.models import Models
from pytest_vnc_use.agent.session import Session
from pytest_vnc_use.cli import CTRL_C, Commands
from pytest_vnc_use.cli.options import (
    DESKTOP_OPTIONS,
    RUN_OPTIONS,
    add_options,
    add_secret,
    option_values,
    secrets_of,
    settings_of,
)
from pytest_vnc_use.desktops.home import check_new
from pytest_vnc_use.desktops.started import StartedDesktop
from pytest_vnc_use.errors import (
    AgentFailed,
    InfraError,
    RunDirectoryError,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.interactive import has_user
from pytest_vnc_use.plain_text import HIDDEN_QUERY, cut, line, plain, without_query
from pytest_vnc_use.planners.local.scripted import Reenactment
from pytest_vnc_use.runs.directory import path_of, read_trace
from pytest_vnc_use.runs.progress import LiveLine, can_show
from pytest_vnc_use.runs.redactor import Secrets
from pytest_vnc_use.runs.transcript import only_waiting, step_line
from pytest_vnc_use.runs.uitask_trace import read_execution, secrets_of as secrets_in
from pytest_vnc_use.settings.layers import absolute_desktop
from pytest_vnc_use.settings.settings import FIELDS, LOCAL_SERVERS, Settings
from pytest_vnc_use.triage import MAX_ERROR, sanitize
from pytest_vnc_use.types import (
    ApprovalRequest,
    JsonObject,
    Outcome,
    RunEvent,
    RunResult,
    RunStarted,
    StepFinished,
)
from pytest_vnc_use.types.protocols import Approver, Desktop
from pytest_vnc_use.types.wire import host_and_port

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
CLAIM_FAILED = 1
INFRA = 9
DEFECT = 70

REENACT_OPTIONS = {
    **DESKTOP_OPTIONS,
    "--policy": "policy",
    "--seconds": "max_seconds",
}
_MAX_NAMED = 5
"""The maximum runs that an error lists, the newest."""


def add(commands: Commands) -> None:
    """Add the five commands to the parser."""
    run = commands.add_parser(
        "run", help="Run a task", description="Run a task on a VNC desktop."
    )
    run.add_argument("sentence", nargs="?", metavar="TASK", help="Task to run")
    run.add_argument("--task", help="Same as TASK")
    run.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="CLAIM",
        help="Claim to judge at the end; repeatable",
    )
    run.add_argument(
        "--wait-for-approval",
        action="store_true",
        help="Without a terminal, wait for `cua-vnc approve` instead of denying",
    )
    add_options(run, RUN_OPTIONS)
    add_secret(run)
    run.add_argument(
        "--save-home",
        metavar="DIR",
        help=(
            "Start --app on --vnc xvnc or qt and, if the task is done, keep its home in"
            " DIR, new or empty"
        ),
    )
    run.add_argument(
        "--app", metavar="COMMAND", help="Program to start, with --save-home"
    )
    run.set_defaults(command=_run)
    for name, about in (
        ("approve", "Perform the action for which a run waits, and continue"),
        ("deny", "Deny the action for which a run waits"),
        ("resume", "Continue an interrupted or killed run from its last step"),
    ):
        answer = commands.add_parser(name, help=about, description=f"{about}.")
        needed = None if name == "resume" else "?"
        only = "" if name == "resume" else " (default: the only one that waits)"
        answer.add_argument(
            "run_id",
            nargs=needed,
            help=f"Name of the run's directory under --runs-dir{only}",
        )
        add_options(answer, RUN_OPTIONS, needs_server=False)
        add_secret(answer)
        if name != "resume":
            answer.add_argument(
                "--step", type=int, help="Answer only if the run waits for this step"
            )
        answer.set_defaults(command=_continue_run, answer=name, step=None)
    about = "Perform the actions of an earlier run again, without a model, unchecked"
    reenact = commands.add_parser(
        "reenact",
        help=about,
        description=(
            f"{about}: in order, each once the screen is stable, up to the first that"
            " fails. No screen is compared and nothing is judged: `done` means that"
            " all actions were performed, not that they had the same effect. Actions"
            " that failed in the earlier run are skipped. Give the secrets,"
            " <secret:NAME> in the trace, with --secret."
        ),
    )
    reenact.add_argument(
        "execution",
        metavar="RUN",
        help="Run directory, or an action trace (execution.json)",
    )
    add_options(reenact, REENACT_OPTIONS)
    add_secret(reenact)
    reenact.set_defaults(command=_reenact)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.save_home:
        return _run_to_save_home(arguments)
    if arguments.app:
        raise SettingsError(
            f"--app={arguments.app!r} needs --save-home. On a running desktop, start the"
            " program yourself"
        )
    approver = terminal_approver()
    ask = approver is not None or arguments.wait_for_approval
    settings = _at_running_desktop(settings_of(arguments))
    secrets = secrets_of(arguments.secret)
    printer = StepPrinter(settings, secrets)
    agent = VncUseAgent(settings=settings, secrets=secrets, hitl_mode=ask)
    run = partial(
        agent.run,
        arguments.sentence or arguments.task,
        expect=arguments.expect,
        approver=approver,
    )
    return drive(
        agent, run, arguments.expect, printer, _options_again(arguments, settings)
    )


def _run_to_save_home(arguments: argparse.Namespace) -> int:
    """Run a task on a new desktop, and keep the home of the program if it is done."""
    values = {"app": arguments.app}
    settings = absolute_desktop(settings_of(arguments, values), Path.cwd())
    kept_home = Path(arguments.save_home)
    if settings.server not in LOCAL_SERVERS or not settings.app:
        raise SettingsError(
            "--save-home needs a program that it can end: --app and --vnc=xvnc or"
            f" --vnc=qt, got --app={settings.app!r} and --vnc={settings.server!r}"
        )
    if arguments.wait_for_approval:
        raise SettingsError(
            "--wait-for-approval needs a running desktop: the one of --save-home ends"
            " with this command. Remove it, and allow the action in a --policy"
        )
    check_new(kept_home)
    secrets = secrets_of(arguments.secret)
    # Without a home, programs store data about their user outside it.
    with TemporaryDirectory() as empty:
        started = replace(settings, home=settings.home or empty)
        desktop = leasing.lease_desktop(started, "cua-vnc run")
    assert isinstance(desktop, StartedDesktop)
    try:
        code = _drive_at(desktop, settings, secrets, arguments)
        if code:
            print("the home is not kept: the task is not done", file=sys.stderr)
            return code
        desktop.keep_home(kept_home)
    finally:
        desktop.stop()
    print(
        f"the home is kept in {plain(str(kept_home))}. If the program is signed in, it"
        " holds tokens: add it to .gitignore",
        file=sys.stderr,
    )
    return code


def _drive_at(
    desktop: Desktop,
    settings: Settings,
    secrets: Mapping[str, str],
    arguments: argparse.Namespace,
) -> int:
    """Run the task on a desktop that was started for it; return the exit code."""
    settings = leasing.settings_at(settings, desktop.server)
    approver = terminal_approver()
    printer = StepPrinter(settings, secrets)
    declared = credentials.build_secrets(settings, secrets, desktop.password)
    connection = Connection(
        settings, declared, password=desktop.password, desktop=desktop
    )
    session = Session(
        settings,
        declared,
        connection,
        Models(None, None),
        can_ask=approver is not None,
    )
    agent = VncUseAgent.of(session)
    run = partial(
        agent.run,
        arguments.sentence or arguments.task,
        expect=arguments.expect,
        approver=approver,
    )
    return drive(agent, run, arguments.expect, printer, None)


def _continue_run(arguments: argparse.Namespace) -> int:
    """Approve, deny or resume a run, with the settings that it was started with.

    A copy of a run directory may come from an untrusted source, and gives none.
    """
    settings = settings_of(arguments)
    if not arguments.run_id:
        arguments.run_id = only_waiting(
            file.parent for file in Path(settings.runs_dir).glob("*/checkpoints.sqlite")
        )
    path = path_of(Path(settings.runs_dir), arguments.run_id)
    if not os.path.isdir(path):  # noqa: PTH112  # Path.is_dir may raise
        waiting = sorted(
            file.parent.name for file in path.parent.glob("*/checkpoints.sqlite")
        )[-_MAX_NAMED:]
        listed = ", ".join(map(repr, waiting)) or "none"
        raise RunDirectoryError(
            f"there is no run directory {str(path)!r}. Waiting or interrupted runs in"
            f" {str(path.parent)!r}: {listed}"
        )
    trace = read_trace(path)
    expect = trace.started.expect
    secret_options = list(arguments.secret)
    if trace.is_own:
        settings = settings_of(arguments, _stored_settings(trace.started))
        names = {option.partition("=")[0] for option in secret_options}
        secret_options += [name for name in trace.started.secrets if name not in names]
    if not settings.server:
        raise SettingsError(
            f"the run directory {str(path)!r} gives no desktop: it is a copy, belongs to"
            " another user, or the desktop's URL has a secret. Give its desktop with"
            " --vnc, and for a copy also its planner, policy and secrets"
        )
    settings = _at_running_desktop(settings)
    secrets = secrets_of(secret_options)
    printer = StepPrinter(settings, secrets)
    agent = VncUseAgent(settings=settings, secrets=secrets)
    again = Again(planner=agent.planner if arguments.planner else None)
    approver = terminal_approver()
    run_id = arguments.run_id
    step = arguments.step
    advance: dict[str, Callable[[], RunResult]] = {
        "approve": lambda: agent.approve(run_id, step=step, approver=approver, **again),
        "deny": lambda: agent.deny(run_id, step=step, **again),
        "resume": lambda: agent.resume(run_id, approver=approver, **again),
    }
    again_options = _options_again(arguments, settings)
    return drive(agent, advance[arguments.answer], expect, printer, again_options)


def _stored_settings(started: RunStarted) -> JsonObject:
    """Return the settings of a run from its directory; without the desktop if a part of
    its URL was left out.
    """
    stored = {name: started.settings.get(name) for name in FIELDS}
    del stored["runs_dir"]  # it is where the run directory was found
    # the setting may name several desktops: this is the one that the run used
    stored["server"] = started.server
    if HIDDEN_QUERY in started.server:
        del stored["server"]
    return stored


def _options_again(arguments: argparse.Namespace, settings: Settings) -> list[str]:
    """Return the options of a command that continues the run. Its directory has all
    other settings.
    """
    is_default = settings.runs_dir == Settings().runs_dir
    options = [] if is_default else [f"--runs-dir={settings.runs_dir}"]
    server = without_query(arguments.server or "")
    if HIDDEN_QUERY in server:
        options.append(f"--vnc={server}")
    return options + [f"--secret={secret}" for secret in arguments.secret]


def _reenact(arguments: argparse.Namespace) -> int:
    values = option_values(arguments, REENACT_OPTIONS)
    settings = _at_running_desktop(build.settings_of({**values, "planner": ""}))
    approver = terminal_approver()
    execution = read_execution(Path(arguments.execution))
    planner = Reenactment(execution)
    secrets = secrets_in(execution, secrets_of(arguments.secret))
    printer = StepPrinter(settings, secrets)
    agent = VncUseAgent(
        settings=settings,
        planner=planner,
        secrets=secrets,
        hitl_mode=approver is not None,
    )
    run = partial(
        agent.run,
        planner.task,
        limits=planner.limits(settings.max_seconds),
        approver=approver,
    )
    return drive(agent, run, (), printer, _options_again(arguments, settings))


def _at_running_desktop(settings: Settings) -> Settings:
    """Return the settings. Raises SettingsError if their server is not the address of a
    running desktop, because these commands start none.
    """
    if settings.server and not leasing.is_external(settings):
        raise SettingsError(
            "--vnc must be the address of a running desktop, host::port, host:display,"
            f" ws://…, wss://… or the path of a unix socket, got {settings.server!r}"
        )
    host_and_port(settings.server)
    return settings


class TerminalApprover:
    """An approver that asks the user at the terminal."""

    def approve(self, request: ApprovalRequest) -> bool:
        """Return whether the user approves; Ctrl-D is a denial."""
        confirmation = request.proposal.confirmation
        reason = confirmation.explanation if confirmation else request.proposal.intent
        print(f"step {request.number} needs approval: {line(request.proposal.action)}")
        print(f"  reason of the model: {line(reason)}")
        print(f"  rule: {line(request.ruling.rule)}")
        try:
            return input("perform it? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:  # Ctrl-D
            return False


class StepPrinter:
    """An observer that prints each step when it is finished; on a terminal a line below
    shows the run's state.

    The line shows neither the run's `secrets` nor those that `settings` name.
    """

    def __init__(self, settings: Settings, secrets: Mapping[str, str]) -> None:
        self._line: LiveLine | None = None
        if (terminal := _terminal()) is not None:
            all_secrets = Secrets.of(
                secrets, credentials.api_keys(), credentials.ambient_secrets(settings)
            )
            self._line = LiveLine(terminal, "", all_secrets.everything.hide_pieces)

    def observe(self, event: RunEvent) -> None:
        """Print the step if the event finishes one."""
        if isinstance(event, StepFinished):
            if self._line:
                self._line.erase()
            print(step_line(event.step), flush=True)
        if self._line:
            self._line.observe(event)

    def __enter__(self) -> StepPrinter:
        return self

    def __exit__(self, *error: object) -> None:
        """Erase the line."""
        if self._line:
            self._line.close()


def _terminal() -> int | None:
    """Return the file descriptor of the terminal on which a line can be rewritten; None
    without one.
    """
    try:
        number = sys.stdout.fileno()
    except (AttributeError, OSError):
        # there is no standard output, or no file behind it
        return None
    return number if can_show(number) else None


def terminal_approver() -> Approver | None:
    """Return an approver that asks at the terminal; None if there is no terminal."""
    return TerminalApprover() if has_user(sys.stdin) else None


def drive(
    agent: VncUseAgent,
    run: Callable[[], RunResult],
    claims: Sequence[str],
    printer: StepPrinter,
    again_options: Sequence[str] | None,
) -> int:
    """Run, judge, print the results, and return the exit code. The last line names the
    outcome and the run directory, also after an error.

    `again_options` are the options of a command that continues the run; None if no
    command can. Raises VncUseError for wrong usage.
    """
    agent.observers.append(printer)
    try:
        with printer, agent:
            return _conclude(agent, run(), claims, again_options)
    except (InfraError, AgentFailed) as exc:
        # AgentFailed: a custom planner answers no action.
        message = f"infra: {type(exc).__name__}: {exc}"
        return _report_break(agent, "infra", message, INFRA)
    except KeyboardInterrupt:
        if not agent.runs:
            message = "interrupted before the run started"
        elif again_options is None:
            message = "the run is interrupted, and its desktop has ended"
        else:
            command = _command("resume", agent.runs[-1].name, again_options)
            message = f"the run is interrupted. Continue it:\n  {command}"
        return _report_break(agent, "interrupted", message, CTRL_C)
    except VncUseError:
        raise
    except Exception as exc:  # noqa: BLE001  # a defect must not exit with the code of a failed claim
        message = f"{type(exc).__name__}: {exc}. Report it with the run directory"
        return _report_break(agent, "defect", message, DEFECT)


def _report_break(agent: VncUseAgent, outcome: str, message: str, code: int) -> int:
    print(cut(sanitize(message, hide=str), MAX_ERROR), file=sys.stderr)
    print(outcome, *(plain(str(run)) for run in agent.runs[-1:]))
    return code


def _command(name: str, run_id: str, options: Sequence[str]) -> str:
    return shlex.join(["cua-vnc", name, run_id, *options])


def _conclude(
    agent: VncUseAgent,
    result: RunResult,
    claims: Sequence[str],
    again_options: Sequence[str] | None,
) -> int:
    """Judge the claims of a run that is done, and print the results."""
    verdicts = []
    if result.outcome is Outcome.DONE:
        verdicts = [agent.assess(claim) for claim in claims]
    for verdict in verdicts:
        print(line(verdict))
    if result.message:
        print(line(result.message))
    if result.outcome is Outcome.WAITING and again_options is not None:
        step = len(result.steps) + 1
        print(f"step {step} waits for approval. Approve or deny it:")
        for name in ("approve", "deny"):
            options = [f"--step={step}", *again_options]
            print(f"  {_command(name, result.run_id, options)}")
    print(f"{result.outcome} {plain(str(result.run_dir))}")
    if not all(verdict.holds for verdict in verdicts):
        return CLAIM_FAILED
    return EXIT_CODES[result.outcome]
