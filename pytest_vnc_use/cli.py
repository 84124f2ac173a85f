"""`cua-vnc`: run a task without pytest, answer a run that waits, resume one, read policy files, and look what works.

`cua-vnc record` writes a test of what a person shows in a VNC viewer. `cua-vnc mcp` gives a coding agent all but that,
over the Model Context Protocol.

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
resume go on with the settings and the claims that the run was started with.

Exit codes of doctor: 0 where all works that was asked for, 1 where something does not (a line of it begins with FAIL),
2 and 130 as above. What is missing and was not asked for (`--`) is no failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pytest_vnc_use import assembly, faults, record_command
from pytest_vnc_use.agent import VncUseAgent
from pytest_vnc_use.errors import InfraError, VncUseError
from pytest_vnc_use.failure import harmless
from pytest_vnc_use.ports import Approver
from pytest_vnc_use.settings import FIELDS, Settings, environment_layer, read_value
from pytest_vnc_use.trace import read_trace
from pytest_vnc_use.transcript import plain, step_line
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
PLACE_OPTIONS = {
    "--vnc": "server",
    "--password-env": "password_env",
    "--exec": "exec",
    "--cdp": "cdp",
    "--runs-dir": "runs_dir",
}
"""Options of all commands that drive a desktop, and the settings they give."""
ABOUT = {
    "server": "the VNC desktop: host::port, host:display or a unix socket",
    "planner": "who decides what to do: gemini (the default), anthropic or openai (asks the model, costs money), or "
    "package.module:name, a callable of your own",
}
"""Where a command differs from pytest's option."""
ABOUT_ANSWERS = {"server": f"{ABOUT['server']} (where the run was, or else VNC_USE_SERVER)"}
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
"""Options of `run` alone: the others go on with what the run was started with."""
REENACT_OPTIONS = {"--policy": "policy", "--seconds": "seconds"}
DOCTOR_OPTIONS = {"--vnc": "server", "--password-env": "password_env", "--planner": "planner", "--model": "model"}
ABOUT_DOCTOR = {
    "server": f"{ABOUT['server']}; or xvnc, qt, container:IMAGE (without it a desktop is started on TigerVNC)",
    "planner": "who decides what to do: gemini; with it, or with --model, it fails that there is no key",
    "model": "the model to look for",
}
CLAIM_FAILED, DOCTOR_FAILED, USAGE, INFRA, DEFECT, CTRL_C = 1, 1, 2, 9, 70, 130


class TerminalApprover:
    """Asks the person at the terminal."""

    def approve(self, asked: ApprovalAsked) -> bool:
        confirmation = asked.proposal.confirmation
        print(f"step {asked.number} wants to be confirmed: {plain(str(asked.proposal.action))}")
        print(f"  the model says: {plain(confirmation.explanation if confirmation else asked.proposal.intent)}")
        print(f"  ruled by: {plain(asked.ruling.rule)}")
        try:
            return input("carry it out? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:  # Ctrl-D
            return False


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
    except VncUseError as exc:
        print(harmless(f"error: {exc}", hide=str), file=sys.stderr)
        return USAGE


def _drive(agent: VncUseAgent, run: Callable[[], RunResult], claims: Sequence[str]) -> int:
    """Run, judge, and print what it came to; the outcome and the run folder last, whatever happened."""
    try:
        with agent:
            return _conclude(agent, run(), claims)
    except InfraError as exc:
        return _broken(agent, "infra", f"infra: {type(exc).__name__}: {exc}", INFRA)
    except KeyboardInterrupt:
        return _broken(agent, "interrupted", "`cua-vnc resume` goes on with the run", CTRL_C)
    except VncUseError:
        raise
    except Exception as exc:  # noqa: BLE001  # a defect must not exit with the code of a claim that fails
        if told := faults.told_of_users(exc):
            return _broken(agent, "infra", f"infra: {told}", INFRA)
        return _broken(agent, "defect", f"{type(exc).__name__}: {exc}; please report it with the run folder", DEFECT)


def _broken(agent: VncUseAgent, word: str, message: str, code: int) -> int:
    print(harmless(message, hide=str), file=sys.stderr)
    print(word, *agent.runs[-1:])
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
        _add_options(answer, PLACE_OPTIONS, ABOUT_ANSWERS, needs_server=False)
        if name != "resume":
            answer.add_argument("--step", type=int, help="answer only if it is this step that the run waits with")
        answer.set_defaults(command=command)
    _add_reenact(commands)
    record_command.add(commands, partial(_add_options, needs_server=not _server_from_outside()))
    _add_policy(commands)
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
        help="where no terminal is there to ask at, let the run wait for `cua-vnc approve` instead of denying",
    )
    _add_options(run, {**PLACE_OPTIONS, **RUN_OPTIONS}, needs_server=not _server_from_outside())
    run.set_defaults(command=_run)


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
        shown, value = about.get(field, FIELDS[field].metadata["help"]), getattr(default, field)
        needed = needs_server and field == "server"
        shown = f"{shown} (default: {value})" if value else shown
        parser.add_argument(option, dest=field, required=needed, metavar=field.upper(), help=shown)


