"""`cua-vnc`: run a task without pytest, answer a run that waits, resume one, read policy files, and check what works.

`cua-vnc init` writes a first test into your project. `cua-vnc record` writes one of what you do in a VNC viewer.
`cua-vnc report` writes the pages of runs for a reviewer, `cua-vnc results` puts those of several jobs together.
`cua-vnc screenshots` makes the screenshots of a harness agent's run from its recording.
`cua-vnc mcp` offers a coding agent everything else, over the Model Context Protocol.

Exit codes of run, approve, deny, resume and reenact:

    0   done, and every --expect claim holds
    1   done, but a claim fails, or the judge is unsure
    2   wrong usage: an option, a setting or a policy file
    3   gave_up                 4   step_limit or time_limit
    5   denied                  6   blocked
    7   waiting_for_approval    8   budget
    9   infra: the desktop, the model or your own planner could not be used
    70  a defect of this program
    130 Ctrl-C

The last line printed names the outcome, or `infra`, `defect` or `interrupted`, and the run folder. approve, deny and
resume use the claims and limits that the run was started with. Its planner, policy, desktop and secrets must be given
again: a run folder may be another person's, so none of these is taken from it.

Exit codes of doctor: 0 if everything that was asked for works, 1 if something does not (its line begins with FAIL), 2
and 130 as above. A missing part that was not asked for (`--`) is no failure.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.agent import Again, VncUseAgent
from pytest_vnc_use.cli import init, policy, record, report, results, screenshots
from pytest_vnc_use.cli.run import StepPrinter, approver_here, drive
from pytest_vnc_use.errors import RunFolderError, SettingsError, VncUseError
from pytest_vnc_use.plain_text import cut, without_query
from pytest_vnc_use.runs.folder import path_of, read_trace
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.settings.env_file import use_named_env_file
from pytest_vnc_use.settings.layers import environment_layer, read_value
from pytest_vnc_use.settings.secret_sources import read_secret
from pytest_vnc_use.settings.settings import FIELDS, Settings
from pytest_vnc_use.triage.failure_text import LONGEST_ERROR, sanitize
from pytest_vnc_use.types import RunResult
from pytest_vnc_use.types.wire import host_and_port

PLACE_OPTIONS = {
    "--vnc": "server",
    "--user": "username",
    "--password-env": "password_env",
    "--exec": "exec",
    "--cdp": "cdp",
    "--runs-dir": "runs_dir",
}
"""Options of all commands that drive a desktop, and the settings that they give."""
ABOUT = {
    "server": "the VNC desktop: host::port, host:display or a unix socket",
    "planner": "who decides what to do: gemini (the default), anthropic or openai (asks the model, costs money), or "
    "package.module:name, a callable of your own",
}
"""Help texts that differ from those of pytest's options."""
RUN_OPTIONS = {
    "--planner": "planner",
    "--model": "model",
    "--base-url": "base_url",
    "--vocabulary": "vocabulary",
    "--coordinates": "coordinates",
    "--computer-tool": "computer_tool",
    "--judge": "judge",
    "--judge-model": "judge_model",
    "--elements": "elements",
    "--environment": "environment",
    "--policy": "policy",
    "--exclude": "exclude",
    "--step-limit": "steps",
    "--seconds": "seconds",
}
"""Options of the commands that ask a model. A run that goes on gets them again: its folder gives none."""
REENACT_OPTIONS = {"--policy": "policy", "--seconds": "seconds"}
DOCTOR_OPTIONS = {
    "--vnc": "server",
    "--user": "username",
    "--password-env": "password_env",
    "--planner": "planner",
    "--model": "model",
}
ABOUT_DOCTOR = {
    "server": f"{ABOUT['server']}; or xvnc, qt, container:IMAGE (without it a desktop is started on TigerVNC)",
    "planner": "who decides what to do: gemini; with it, or with --model, a missing key is a failure",
    "model": "the model to look for",
}
_MOST_NAMED = 5
DOCTOR_FAILED, USAGE, CTRL_C, CLOSED_PIPE = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal with few characters must not end a command in the middle
    try:
        try:
            return _carried_out(argv)
        finally:
            if sys.stdout and not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe; nothing more can be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes stdout at its end
        return CLOSED_PIPE


def _carried_out(argv: Sequence[str] | None) -> int:
    try:
        use_named_env_file()
        arguments, unknown = (root := parser()).parse_known_args(argv)
        if unknown:
            root.error(_unknown(unknown))
        return int(arguments.command(arguments))
    except VncUseError as exc:
        print(cut(sanitize(f"error: {exc}", hide=without_query), LONGEST_ERROR), file=sys.stderr)
        return USAGE


def _unknown(words: Sequence[str]) -> str:
    """Return the error for unknown options, without their values: a terminal may be a log, and a value a password."""
    options = [word.partition("=")[0] if word.startswith("--") else word[:2] for word in words if word.startswith("-")]
    hint = "; a password is given by its variable: --password-env NAME" if "--password" in options else ""
    return f"unrecognized arguments: {' '.join(options) or f'{len(words)} more than the command has'}{hint}"


