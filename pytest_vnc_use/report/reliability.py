"""The reliability of a test that was run several times: pass^k with its interval, and
where its runs diverge.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import NormalDist

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.plain_text import plain
from pytest_vnc_use.report.results import (
    Divergence,
    DivergentRun,
    ItemResult,
    Reliability,
)
from pytest_vnc_use.runs.directory import Trace, read_trace
from pytest_vnc_use.runs.transcript import step_line
from pytest_vnc_use.types import Step

CONFIDENCE = 0.95
NEAR_PX = 24
"""Two points at most this far apart count as the same point, as a button is rarely
smaller.
"""
_COORDINATES = frozenset({"x", "y", "to_x", "to_y"})
REPETITION = re.compile(r"([-\[])(run\d+)\]$")
"""The suffix of a test's id that names its repetition: `test_x[run2]`,
`test_x[apples-run2]`.
"""
_WORD = re.compile(r"\w{3,}")


def reliabilities(tests: Sequence[ItemResult], repeat: int) -> tuple[Reliability, ...]:
    """Return the reliability of each repeated test, in the order of its first
    repetition, without skipped ones.

    Return none without `repeat`: a similar id then comes from a parameter of the test.
    """
    if repeat <= 1:
        return ()
    groups = defaultdict[str, list[ItemResult]](list)
    for test in tests:
        if REPETITION.search(test.test) and test.result != "skipped":
            groups[base_of(test.test)].append(test)
    return tuple(_reliability(name, group) for name, group in groups.items())


def _reliability(name: str, repetitions: Sequence[ItemResult]) -> Reliability:
    k = len(repetitions)
    passed = sum(map(_is_pass, repetitions))
    low, high = wilson_interval(passed, k)
    return Reliability(
        test=name,
        repeated=k,
        passed=passed,
        rate=passed / k,
        rate_low=low,
        rate_high=high,
        pass_k=(passed / k) ** k,
        pass_k_low=low**k,
        pass_k_high=high**k,
        divergence=_first_divergence(repetitions),
    )


def base_of(nodeid: str) -> str:
    """Return the id of the test without its repetition."""
    return REPETITION.sub(lambda match: "]" if match[1] == "-" else "", nodeid)


def repetition_of(nodeid: str) -> str:
    """Return the repetition in a test's id, such as `run2`."""
    match = REPETITION.search(nodeid)
    return match[2] if match else nodeid


def _is_pass(test: ItemResult) -> bool:
    """Return whether it passed at the first attempt: a run that passes only at a later
    attempt is not reliable.
    """
    return test.result == "passed" and not test.retried_for


def wilson_interval(
    passed: int, repeated: int, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the bounds of the true rate, by Wilson's score; also good for few
    repetitions, and if none or all pass.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = passed / repeated
    share = z * z / repeated
    middle = rate + share / 2
    spread = z * math.sqrt(rate * (1 - rate) / repeated + share / (4 * repeated))
    low = max(0.0, (middle - spread) / (1 + share))
    high = min(1.0, (middle + spread) / (1 + share))
    if passed == 0:
        low = 0.0
    if passed == repeated:
        high = 1.0
    return low, high


def _first_divergence(tests: Sequence[ItemResult]) -> Divergence | None:
    """Return the earliest divergence from the first repetition; one between a passed
    and a failed run comes first.
    """
    traced: list[tuple[ItemResult, Trace]] = []
    for test in tests:
        with suppress(RunDirectoryError):  # it cannot be read here
            if test.runs:
                traced.append((test, read_trace(Path(test.runs[0].directory))))
    if not traced:
        return None
    first, first_trace = traced[0]
    same_result: list[Divergence] = []
    other_result: list[Divergence] = []
    for test, trace in traced[1:]:
        number = _first_other_step(first_trace.steps, trace.steps)
        if number is None:
            continue
        sides = _side(first, first_trace, number), _side(test, trace, number)
        about = sentence_about(first_trace.started.task, *(side.text for side in sides))
        divergence = Divergence(number, sides, about)
        if _is_pass(test) == _is_pass(first):
            same_result.append(divergence)
        else:
            other_result.append(divergence)
    divergences = other_result or same_result
    return min(divergences, key=lambda divergence: divergence.step, default=None)


def _first_other_step(one: Sequence[Step], other: Sequence[Step]) -> int | None:
    """Return the number of the first step that differs; None if all are the same."""
    for number, (step, other_step) in enumerate(zip(one, other, strict=False), start=1):
        if not same_step(step, other_step):
            return number
    if len(one) != len(other):
        return min(len(one), len(other)) + 1
    return None


def _side(test: ItemResult, trace: Trace, number: int) -> DivergentRun:
    directory = str(trace.path)
    if number > len(trace.steps):
        message = trace.ended.message if trace.ended else "the run was not finished"
        last = trace.steps[-1].frame_after if trace.steps else trace.started.screen
        return DivergentRun(
            test.test, directory, f"ended: {plain(message)}", message, last
        )
    step = trace.steps[number - 1]
    return DivergentRun(
        test.test,
        directory,
        step_line(step),
        f"{step.proposal.intent} {step.text}",
        step.frame_before,
    )


def same_step(one: Step, other: Step) -> bool:
    """Return whether two steps match: one kind of action, at the same point, with the
    same text and keys.
    """
    action = one.proposal.action
    other_action = other.proposal.action
    if type(action) is not type(other_action):
        return False
    for name, value in vars(action).items():
        other_value = getattr(other_action, name)
        is_same = value == other_value
        # the point of a text to type may be None
        are_numbers = isinstance(value, int) and isinstance(other_value, int)
        if name in _COORDINATES and are_numbers:
            is_same = abs(value - other_value) <= NEAR_PX
        if not is_same:
            return False
    return True


def sentence_about(task: str, *texts: str) -> str:
    """Return the sentence or clause of the task that shares most words with `texts`; ""
    if none does.

    Longer words count more.
    """
    terms = {*_WORD.findall(" ".join(texts).lower())}
    best = ""
    best_score = 0
    for part in re.split(r"[.;!?\n]+\s*|,\s+|\s+and\s+", task):
        shared = terms.intersection(_WORD.findall(part.lower()))
        score = sum(map(len, shared))
        if score > best_score:
            best = part.strip()
            best_score = score
    return best


def reliability_lines(reliability: Reliability) -> Iterator[str]:
    """Yield lines for a terminal: how often the test passed, and where two of its runs
    diverge.
    """
    yield f"{reliability.test}: {reliability.meaning}"
    if divergence := reliability.divergence:
        about = f", probably in {divergence.sentence!r}" if divergence.sentence else ""
        yield f"  its runs part at step {divergence.step}{about}:"
        for side in divergence.sides:
            yield f"    {repetition_of(side.test)}: {side.action.splitlines()[0]}"
            yield f"      in {side.directory}"


def reliability_rows(
    reliabilities: Sequence[Reliability], page_of: Callable[[str], str]
) -> list[tuple[Reliability, list[tuple[str, str]]]]:
    """Return each repeated test with the two repetitions that diverge, each with the
    address of that step.

    `page_of` makes the address of a run's page from the run's directory; without one
    the address is "".
    """
    rows = []
    for reliability in reliabilities:
        sides = []
        if divergence := reliability.divergence:
            for side in divergence.sides:
                page = page_of(side.directory)
                if page:
                    page += "-" if page.startswith("#") else "#"
                    page += f"step-{divergence.step}"
                sides.append((repetition_of(side.test), page))
        rows.append((reliability, sides))
    return rows
