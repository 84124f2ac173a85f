"""`cua-vnc policy`: check a policy file, or try it on recorded runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_vnc_use.triage.failure_text import sanitize


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's arguments to the parser."""
    policy = commands.add_parser("policy", help="check a policy file, or try it on recorded runs")
    kinds = policy.add_subparsers(required=True, metavar="check|test")
    check = kinds.add_parser("check", help="explain a policy file")
    check.add_argument("file", help="policy file, or strict")
    check.set_defaults(command=_check)
    test = kinds.add_parser("test", help="say what a policy file would have ruled on recorded steps")
    test.add_argument("file", help="policy file, or strict")
    test.add_argument("run", nargs="+", help="run folder")
    test.set_defaults(command=_test)


def _check(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.safety.policy_file import explain, load_policy

    print(sanitize(explain(load_policy(arguments.file)), hide=str))
    return 0


def _test(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.cli.policy_replay import replay_rulings
    from pytest_vnc_use.safety.policy_file import load_policy

    rulings = replay_rulings(load_policy(arguments.file), [Path(run) for run in arguments.run])
    print(sanitize(rulings, hide=str))
    return 0