def _add_reenact(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "carry out the actions of an earlier run again, without a model, unchecked"
    reenact = commands.add_parser(
        "reenact",
        help=about,
        description=f"{about[0].upper()}{about[1:]}: in order, each after the screen is quiet, up to the first that "
        "fails. No screen is compared and nothing is judged: `done` says that all were carried out, not that they did "
        "what they did then. What failed then is left out. Secrets come from the environment variables whose names "
        "stand in the trace as <secret:NAME>.",
    )
    reenact.add_argument("execution", metavar="RUN", help="a run folder, or an action trace (execution.json)")
    _add_options(reenact, {**PLACE_OPTIONS, **REENACT_OPTIONS}, needs_server=not _server_from_outside())
    reenact.set_defaults(command=_reenact)


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


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="say what works here and what does not",
        description="Say what works here (ok), what is missing (--) with the command that installs it, and what was "
        "asked for and does not work (FAIL). Exit code 1 where a line says FAIL, else 0; 2 for wrong usage.",
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
    mcp.set_defaults(command=_mcp)


# --- the commands ----------------------------------------------------------------------------------------------------


def _settings(arguments: argparse.Namespace) -> Settings:
    given = {field: getattr(arguments, field) for field in (*PLACE_OPTIONS.values(), *RUN_OPTIONS.values())}
    return assembly.settings_of({**given, "planner": given["planner"] or "gemini"})


def _approver() -> Approver | None:
    """The person at the terminal, where there is a terminal."""
    return TerminalApprover() if sys.stdin is not None and sys.stdin.isatty() else None


def _run(arguments: argparse.Namespace) -> int:
    approver = _approver()
    ask = approver is not None or arguments.wait_for_approval
    agent = VncUseAgent(settings=_settings(arguments), hitl_mode=ask, observers=[StepPrinter()])
    run = partial(agent.run, arguments.task, expect=arguments.expect, approver=approver)
    return _drive(agent, run, arguments.expect)


def _approve(arguments: argparse.Namespace) -> int:
    return _go_on(arguments, lambda agent: agent.approve(arguments.run_id, step=arguments.step, approver=_approver()))


def _deny(arguments: argparse.Namespace) -> int:
    return _go_on(arguments, lambda agent: agent.deny(arguments.run_id, step=arguments.step))


def _resume(arguments: argparse.Namespace) -> int:
    return _go_on(arguments, lambda agent: agent.resume(arguments.run_id, approver=_approver()))


def _go_on(arguments: argparse.Namespace, advance: Callable[[VncUseAgent], RunResult]) -> int:
    """Go on with a run as it was started, on the desktop that is given now, or else on the one that it was on."""
    place = {field: getattr(arguments, field) for field in PLACE_OPTIONS.values()}
    started = read_trace(Path(assembly.settings_of(place).runs_dir, arguments.run_id)).started
    place = {field: value for field, value in place.items() if value is not None}
    known = {**started.settings, "server": started.server or None, **place}
    agent = VncUseAgent(settings=assembly.settings_of(known), observers=[StepPrinter()])
    return _drive(agent, lambda: advance(agent), started.expect)


def _reenact(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.execution import read_execution, secrets_of
    from pytest_vnc_use.planners.reenactment import Reenactment

    given = {field: getattr(arguments, field) for field in (*PLACE_OPTIONS.values(), *REENACT_OPTIONS.values())}
    settings, approver = assembly.settings_of({**given, "planner": ""}), _approver()
    execution = read_execution(Path(arguments.execution))
    planner, secrets = Reenactment(execution), secrets_of(execution)
    if secrets:
        print(f"typed from the environment: {', '.join(secrets)}")
    agent = VncUseAgent(
        settings=settings,
        planner=planner,
        secrets=secrets,
        hitl_mode=approver is not None,
        observers=[StepPrinter()],
    )
    run = partial(agent.run, planner.task, limits=planner.limits(settings.seconds), approver=approver)
    return _drive(agent, run, ())


def _conclude(agent: VncUseAgent, result: RunResult, claims: Sequence[str]) -> int:
    """Judge the claims of a run that is done, and print what it came to."""
    verdicts = [agent.verify(claim) for claim in claims] if result.outcome is Outcome.DONE else []
    for verdict in verdicts:
        print(plain(str(verdict)))
    if result.message:
        print(plain(result.message))
    if result.outcome is Outcome.WAITING:
        step = len(result.steps) + 1
        print(f"nobody to ask here: `cua-vnc approve {result.run_id} --step {step}` or `deny` answers it")
    print(f"{result.outcome} {result.run_folder}")
    return EXIT_CODES[result.outcome] if all(verdict.holds for verdict in verdicts) else CLAIM_FAILED


def _policy_check(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.policy import explain, load_policy

    print(explain(load_policy(arguments.file)))
    return 0


def _policy_test(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.policy import load_policy, replay_rulings

    print(replay_rulings(load_policy(arguments.file), [Path(run) for run in arguments.run]))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.doctor import diagnose

    given = {field: getattr(arguments, field) for field in DOCTOR_OPTIONS.values()}
    given["planner"] = given["planner"] or (given["model"] and "gemini")
    failed = []
    try:
        for finding in diagnose(assembly.settings_of(given), typing=not arguments.no_typing):
            print(plain(str(finding)), flush=True)
            failed += [finding.about] if finding.word == "FAIL" else []
    except KeyboardInterrupt:
        print("interrupted")
        return CTRL_C
    print(f"does not work: {', '.join(failed)}" if failed else "all that was asked for works")
    return DOCTOR_FAILED if failed else 0


def _mcp(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.mcp_server import serve

    fields = (*PLACE_OPTIONS.values(), *RUN_OPTIONS.values())
    given = {field: value for field in fields if (value := getattr(arguments, field)) is not None}
    answer_within_s = read_value("seconds", arguments.answer_seconds, "--answer-seconds")
    serve(_settings(arguments), given, answer_within_s=answer_within_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