# --- the commands' arguments -----------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser that, with those of its commands, knows no abbreviated options: --password is not --password-env."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, allow_abbrev=False)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    root: argparse.ArgumentParser = _Parser(
        prog="cua-vnc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ours = f"pytest-vnc-use {version('pytest-vnc-use')}"
    root.add_argument("--version", action="version", version=ours, help="print the version")
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    for name, command, about in (
        ("approve", _approve, "carry out the action for which a run waits, and continue"),
        ("deny", _deny, "refuse the action for which a run waits"),
        ("resume", _resume, "continue an interrupted or killed run from its last step"),
    ):
        answer = commands.add_parser(name, help=about, description=about)
        answer.add_argument("run_id", help="name of the run's folder under --runs-dir")
        _add_options(answer, {**PLACE_OPTIONS, **RUN_OPTIONS}, needs_server=not _server_from_outside())
        _add_secret(answer)
        if name != "resume":
            answer.add_argument("--step", type=int, help="answer only if the run waits for this step")
        answer.set_defaults(command=command)
    _add_reenact(commands)
    record.add(commands, partial(_add_options, needs_server=not _server_from_outside()))
    report.add(commands)
    results.add(commands)
    screenshots.add(commands)
    init.add(commands)
    policy.add_to(commands)
    _add_doctor(commands)
    _add_mcp(commands)
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
        help="without a terminal to ask at, let the run wait for `cua-vnc approve` instead of denying",
    )
    _add_options(run, {**PLACE_OPTIONS, **RUN_OPTIONS}, needs_server=not _server_from_outside())
    _add_secret(run)
    run.set_defaults(command=_run)


def _add_secret(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME",
        help="a value that may be typed, as <secret:NAME>: only its name is written; NAME is an environment variable, "
        "or say where the value is: NAME=env:VARIABLE, NAME=file:PATH, NAME=cmd:COMMAND; repeatable",
    )


def _server_from_outside() -> object:
    return environment_layer()[0]["server"]


def _add_options(
    parser: argparse.ArgumentParser,
    options: Mapping[str, str],
    about: Mapping[str, str] = ABOUT,
    *,
    needs_server: bool = True,
) -> None:
    default = Settings()
    for option, field in options.items():
        about_option, value = about.get(field, FIELDS[field].metadata["help"]), getattr(default, field)
        needed = needs_server and field == "server"
        about_option = f"{about_option} (default: {value})" if value else about_option
        parser.add_argument(option, dest=field, required=needed, metavar=field.upper(), help=about_option)


def _add_reenact(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "carry out the actions of an earlier run again, without a model, unchecked"
    reenact = commands.add_parser(
        "reenact",
        help=about,
        description=f"{about[0].upper()}{about[1:]}: in order, each after the screen is quiet, up to the first that "
        "fails. No screen is compared and nothing is judged: `done` says that all were carried out, not that they had "
        "the same effect. Actions that failed in the earlier run are left out. Secrets, <secret:NAME> in the trace, "
        "come from where --secret says.",
    )
    reenact.add_argument("execution", metavar="RUN", help="a run folder, or an action trace (execution.json)")
    _add_options(reenact, {**PLACE_OPTIONS, **REENACT_OPTIONS}, needs_server=not _server_from_outside())
    _add_secret(reenact)
    reenact.set_defaults(command=_reenact)


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="say what works here and what does not",
        description="Say what works here (ok), what is missing (--) with the command that installs it, and what was "
        "asked for and does not work (FAIL). Exit code 1 if a line says FAIL, else 0; 2 for wrong usage.",
    )
    doctor.add_argument("--no-typing", action="store_true", help="press no key on a given desktop")
    _add_options(doctor, DOCTOR_OPTIONS, ABOUT_DOCTOR, needs_server=False)
    doctor.set_defaults(command=_doctor)


