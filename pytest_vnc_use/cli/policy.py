"""`cua-vnc policy`: check a policy file, or try it on recorded runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_vnc_use.report.sessions import find_runs
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.safety.policy_file import explain, load_policy
from pytest_vnc_use.safety.rules import Policy, ReviewContext, combination, keys_of
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types import Step

MAX_KEYS = 20
"""The most combinations of keys that are listed for one step."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's arguments to the parser."""
    policy = commands.add_parser("policy", help="Check a policy file, or test it on recorded runs")
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
    steps = list(replay_rulings(load_policy(arguments.file), find_runs(map(Path, arguments.run))))
    for text, _ in steps:
        print(sanitize(text, hide=str))
    print(f"{sum(differs for _, differs in steps)} of {len(steps)} steps get another ruling than they had")
    return 0


def replay_rulings(policy: Policy, runs: Iterable[Path]) -> Iterator[tuple[str, bool]]:
    """Yield a line for each step of recorded runs, and for the step that waits, and whether its ruling differs now.

    A user's answer in the recorded run is equal to asking now. Raises RunDirectoryError where a directory cannot be
    read.
    """
    for run in runs:
        trace = read_trace(run)
        context = ReviewContext(trace.started.test_id, trace.started.task)
        for step in (*trace.steps, *([trace.open_approval] if trace.open_approval else ())):
            now, then, action = policy.review(step.proposal, context), step.ruling, step.proposal.action
            differs = now.kind != ("ask" if then.by == "user" else then.kind)
            keys = [combination(pressed) for pressed in keys_of(action, context.held)]
            more = f" and {len(keys) - MAX_KEYS} more" if len(keys) > MAX_KEYS else ""
            pressing = f" pressing {', '.join(keys[:MAX_KEYS])}{more}" if keys else ""
            was = f"   <-- was {then.kind} ({then.rule})" if differs else ""
            intent = f" {step.proposal.intent!r}" if step.proposal.intent else ""
            text = f"{run.name} step {step.number} {action.kind}{intent}{pressing}"
            yield f"{text}: {now.kind} ({now.rule}){was}", differs
            if isinstance(step, Step):
                context = replace(context.after(step), page_url=partial(str, step.url))
