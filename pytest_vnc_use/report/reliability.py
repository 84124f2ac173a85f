"""The reliability of a test that was run several times: pass^k with its interval, and
where its runs diverge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import NormalDist

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.report.results import (
    Divergence,
    DivergentRun,
    ItemResult,
    Reliability,
)
from pytest_vnc_use.runs.directory import Trace, read_trace
from pytest_vnc_use.runs.transcript import plain, step_line
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
    groups: dict[str, list[ItemResult]] = {}
    for test in tests if repeat > 1 else ():
        if REPETITION.search(test.test) and test.result != "skipped":
            groups.setdefault(base_of(test.test), []).append(test)
    results = []
    for name, group in groups.items():
        k, passed = len(group), sum(map(_is_pass, group))
        low, high = wilson_interval(passed, k)
        powers = (passed / k) ** k, low**k, high**k
        results.append(
            Reliability(
                name,
                k,
                passed,
                passed / k,
                low,
                high,
                *powers,
                _first_divergence(group),
            )
        )
    return tuple(results)


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
    rate, share = passed / repeated, z * z / repeated
    middle = rate + share / 2
    spread = z * math.sqrt(rate * (1 - rate) / repeated + share / (4 * repeated))
    low, high = ((middle + sign * spread) / (1 + share) for sign in (-1, 1))
    return max(0.0, low) if passed else 0.0, (
        min(1.0, high) if passed < repeated else 1.0
    )


def _first_divergence(tests: Sequence[ItemResult]) -> Divergence | None:
    """Return the earliest divergence from the first repetition; one between a passed
    and a failed run comes first.
    """
    traced = []
    for test in tests:
        with suppress(RunDirectoryError):  # it cannot be read here
            if test.runs:
                traced.append((test, read_trace(Path(test.runs[0].directory))))
    parted = [
        (_is_pass(traced[0][0]) == _is_pass(other[0]), _divergence_of(traced[0], other))
        for other in traced[1:]
    ]
    candidates = [
        (alike, divergence.step, divergence)
        for alike, divergence in parted
        if divergence
    ]
    return (
        min(candidates, key=lambda candidate: candidate[:2])[2] if candidates else None
    )


def _divergence_of(
    one: tuple[ItemResult, Trace], other: tuple[ItemResult, Trace]
) -> Divergence | None:
    steps = one[1].steps, other[1].steps
    number = next(
        (
            at
            for at, pair in enumerate(zip(*steps, strict=False), start=1)
            if not same_step(*pair)
        ),
        None,
    )
    if number is None and len(steps[0]) != len(steps[1]):
        number = min(map(len, steps)) + 1
    if number is None:
        return None
    sides = _side(*one, number), _side(*other, number)
    return Divergence(
        number, sides, sentence_about(one[1].started.task, sides[0].text, sides[1].text)
    )


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
    action, second = one.proposal.action, other.proposal.action
    if type(action) is not type(second):
        return False
    for name, value in vars(action).items():
        other_value = getattr(second, name)
        is_coordinate = (
            name in _COORDINATES
            and isinstance(value, int)
            and isinstance(other_value, int)
        )
        if value != other_value and not (
            is_coordinate and abs(value - other_value) <= NEAR_PX
        ):
            return False
    return True


def sentence_about(task: str, *texts: str) -> str:
    """Return the sentence or clause of the task that shares most words with `texts`; ""
    if none does.

    Longer words count more.
    """
    terms = {*_WORD.findall(" ".join(texts).lower())}
    sentences = [
        sentence.strip()
        for sentence in re.split(r"[.;!?\n]+\s*|,\s+|\s+and\s+", task)
        if sentence.strip()
    ]
    shared = [
        sum(map(len, terms.intersection(_WORD.findall(sentence.lower()))))
        for sentence in sentences
    ]
    return sentences[shared.index(max(shared))] if any(shared) else ""


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
                anchor = f"{'-' if page.startswith('#') else '#'}step-{divergence.step}"
                sides.append((repetition_of(side.test), page and page + anchor))
        rows.append((reliability, sides))
    return rows
