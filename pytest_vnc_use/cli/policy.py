"""`cua-vnc policy`: check a policy file, or try it on recorded runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_vnc_use.cli import Commands
from pytest_vnc_use.report.sessions import find_runs
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.safety.policy_file import explain, load_policy
from pytest_vnc_use.safety.rules import Policy, ReviewContext, combination, keys_of
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types import ApprovalRequest, Step
from pytest_vnc_use.types.values import fill

MAX_KEYS = 20
"""The maximum combinations of keys that are listed for one step."""


def add(commands: Commands) -> None:
    """Add the command's arguments to the parser."""
    policy = commands.add_parser(
        "policy", help="Check a policy file, or test it on recorded runs"
    )
    kinds = policy.add_subparsers(required=True, metavar="check|test")
    check = kinds.add_parser("check", help="Explain a policy file")
    check.add_argument("file", help="Policy file, or strict")
    check.set_defaults(command=_check)
    test = kinds.add_parser("test", help="Print a policy's rulings on recorded steps")
    test.add_argument("file", help="Policy file, or strict")
    test.add_argument("run", nargs="+", help="Run directory, or a directory of them")
    test.set_defaults(command=_test)


def _check(arguments: argparse.Namespace) -> int:
    print(sanitize(explain(load_policy(arguments.file)), hide=str))
    return 0


def _test(arguments: argparse.Namespace) -> int:
    policy = load_policy(arguments.file)
    steps: list[tuple[str, bool]] = []
    for run in find_runs(map(Path, arguments.run)):
        steps += replay_rulings(policy, run)
    for text, _ in steps:
        print(sanitize(text, hide=str))
    changed = sum(differs for _, differs in steps)
    print(f"{changed} of {len(steps)} steps get another ruling than they had")
    return 0


def replay_rulings(policy: Policy, run: Path) -> Iterator[tuple[str, bool]]:
    """Yield a line for each step of a recorded run, and for the step that waits, and
    whether its ruling differs now.

    A step that a user approved or denied was one to ask about. Raises RunDirectoryError
    if the directory cannot be read.
    """
    trace = read_trace(run)
    started = trace.started
    context = ReviewContext(started.test_id, fill(started.task, started.values))
    steps: list[Step | ApprovalRequest] = [*trace.steps]
    if trace.open_approval:
        steps.append(trace.open_approval)
    for step in steps:
        action = step.proposal.action
        text = f"{run.name} step {step.number} {action.kind}"
        if step.proposal.intent:
            text += f" {step.proposal.intent!r}"
        keys = [combination(pressed) for pressed in keys_of(action, context.held)]
        if keys:
            text += f" pressing {', '.join(keys[:MAX_KEYS])}"
        if keys[MAX_KEYS:]:
            text += f" and {len(keys) - MAX_KEYS} more"
        now = policy.review(step.proposal, context)
        text += f": {now.kind} ({now.rule})"
        then = step.ruling
        kind_then = "ask" if then.by == "user" else then.kind
        differs = now.kind != kind_then
        if differs:
            text += f"   <-- was {then.kind} ({then.rule})"
        yield text, differs
        if isinstance(step, Step):
            context = replace(context.after(step), page_url=partial(str, step.url))