def _add_mcp(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    mcp = commands.add_parser(
        "mcp",
        help="serve a coding agent over the Model Context Protocol",
        description="Speak MCP on stdin and stdout until stdin is closed: tools to run a task or the tests, to read "
        "runs and their pictures, and to propose a test.",
    )
    mcp.add_argument(
        "--answer-seconds", default="300", help="how long a person may take to confirm an action (default: 300)"
    )
    _add_options(mcp, {**PLACE_OPTIONS, **RUN_OPTIONS}, needs_server=False)
    _add_secret(mcp)
    mcp.set_defaults(command=_mcp)


# --- the commands ----------------------------------------------------------------------------------------------------


def _settings(arguments: argparse.Namespace) -> Settings:
    given = {field: getattr(arguments, field) for field in (*PLACE_OPTIONS.values(), *RUN_OPTIONS.values())}
    return build.settings_of({**given, "planner": given["planner"] or "gemini"})


def _at_running_desktop(settings: Settings) -> Settings:
    """Return the settings. Raises SettingsError if their server is no address, because this command starts none."""
    if settings.server and not build.is_given(settings):
        raise SettingsError(
            "--vnc must be the address of a desktop that runs already, host::port, host:display, ws://…, wss://… or "
            f"the path of a unix socket, got {settings.server!r}"
        )
    host_and_port(settings.server)
    return settings


def _run(arguments: argparse.Namespace) -> int:
    approver = approver_here()
    ask = approver is not None or arguments.wait_for_approval
    settings, secrets = _at_running_desktop(_settings(arguments)), _secrets(arguments.secret)
    printer = StepPrinter(settings, secrets)
    agent = VncUseAgent(settings=settings, secrets=secrets, hitl_mode=ask, observers=[printer])
    run = partial(agent.run, arguments.task, expect=arguments.expect, approver=approver)
    return drive(agent, run, arguments.expect, printer)


def _secrets(names: Sequence[str]) -> dict[str, str]:
    """Return the secrets that `--secret` names, by name. Raises SettingsError if one cannot be read."""
    return dict(read_secret(name, "--secret", Path.cwd()) for name in names)


def _approve(arguments: argparse.Namespace) -> int:
    given = {"step": arguments.step, "approver": approver_here()}
    return _go_on(arguments, lambda agent, again: agent.approve(arguments.run_id, **given, **again))


def _deny(arguments: argparse.Namespace) -> int:
    return _go_on(arguments, lambda agent, again: agent.deny(arguments.run_id, step=arguments.step, **again))


def _resume(arguments: argparse.Namespace) -> int:
    return _go_on(arguments, lambda agent, again: agent.resume(arguments.run_id, approver=approver_here(), **again))


def _go_on(arguments: argparse.Namespace, advance: Callable[[VncUseAgent, Again], RunResult]) -> int:
    """Continue a run with the settings that are given now: a run folder may be another person's."""
    settings, secrets = _settings(arguments), _secrets(arguments.secret)
    path = path_of(Path(settings.runs_dir), arguments.run_id)
    if not os.path.isdir(path):  # noqa: PTH112  # Path.is_dir may raise
        raise RunFolderError(f"there is no run folder {str(path)!r}; {_not_over(path.parent)}")
    expect, settings = read_trace(path).started.expect, _at_running_desktop(settings)
    printer = StepPrinter(settings, secrets)
    agent = VncUseAgent(settings=settings, secrets=secrets, observers=[printer])
    again = Again(planner=agent.planner if arguments.planner else None)
    return drive(agent, lambda: advance(agent, again), expect, printer)


def _not_over(runs_dir: Path) -> str:
    """Say which runs in the folder are not over, the newest ones: only these have checkpoints."""
    found = sorted(file.parent.name for file in runs_dir.glob("*/checkpoints.sqlite"))[-_MOST_NAMED:]
    names = ", ".join(map(repr, found)) or "none"
    return f"those that wait or were interrupted in {str(runs_dir)!r}: {names}"


def _reenact(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.planners.local.scripted import Reenactment
    from pytest_vnc_use.runs.uitask_trace import read_execution, secrets_of

    given = {field: getattr(arguments, field) for field in (*PLACE_OPTIONS.values(), *REENACT_OPTIONS.values())}
    settings, approver = _at_running_desktop(build.settings_of({**given, "planner": ""})), approver_here()
    execution = read_execution(Path(arguments.execution))
    planner, secrets = Reenactment(execution), secrets_of(execution, _secrets(arguments.secret))
    printer = StepPrinter(settings, secrets)
    agent = VncUseAgent(
        settings=settings,
        planner=planner,
        secrets=secrets,
        hitl_mode=approver is not None,
        observers=[printer],
    )
    run = partial(agent.run, planner.task, limits=planner.limits(settings.seconds), approver=approver)
    return drive(agent, run, (), printer)


def _doctor(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.cli.doctor import diagnose, use_env_file_of_ini

    given = {field: getattr(arguments, field) for field in DOCTOR_OPTIONS.values()}
    given["planner"] = given["planner"] or (given["model"] and "gemini")
    failed = []
    use_env_file_of_ini()
    try:
        for finding in diagnose(build.settings_of(given), typing=not arguments.no_typing):
            print(without_query(plain(str(finding))), flush=True)
            failed += [finding.about] if finding.word == "FAIL" else []
    except KeyboardInterrupt:
        print("interrupted")
        return CTRL_C
    print(f"does not work: {', '.join(failed)}" if failed else "all that was asked for works")
    return DOCTOR_FAILED if failed else 0


def _mcp(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.cli.mcp_server import serve

    fields = (*PLACE_OPTIONS.values(), *RUN_OPTIONS.values())
    given = {field: value for field in fields if (value := getattr(arguments, field)) is not None}
    answer_within_s = read_value("seconds", arguments.answer_seconds, "--answer-seconds")
    serve(_settings(arguments), given, answer_within_s=answer_within_s, secrets=_secrets(arguments.secret))
    return 0
