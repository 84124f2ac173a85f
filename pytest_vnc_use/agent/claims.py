"""Claims about the screen and their verdicts, and values read off the screen.

A verdict comes from a judge, never from the planner that did the work. If no judge can
see the answer, the verdict is unsure, and unsure does not pass.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from pytest_vnc_use.agent.session import Session
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import (
    Inconclusive,
    ModelUnavailable,
    SettingsError,
    causes,
)
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
from pytest_vnc_use.types.values import fill
from pytest_vnc_use.types.verdicts import asked_of, check_answer, end_state_claim

T = TypeVar("T")

JUDGE_TIMEOUT_S = 60.0
_LATE_S = 2.0


@contextmanager
def _releasing_on_error(*frames: Frame) -> Iterator[None]:
    """Release frames on an error, which others may keep, and thereby the frames."""
    try:
        yield
    except BaseException:
        for frame in frames:
            frame.release()
        raise


def judge_claim(
    judge: Judge,
    claim: str,
    frame: Frame,
    *,
    votes: int = 1,
    timeout_s: float = JUDGE_TIMEOUT_S,
    report: Report = ignore_report,
) -> Verdict:
    """Return the verdict on a claim about this frame, by a majority of `votes`; unsure
    if there is none.

    The judge votes one time after the other, and no more once a majority is certain or
    impossible: of 3 votes 2 are often enough. `report` gets each request to a model.
    The verdict names the frame that was judged: a judge that watches the screen may
    name a later one than it was given. Raises PlannerError if the judge cannot be
    asked: an outage is no verdict; SettingsError if it returns something else than a
    verdict.
    """
    if not claim.strip():
        return Verdict(
            claim,
            "unsure",
            "the claim is empty",
            frame=frame.ref,
        )

    def ask(left_s: float) -> Verdict:
        with causes.users_errors("judge", judge):
            answer = judge.judge(
                claim,
                frame,
                timeout_s=left_s,
                report=report,
            )
        return check_answer(judge, answer, Verdict)

    deadline = Deadline(timeout_s)
    needed = votes // 2 + 1
    ballots: list[Verdict] = []
    leading = 0
    while leading < needed <= leading + votes - len(ballots):
        ballots.append(within(ask, deadline, "judges a claim"))
        kinds = tuple(ballot.kind for ballot in ballots)
        leading = max(kinds.count(kind) for kind in kinds)
    winner = max(kinds, key=kinds.count)
    decisive = ballots[kinds.index(winner)]
    if leading < needed:
        decisive = _split(ballots)
    return replace(
        decisive,
        claim=claim,
        votes=kinds,
        usage=_usage_of(ballots),
        frame=decisive.frame or frame.ref,
    )


def _split(ballots: Sequence[Verdict]) -> Verdict:
    """Return the verdict if no kind has a majority."""
    kinds = [ballot.kind for ballot in ballots]
    sides = [kind for kind in get_args(VerdictKind) if kind in kinds]
    counts = ", ".join(f"{kinds.count(side)} {side}" for side in sides)
    firsts = [ballots[kinds.index(side)] for side in sides]
    reasons = "; ".join(f"{first.kind}: {first.reason}" for first in firsts)
    return replace(
        ballots[0],
        kind="unsure",
        reason=f"they split {counts}; {reasons}",
        region=None,
    )


def _usage_of(verdicts: Sequence[Verdict]) -> Usage:
    return sum((verdict.usage for verdict in verdicts), Usage())


def within(
    work: Callable[[float], T],
    deadline: Deadline,
    what: str,
) -> T:
    """Return `work(seconds)`; wait until the deadline and a little longer, because
    foreign code may hang.

    Work that keeps to the seconds raises its own error. Raises ModelUnavailable, with
    `what` in its message, if the work hangs.
    """
    left_s = deadline.remaining_s
    try:
        return Deadline(left_s + _LATE_S).call(lambda: work(left_s))
    except DeadlineExceeded as exc:
        raise ModelUnavailable(
            f"the model that {what} did not answer within {left_s:g} s"
        ) from exc


def answer_question(
    judge: Judge,
    question: str,
    frame: Frame,
    report: Report,
) -> str:
    """Return a judge's answer to a planning model's question. It is no verdict of the
    test.

    A judge that reads values answers in text; any other returns `holds: …`, `fails: …`
    or `unsure: …`.
    """
    with _releasing_on_error(frame):
        if not isinstance(judge, Reader):
            verdict = judge_claim(
                judge,
                question,
                frame,
                report=report,
            )
            return f"{verdict.kind}: {verdict.reason}"
        answer = Form.of(str).read(
            judge,
            question,
            frame,
            timeout_s=JUDGE_TIMEOUT_S,
            report=report,
        )
        value = "unsure" if answer.value is None else answer.value
        return f"{value}: {answer.reason}"


def check_asked(
    claim: object,
    votes: object,
    within_s: object = 0.0,
) -> None:
    """Raise SettingsError for a claim that cannot be judged, before any judge is
    asked.
    """
    if not (isinstance(claim, str) and claim.strip()):
        raise SettingsError(f"a claim must be text about the screen, got {claim!r}")
    if not (isinstance(votes, int) and votes > 0 and votes % 2):
        raise SettingsError(f"votes must be an odd number, at least 1, got {votes!r}")
    if not (isinstance(within_s, (int, float)) and 0 <= within_s < math.inf):
        raise SettingsError(
            f"within_s must be a number of seconds, 0 for now, got {within_s!r}"
        )


_KEPT = frozenset({"type", "enum", "const", "description", "$ref"})
"""Keywords that every service's schemas may have. Other constraints, such as `minimum`,
are checked on reading.
"""
_FORMATS = frozenset(
    {
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
    }
)
_TYPING = frozenset({"type", "enum", "const", "anyOf", "$ref"})


@dataclass(frozen=True)
class Form(Generic[T]):
    """The form that a value must have.

    Its `schema` uses only what every service supports for bound answers, with every
    field required.
    """

    name: str
    adapter: TypeAdapter[T]
    schema: JsonObject

    @classmethod
    def of(cls, model: type[T]) -> Form[T]:
        """Return the form of a pydantic model, or of any type that pydantic knows.
        Raises SettingsError for others.
        """
        name = getattr(model, "__name__", repr(model))
        try:
            adapter = TypeAdapter(model)
            schema = adapter.json_schema()
        except Exception as exc:
            # pydantic evaluates annotations, which may raise anything
            reason = (str(exc).splitlines() or [type(exc).__name__])[0]
            raise SettingsError(
                "extract needs a type with a JSON Schema, such as a pydantic model,"
                f" got {name!r}: {reason}"
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
        """Return the reader's answer within the time, fitting or not. Raises
        PlannerError, Inconclusive.

        `hide` removes secrets from the descriptions in the schema.
        """
        if not isinstance(reader, Reader):
            name = type(reader).__name__
            raise Inconclusive(
                f"no planner can read values: {name} only judges claims. Configure"
                " --vnc-judge=gemini"
            )

        def read(left_s: float) -> Reading:
            schema = _hidden(self.schema, hide)
            with causes.users_errors("judge", reader):
                return reader.read(
                    question,
                    schema,
                    frame,
                    timeout_s=left_s,
                    report=report,
                )

        answer = within(read, Deadline(timeout_s), "reads a value")
        reading = check_answer(reader, answer, Reading)
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
    """Return the schema as strict services need it, without keywords that they reject.
    Raises SettingsError.
    """
    if schema.get("additionalProperties", False) is not False:
        raise SettingsError(
            f"extract needs named fields, but {path} is a dict with any keys. Use a"
            " list of models"
        )
    bound: dict[str, Any] = {
        key: value for key, value in schema.items() if key in _KEPT
    }
    if schema.get("format") in _FORMATS:
        bound["format"] = schema["format"]
    if "$defs" in schema:
        bound["$defs"] = {
            name: _bindable(inner, name) for name, inner in schema["$defs"].items()
        }
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        bound["anyOf"] = [_bindable(choice, path) for choice in choices]
    if schema.get("type") == "array":
        # of a tuple, an item may be any of its members; their number and order are
        # checked on reading
        members = schema.get("prefixItems", ())
        if members:
            bound["items"] = {"anyOf": [_bindable(member, path) for member in members]}
        else:
            bound["items"] = _bindable(schema.get("items", {}), path)
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        bound["properties"] = {
            name: _bindable(inner, f"{path}.{name}") for name, inner in fields.items()
        }
        bound["required"] = list(fields)
        bound["additionalProperties"] = False
    if not _TYPING.intersection(bound):
        raise SettingsError(
            f"extract needs a concrete type everywhere, but {path} may be anything"
        )
    return bound


MAX_FRAMES = 8
"""The maximum kept frames that `saw` judges, newest first."""
CONFIRMING_VOTES = 5
"""The votes that must confirm a claim on a kept frame. Many frames mean many questions,
so one wrong answer is likely.
"""


def assess(
    session: Session,
    claim: str,
    *,
    within_s: float,
    votes: int | None,
) -> Verdict:
    """Judge a claim, as `VncUseAgent.assess` says."""
    check_asked(claim, _votes(session, votes), within_s)
    claim = session.secrets.declared.hide(claim)
    session.watch_end()
    verdicts = []
    for frame in frames_within(session.controller, within_s):
        verdict = _judge_now(
            session,
            claim,
            frame,
            votes,
        )
        verdicts.append(verdict)
        if verdict.holds:
            break
    return _remember(
        session,
        verdict,
        verdicts,
        [frame],
    )


def saw(
    session: Session,
    claim: str,
    *,
    steps: int,
    votes: int | None,
) -> Verdict:
    """Judge whether a claim held before, as `VncUseAgent.saw` says."""
    check_asked(claim, _votes(session, votes))
    claim = session.secrets.declared.hide(claim)
    if steps < 1:
        raise SettingsError(f"steps must be at least 1, got {steps!r}")
    session.watch_end()
    frames = list(islice(_kept_frames(session, steps), MAX_FRAMES))
    verdicts = []
    for frame in frames:
        verdict = _judge_now(
            session,
            claim,
            frame,
            votes,
        )
        if verdict.holds and _votes(session, votes) < CONFIRMING_VOTES:
            confirmed = _judge_now(
                session,
                claim,
                frame,
                CONFIRMING_VOTES,
            )
            verdict = replace(confirmed, usage=verdict.usage + confirmed.usage)
        verdicts.append(verdict)
        if verdict.holds:
            break
    if not verdict.holds:
        unsure = [verdict for verdict in verdicts if verdict.kind == "unsure"]
        verdict = [*unsure, *verdicts][0]
        where = "it does not hold on the only frame"
        if len(verdicts) > 1:
            where = f"it holds on none of {len(verdicts)} frames"
        verdict = replace(verdict, reason=f"{where}; {verdict.reason}")
    return _remember(
        session,
        verdict,
        verdicts,
        frames[: len(verdicts)],
    )


def verify_end_state(
    session: Session,
    task: str,
    *,
    votes: int | None,
) -> Verdict:
    """Judge the end state of a task, as `VncUseAgent.verify_end_state` says."""
    session.watch_end()
    frame = session.controller.frame()
    claim = end_state_claim(session.secrets.declared.hide(task))
    verdict = _judge_now(
        session,
        claim,
        frame,
        votes,
    )
    return _remember(
        session,
        verdict,
        [verdict],
        [frame],
    )


def extract(
    session: Session,
    model: type[T],
    question: str,
) -> T:
    """Read a value off the screen, as `VncUseAgent.extract` says."""
    form = Form.of(model)
    if not question.strip():
        raise SettingsError(f"`question` must name the value to read, got {question!r}")
    session.watch_end()
    frame = session.controller.frame()
    with _releasing_on_error(frame):
        return _read_value(session, form, question, frame)


def _read_value(session: Session, form: Form[T], question: str, frame: Frame) -> T:
    declared = session.secrets.declared
    reading = form.read(
        session.judge,
        declared.hide(question),
        frame,
        timeout_s=session.settings.max_seconds,
        report=session.emit,
        hide=declared.hide,
    )
    problem = ""
    try:
        value = form.adapter.validate_json(json.dumps(reading.value))
    except ValidationError as exc:
        problem = _problems(exc)
    reading = replace(reading, reason=cut(reading.reason))
    session.extracted.append(reading)
    session.record(Extracted(reading, form.name, problem), [frame])
    if not problem:
        return value
    everything = session.secrets.everything
    reading = everything.hide_in(reading)
    problem = everything.hide(problem)
    if reading.value is None:
        raise Inconclusive(
            f"extract: no {form.name} is on the screen for {reading.question!r}:"
            f" {reading.reason}"
        )
    read = cut(json.dumps(reading.value, ensure_ascii=False))
    headline = f"extract: the value is not a valid {form.name}: {problem}"
    raise Inconclusive(f"{headline}\n  read: {read}\n  reason: {reading.reason}")


def _problems(error: ValidationError) -> str:
    """Return what does not fit, each with its path in the value."""
    lines = []
    for problem in error.errors(include_url=False):
        path = ".".join(map(str, problem["loc"]))
        what = f"{problem['msg']}, got {problem['input']!r}"
        lines.append(f"{path}: {what}" if path else what)
    return cut("; ".join(lines))


def _votes(session: Session, votes: int | None) -> int:
    return session.settings.votes if votes is None else votes


def _judge_now(
    session: Session,
    claim: str,
    frame: Frame,
    votes: int | None,
) -> Verdict:
    # A recording knows the claim by the names of its values.
    asked = claim if session.recorded_test else fill(claim, session.values)
    with _releasing_on_error(frame):
        verdict = judge_claim(
            session.judge,
            asked,
            frame,
            votes=_votes(session, votes),
            timeout_s=session.settings.max_seconds,
            report=session.emit,
        )
    return replace(verdict, claim=claim)


def _remember(
    session: Session,
    verdict: Verdict,
    all_of_it: Sequence[Verdict],
    frames: Sequence[Frame],
) -> Verdict:
    usage = _usage_of(all_of_it)
    verdict = replace(verdict, screens=len(all_of_it), usage=usage)
    judged: Verdict = session.secrets.everything.hide_in(verdict)
    # after hiding: half a secret would not be recognised
    judged = replace(judged, reason=cut(judged.reason))
    with _releasing_on_error(*frames):
        session.record(Judged(judged), frames)
    shown = replace(judged, claim=fill(judged.claim, session.values))
    session.verdicts.append(shown)
    return shown


def _kept_frames(session: Session, steps: int) -> Iterator[Frame]:
    """Yield the screen now and the kept frames of the last steps, newest first, each
    once.
    """
    transients = session.controller.transient_frames()
    now = session.controller.frame()
    yield now
    seen: set[FrameRef] = {now.ref}
    for frame in reversed(transients):
        if frame.ref not in seen:
            seen.add(frame.ref)
            yield frame
    if session.directory is None:
        return
    for step in reversed(session.frame_steps[-steps:]):
        for ref in (step.frame_after, *reversed(step.transient_frames)):
            if ref not in seen:
                seen.add(ref)
                yield Frame(ref, session.directory.load_png(ref))


def format_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Return the claim that decides, with the judge's reason; for several claims, a
    line for each of them too.

    At least one of the verdicts must not hold.
    """
    failed = [verdict for verdict in verdicts if not verdict.holds]
    fails = [verdict for verdict in failed if verdict.kind == "fails"]
    decisive = [*fails, *failed][0]
    what = "fails" if fails else "is unsure"
    claim = f"claim {plain(decisive.claim)!r} {what}"
    reason = plain(decisive.reason)
    if len(verdicts) == 1:
        return f"{claim}{asked_of(decisive)}: {reason}"
    count = f"{len(failed)} of {len(verdicts)} claims do not certainly hold"
    lines = [plain(str(verdict)) for verdict in verdicts]
    return "\n  ".join([f"{count}: {claim}: {reason}", *lines])


def format_end_state(verdict: Verdict, task: str) -> str:
    """Return whether the task is done, with the judge's reason."""
    named = f"the task {plain(task)!r} is"
    what = f"it is unsure whether {named} done"
    if verdict.kind == "fails":
        what = f"{named} not done"
    return f"{what}{asked_of(verdict)}: {plain(verdict.reason)}"


def held(verdict: Verdict) -> Verdict:
    """Return the verdict if it holds. Raises ProductFailed, Inconclusive."""
    if verdict.holds:
        return verdict
    raise error_for_verdicts([verdict.kind])(format_verdicts([verdict]))


def frames_within(controller: Controller, within_s: float) -> Iterator[Frame]:
    """Yield the screen now, and whenever it has changed and become stable, until the
    time is up.

    A change during the judge's answer counts too, also if the time is up by then.
    Raises DesktopError.
    """
    deadline = Deadline(within_s)
    left_s = within_s
    last: FrameRef | None = None
    while True:
        frame = controller.frame()
        if frame.ref != last:
            yield frame
        if not left_s:
            return
        last = frame.ref
        left_s = deadline.remaining_s
        with _releasing_on_error(frame):
            if not controller.wait_changed(frame.taken_at, left_s):
                return
            controller.settle()
