"""Claims about the screen and their verdicts, and values read off the screen.

A verdict comes from a judge, never from the planner that did the work. If no judge can see the answer, the verdict is
unsure, and unsure does not pass.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import Inconclusive, ModelUnavailable, SettingsError
from pytest_vnc_use.plain_text import cut, plain
from pytest_vnc_use.types import (
    Extracted,
    Frame,
    FrameRef,
    JsonObject,
    Judged,
    Reading,
    Report,
    Usage,
    Verdict,
    VerdictKind,
    error_for_verdicts,
    ignore_report,
)
from pytest_vnc_use.types.actions import TOO_DEEP, is_shallow
from pytest_vnc_use.types.protocols import Controller, Judge, Reader
from pytest_vnc_use.types.verdicts import check_answer, end_state_claim

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent

T = TypeVar("T")

JUDGE_TIMEOUT_S = 60.0
_LATE_S = 2.0


def judge_claim(
    judge: Judge,
    claim: str,
    frame: Frame,
    *,
    votes: int = 1,
    timeout_s: float = JUDGE_TIMEOUT_S,
    report: Report = ignore_report,
) -> Verdict:
    """Return the verdict on a claim about this frame, by a majority of `votes`; unsure if there is none.

    The judge votes one time after the other, and no more once a majority is certain or impossible: of 3 votes 2 are
    often enough. `report` gets each request to a model. The verdict names the frame that was judged: a judge that
    watches the screen may name a later one than it was given. Raises PlannerError if the judge cannot be asked: an
    outage is no verdict; SettingsError if it returns something else than a verdict.
    """
    _vnc_asks = "judge"
    if not claim.strip():
        return Verdict(claim, "unsure", "the claim is empty", frame=frame.ref)

    def ask(left_s: float) -> Verdict:
        return check_answer(judge, judge.judge(claim, frame, timeout_s=left_s, report=report), Verdict)

    deadline = Deadline(timeout_s)
    ballots: list[Verdict] = []
    majority = 0
    while majority <= votes // 2 and majority + votes - len(ballots) > votes // 2:  # a majority may still come
        ballots.append(within(ask, deadline, "judges a claim"))
        kinds = tuple(ballot.kind for ballot in ballots)
        majority = max(map(kinds.count, kinds))
    won = ballots[kinds.index(max(kinds, key=kinds.count))]
    if majority <= votes // 2:
        sides = [kind for kind in get_args(VerdictKind) if kind in kinds]
        counts = ", ".join(f"{kinds.count(side)} {side}" for side in sides)
        reasons = "; ".join(f"{side}: {ballots[kinds.index(side)].reason}" for side in sides)
        won = replace(ballots[0], kind="unsure", reason=f"they split {counts}; {reasons}", region=None)
    usage = sum((ballot.usage for ballot in ballots), Usage())
    return replace(won, claim=claim, votes=kinds, usage=usage, frame=won.frame or frame.ref)


def within(work: Callable[[float], T], deadline: Deadline, what: str) -> T:
    """Return `work(seconds)`; wait until the deadline and a little longer, because foreign code may hang.

    Work that keeps to the seconds raises its own error. Raises ModelUnavailable, with `what` in its message, if the
    work hangs.
    """
    left_s = deadline.remaining_s
    try:
        return Deadline(left_s + _LATE_S).call(lambda: work(left_s))
    except DeadlineExceeded as exc:
        raise ModelUnavailable(f"the model that {what} did not answer within {left_s:g} s") from exc


class NoJudge:
    """The judge of a run without a configured model. It finds every claim unsure."""

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report = ignore_report) -> Verdict:
        """Return unsure, with the advice to configure a model."""
        reason = (
            "no model is configured to judge claims. Set GOOGLE_API_KEY and pass --vnc-planner=gemini, "
            "or check the program's own state in the test's body"
        )
        return Verdict(claim, "unsure", reason, frame=frame.ref)


def answer_question(judge: Judge, question: str, frame: Frame, report: Report) -> str:
    """Return a judge's answer to a planning model's question. It is no verdict of the test.

    A judge that reads values answers in text; any other returns `holds: …`, `fails: …` or `unsure: …`.
    """
    if not isinstance(judge, Reader):
        verdict = judge_claim(judge, question, frame, report=report)
        return f"{verdict.kind}: {verdict.reason}"
    answer = Form.of(str).read(judge, question, frame, timeout_s=JUDGE_TIMEOUT_S, report=report)
    return f"{'unsure' if answer.value is None else answer.value}: {answer.reason}"


def check_asked(claim: object, votes: object, within_s: object = 0.0) -> None:
    """Raise SettingsError for a claim that cannot be judged, before any judge is asked."""
    if not (isinstance(claim, str) and claim.strip()):
        raise SettingsError(f"a claim must be text about the screen, got {claim!r}")
    if not (isinstance(votes, int) and votes > 0 and votes % 2):
        raise SettingsError(f"votes must be an odd number, at least 1, got {votes!r}")
    if not (isinstance(within_s, (int, float)) and 0 <= within_s < math.inf):
        raise SettingsError(f"within_s must be a number of seconds, 0 for now, got {within_s!r}")


_KEPT = frozenset({"type", "enum", "const", "description", "$ref"})
"""Keywords that every service's schemas may have. Other constraints, such as `minimum`, are checked on reading."""
_FORMATS = frozenset({"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_TYPING = frozenset({"type", "enum", "const", "anyOf", "$ref"})


@dataclass(frozen=True)
class Form(Generic[T]):
    """The form that a value must have.

    Its `schema` uses only what every service supports for bound answers, with every field required.
    """

    name: str
    adapter: TypeAdapter[T]
    schema: JsonObject

    @classmethod
    def of(cls, model: type[T]) -> Form[T]:
        """Return the form of a pydantic model, or of any type that pydantic knows. Raises SettingsError for others."""
        name = getattr(model, "__name__", repr(model))
        try:
            adapter = TypeAdapter(model)
            schema = adapter.json_schema()
        except Exception as exc:  # pydantic evaluates annotations, which may raise anything
            reason = (str(exc).splitlines() or [type(exc).__name__])[0]
            raise SettingsError(
                f"extract needs a type with a JSON Schema, such as a pydantic model, got {name!r}: {reason}"
            ) from exc
        return cls(name, adapter, _bindable(schema, name))

    def read(
        self,
        reader: object,
        question: str,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report,
        hide: Callable[[str], str] = str,
    ) -> Reading:
        """Return the reader's answer within the time, fitting or not. Raises PlannerError, Inconclusive.

        `hide` removes secrets from the descriptions in the schema.
        """
        _vnc_asks = "judge"
        if not isinstance(reader, Reader):
            name = type(reader).__name__
            raise Inconclusive(f"no planner can read values: {name} only judges claims. Configure --vnc-judge=gemini")

        def read(left_s: float) -> Reading:
            return reader.read(question, _hidden(self.schema, hide), frame, timeout_s=left_s, report=report)

        reading = check_answer(reader, within(read, Deadline(timeout_s), "reads a value"), Reading)
        if not is_shallow(reading.value):
            raise Inconclusive(f"extract: the value {TOO_DEEP}")
        return reading


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    """Return a schema without secrets in its texts; the names of fields stay."""
    match value:
        case str():
            return hide(value)
        case Mapping():
            return {key: _hidden(item, hide) for key, item in value.items()}
        case list() | tuple():
            return [_hidden(item, hide) for item in value]
        case _:
            return value


def _bindable(schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the schema as strict services need it, without keywords that they reject. Raises SettingsError."""
    if "additionalProperties" in schema and schema["additionalProperties"] is not False:
        raise SettingsError(f"extract needs named fields, but {path} is a dict with any keys. Use a list of models")
    bound: dict[str, Any] = {key: value for key, value in schema.items() if key in _KEPT}
    if schema.get("format") in _FORMATS:
        bound["format"] = schema["format"]
    if "$defs" in schema:
        bound["$defs"] = {name: _bindable(inner, name) for name, inner in schema["$defs"].items()}
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        bound["anyOf"] = [_bindable(choice, path) for choice in choices]
    if schema.get("type") == "array":
        # of a tuple, an item may be any of its members; their number and order are checked on reading
        members = [_bindable(member, path) for member in schema.get("prefixItems", ())]
        bound["items"] = {"anyOf": members} if members else _bindable(schema.get("items", {}), path)
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        bound["properties"] = {name: _bindable(inner, f"{path}.{name}") for name, inner in fields.items()}
        bound |= {"required": list(fields), "additionalProperties": False}
    if not _TYPING.intersection(bound):
        raise SettingsError(f"extract needs a concrete type everywhere, but {path} may be anything")
    return bound


MAX_FRAMES = 8
"""The most kept frames that `saw` judges, newest first."""
CONFIRMING_VOTES = 5
"""The votes that must confirm a claim on a kept frame. Many frames mean many questions, so one wrong answer is likely.
"""


def assess(agent: VncUseAgent, claim: str, *, within_s: float, votes: int | None) -> Verdict:
    """Judge a claim, as `VncUseAgent.assess` says."""
    check_asked(claim, _votes(agent, votes), within_s)
    claim = agent._secrets.declared.hide(claim)
    _conclude_replay(agent)
    verdicts = []
    for frame in frames_within(agent.controller, within_s):
        verdicts.append(_judge_now(agent, claim, frame, votes))
        if verdicts[-1].holds:
            break
    return _remember(agent, verdicts[-1], verdicts, [frame])


def saw(agent: VncUseAgent, claim: str, *, steps: int, votes: int | None) -> Verdict:
    """Judge whether a claim held before, as `VncUseAgent.saw` says."""
    check_asked(claim, _votes(agent, votes))
    claim = agent._secrets.declared.hide(claim)
    if steps < 1:
        raise SettingsError(f"steps must be at least 1, got {steps!r}")
    _conclude_replay(agent)
    frames = list(islice(_kept_frames(agent, steps), MAX_FRAMES))
    verdicts = []
    for frame in frames:
        verdict = _judge_now(agent, claim, frame, votes)
        if verdict.holds and _votes(agent, votes) < CONFIRMING_VOTES:
            confirmed = _judge_now(agent, claim, frame, CONFIRMING_VOTES)
            verdict = replace(confirmed, usage=verdict.usage + confirmed.usage)
        verdicts.append(verdict)
        if verdict.holds:
            break
    decisive = verdicts[-1]
    if not decisive.holds:
        decisive = next((verdict for verdict in verdicts if verdict.kind == "unsure"), verdicts[0])
        where = f"it holds on none of {len(verdicts)} frames" if verdicts[1:] else "it does not hold on the only frame"
        decisive = replace(decisive, reason=f"{where}; {decisive.reason}")
    return held(_remember(agent, decisive, verdicts, frames[: len(verdicts)]))


def verify_end_state(agent: VncUseAgent, task: str, *, votes: int | None) -> Verdict:
    """Judge the end state of a task, as `VncUseAgent.verify_end_state` says."""
    _conclude_replay(agent)
    frame = agent.controller.frame()
    verdict = _judge_now(agent, end_state_claim(agent._secrets.declared.hide(task)), frame, votes)
    return _remember(agent, verdict, [verdict], [frame])


def extract(agent: VncUseAgent, model: type[T], question: str) -> T:
    """Read a value off the screen, as `VncUseAgent.extract` says."""
    form = Form.of(model)
    if not question.strip():
        raise SettingsError(f"`question` must name the value to read, got {question!r}")
    _conclude_replay(agent)
    frame, declared, everything = agent.controller.frame(), agent._secrets.declared, agent._secrets.everything
    reading = form.read(
        agent.judge,
        declared.hide(question),
        frame,
        timeout_s=agent.settings.max_seconds,
        report=agent._emit,
        hide=declared.hide,
    )
    problem = ""
    try:
        value = form.adapter.validate_json(json.dumps(reading.value))
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        problems = [(".".join(map(str, error["loc"])), f"{error['msg']}, got {error['input']!r}") for error in errors]
        problem = cut("; ".join(": ".join(filter(None, path_and_problem)) for path_and_problem in problems))
    reading = replace(reading, reason=cut(reading.reason))
    agent.extracted.append(reading)
    agent._record(Extracted(reading, form.name, problem), [frame])
    if not problem:
        return value
    reading, problem = everything.hide_in(reading), everything.hide(problem)
    if reading.value is None:
        raise Inconclusive(f"extract: no {form.name} is on the screen for {reading.question!r}: {reading.reason}")
    read = cut(json.dumps(reading.value, ensure_ascii=False))
    headline = f"extract: the value is not a valid {form.name}: {problem}"
    raise Inconclusive(f"{headline}\n  read: {read}\n  reason: {reading.reason}")


def _votes(agent: VncUseAgent, votes: int | None) -> int:
    return agent.settings.votes if votes is None else votes


def _conclude_replay(agent: VncUseAgent) -> None:
    """Have a replay watch its end before the screen is captured for a judge."""
    if agent._recorded:
        agent._recorded.conclude()


def _judge_now(agent: VncUseAgent, claim: str, frame: Frame, votes: int | None) -> Verdict:
    votes, timeout_s = _votes(agent, votes), agent.settings.max_seconds
    return judge_claim(agent.judge, claim, frame, votes=votes, timeout_s=timeout_s, report=agent._emit)


def _remember(agent: VncUseAgent, verdict: Verdict, all_of_it: Sequence[Verdict], frames: Sequence[Frame]) -> Verdict:
    usage = sum((ballot.usage for ballot in all_of_it), Usage())
    judged: Verdict = agent._secrets.everything.hide_in(replace(verdict, screens=len(all_of_it), usage=usage))
    judged = replace(judged, reason=cut(judged.reason))  # after hiding: half a secret would not be recognised
    agent.verdicts.append(judged)
    agent._record(Judged(judged), frames)
    return judged


def _kept_frames(agent: VncUseAgent, steps: int) -> Iterator[Frame]:
    """Yield the screen now and the kept frames of the last steps, newest first, each once."""
    transients = agent.controller.transient_frames()
    now = agent.controller.frame()
    yield now
    seen: set[FrameRef] = {now.ref}
    for frame in reversed(transients):
        if frame.ref not in seen:
            seen.add(frame.ref)
            yield frame
    run = agent._newest_run
    for step in reversed(run.frame_steps[-steps:] if run else ()):
        for ref in (step.frame_after, *reversed(step.transient_frames)):
            if run and ref not in seen:
                seen.add(ref)
                yield Frame(ref, run.directory.load_png(ref))


def format_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Return the claim that decides, with the judge's reason, and a line for each claim.

    At least one of the verdicts must not hold.
    """
    failed = [verdict for verdict in verdicts if not verdict.holds]
    decisive = next((verdict for verdict in failed if verdict.kind == "fails"), failed[0])
    count = f"{len(failed)} of {len(verdicts)} claims do not certainly hold: " if len(verdicts) > 1 else ""
    what = "fails" if decisive.kind == "fails" else "is unsure"
    headline = f"{count}claim {plain(decisive.claim)!r} {what}: {plain(decisive.reason)}"
    return "\n  ".join([headline, *(plain(str(verdict)) for verdict in verdicts)])


def format_end_state(verdict: Verdict, task: str) -> str:
    """Return whether the task is done, with the judge's reason, and a line for the judged claim."""
    named = f"the task {plain(task)!r} is"
    what = f"{named} not done" if verdict.kind == "fails" else f"it is unsure whether {named} done"
    return f"{what}: {plain(verdict.reason)}\n  {plain(str(verdict))}"


def held(verdict: Verdict) -> Verdict:
    """Return the verdict if it holds. Raises ProductFailed, Inconclusive."""
    if verdict.holds:
        return verdict
    raise error_for_verdicts([verdict.kind])(format_verdicts([verdict]))


def frames_within(controller: Controller, within_s: float) -> Iterator[Frame]:
    """Yield the screen now, and whenever it has changed and become stable, until the time is up.

    A change during the judge's answer counts too, also if the time is up by then. Raises DesktopError.
    """
    deadline, left_s = Deadline(within_s), within_s
    last: FrameRef | None = None
    while True:
        frame = controller.frame()
        if frame.ref != last:
            yield frame
        if not left_s:
            return
        last, left_s = frame.ref, deadline.remaining_s
        if not controller.wait_changed(frame.taken_at, left_s):
            return
        controller.settle()
