"""What passes between the parts of the package: decisions, rulings, steps, results, limits.

Everything here is plain data without behaviour of its own: no pytest, langgraph, google, twisted or PIL is imported.
Coordinates are pixels of the desktop, from the top left; durations are seconds and end in `_s`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypedDict, Union

from pytest_vnc_use.types.actions import Action, JsonObject
from pytest_vnc_use.types.frames import Drifted, FrameRef, SettledReason, Transient
from pytest_vnc_use.types.verdicts import Reading, Usage, Verdict

DecisionKind = Literal["act", "finished", "gave_up"]
RulingKind = Literal["allow", "deny", "ask"]

# --- what is decided -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Confirmation:
    """The model's wish that a person confirms an action first; its service's refusal of it where it `blocks`."""

    explanation: str
    category: str = ""
    blocks: bool = False


@dataclass(frozen=True)
class Proposal:
    """One action of a turn, with the model's reason and the call as it came (`{"name": …, "args": …}`)."""

    action: Action
    intent: str = ""
    as_proposed: JsonObject = field(default_factory=dict)
    confirmation: Confirmation | None = None


@dataclass(frozen=True)
class Decision:
    """What the planner answered.

    `words` is the model's text: the reason for the proposals, or the closing message. With `stop_at_error` the
    proposals after one that fails are not carried out. `provider_details` is JSON that the provider must get back
    unchanged; nobody but the planner reads it. `params` is what a planner of the user's finished with.

    The loop adds how often it `asked_again` because the screen had changed while the model thought, with the usage of
    all answers, and whether this one is `stale` all the same.
    """

    kind: DecisionKind
    words: str = ""
    proposals: tuple[Proposal, ...] = ()
    model: str = ""
    usage: Usage = Usage()
    provider_details: JsonObject = field(default_factory=dict)
    stop_at_error: bool = False
    params: JsonObject = field(default_factory=dict)
    asked_again: int = 0
    stale: bool = False


@dataclass(frozen=True)
class Ruling:
    """What safety says of one action, and which rule said so; `by` a person only after a real yes or no."""

    kind: RulingKind
    rule: str
    explanation: str = ""
    by: Literal["policy", "person"] = "policy"
    ends_run: bool = True
    """For a denial: whether the run ends here, or the planner is told no and goes on."""


@dataclass(frozen=True)
class Times:
    """Where the seconds of a step went; `model_s` counts on a turn's first step only."""

    model_s: float = 0.0
    act_s: float = 0.0
    settle_s: float = 0.0
    capture_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """One action carried out, refused or failed. `number` counts from 1 in the run, `turn` likewise.

    `words`, `model`, `usage` and `asked_again` are the turn's; the last two stand on its first step only, so that a
    sum is right.
    `error` is empty where the action was carried out. `output` is what a user function returned, as text.
    `note` is what the planner is told beside the result. `passed` are the frames that came and went since the
    step before it ended, oldest first. `url` is where a browser then was, where that is known.
    """

    number: int
    turn: int
    proposal: Proposal
    ruling: Ruling
    frame_before: FrameRef
    frame_after: FrameRef
    error: str = ""
    output: str = ""
    note: str = ""
    settled: SettledReason | None = None
    times: Times = Times()
    words: str = ""
    model: str = ""
    usage: Usage = Usage()
    passed: tuple[FrameRef, ...] = ()
    asked_again: int = 0
    url: str = ""


@dataclass(frozen=True)
class Turn:
    """One answer of the planner and the steps it became, one a proposal, in order."""

    decision: Decision
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class ModelAsked:
    """A request that is about to be sent: its text in characters, its pictures, the most tokens of an answer."""

    purpose: str
    model: str
    characters: int
    images: int
    answer_tokens: int
    kind: Literal["asked"] = "asked"


@dataclass(frozen=True)
class ModelExchange:
    """One HTTP request to a model and its answer. Images stand as `sha256:<hex>`; headers are left out.

    `purpose` is `planner` or `judge`; `retry_in_s` is set where the same request is sent again after that wait.
    `usage` is what the service counted, also of an answer that was no good; `dollars` None where no price is known.
    With `uncounted` it may be billed though no answer came, or one that tells no usage; `dollars` is what was reckoned.
    """

    purpose: str
    attempt: int
    request: JsonObject
    response: JsonObject | None
    duration_s: float
    error: str = ""
    retry_in_s: float | None = None
    model: str = ""
    usage: Usage = Usage()
    dollars: float | None = None
    uncounted: bool = False
    kind: Literal["exchange"] = "exchange"


Report = Callable[[Union[ModelAsked, ModelExchange]], None]
"""Who is told before a request to a model, and of each exchange; what it raises keeps a request from being sent."""


def report_to_nobody(_: ModelAsked | ModelExchange) -> None:
    """For when nobody wants to know."""


@dataclass(frozen=True)
class Observation:
    """All that a planner may see: the task, what happened so far, the newest frame, older ones through `load_png`.

    A planner that asks a model tells `report` of each exchange. `request_s` is how long one request may take, where
    that was changed after the planner was made.
    """

    task: str
    first_frame: FrameRef
    frame: FrameRef
    turns: tuple[Turn, ...]
    load_png: Callable[[FrameRef], bytes] = field(repr=False)
    report: Report = field(default=report_to_nobody, repr=False)
    request_s: float | None = None


class Outcome(str, Enum):
    """How a run ended. Only `done` says that the planner believes the task is done; no outcome says that it is."""

    DONE = "done"
    GAVE_UP = "gave_up"
    STEP_LIMIT = "step_limit"
    TIME_LIMIT = "time_limit"
    BUDGET = "budget"
    DENIED = "denied"
    BLOCKED = "blocked"
    WAITING = "waiting_for_approval"
    """Not an end: the run waits for `approve(run_id)` or `deny(run_id)`."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Limits:
    """What a run may use at most; `stall`: how often the same action on the same frame is taken for standing still."""

    steps: int = 40
    seconds: float = 300.0
    stall: int = 3


@dataclass(frozen=True)
class RunResult:
    """What `VncUseAgent.run` returns. `steps` are in order; `transcript` is the run in readable lines.

    `params` is what a planner of the user's finished with.
    """

    run_id: str
    outcome: Outcome
    message: str
    run_folder: Path
    task: str = ""
    steps: tuple[Step, ...] = ()
    usage: Usage = Usage()
    transcript: str = ""
    params: JsonObject = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Refused: not even `done` says that the task is done."""
        raise TypeError("a RunResult is neither true nor false: compare its `outcome`, and `verify` what matters")


# --- what is told to observers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunStarted:
    """`started_at` is UTC in ISO 8601; `screen` the first frame; `expect` the claims to judge once it is done.

    `settings` are those of the agent by name, with which a run goes on in another process; nothing in them is secret.
    With `own_policy` it was ruled by a policy object, with `own_judge` a judge was given: no run folder can hold these.
    `secrets` and `functions` are the names of those that the run was given.
    `body_checks` is said on purpose, by `expect=None`: no judge is asked for its end state.
    """

    run_id: str
    task: str
    started_at: str
    planner: str
    screen: FrameRef
    server: str = ""
    test_id: str = ""
    limits: Limits = Limits()
    expect: tuple[str, ...] = ()
    settings: JsonObject = field(default_factory=dict)
    own_policy: bool = False
    own_judge: bool = False
    secrets: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    body_checks: bool = False
    kind: Literal["run"] = "run"


@dataclass(frozen=True)
class TurnDecided:
    """The planner answered turn `number` after `model_s`."""

    number: int
    decision: Decision
    model_s: float
    kind: Literal["turn"] = "turn"


@dataclass(frozen=True)
class StepStarted:
    """Written before the hands move, so that a run killed in between is never resumed by acting twice."""

    number: int
    turn: int
    proposal: Proposal
    ruling: Ruling
    kind: Literal["step_started"] = "step_started"


@dataclass(frozen=True)
class StepFinished:
    """One step is over."""

    step: Step
    kind: Literal["step"] = "step"


@dataclass(frozen=True)
class ApprovalAsked:
    """The run now waits for a person's answer about step `number`."""

    number: int
    proposal: Proposal
    ruling: Ruling
    kind: Literal["approval_asked"] = "approval_asked"


@dataclass(frozen=True)
class Judged:
    """A claim got its verdict."""

    verdict: Verdict
    kind: Literal["judged"] = "judged"


@dataclass(frozen=True)
class Extracted:
    """A value was read for a `form`, the name of a type; where it is none of that, `problem` says why."""

    reading: Reading
    form: str
    problem: str = ""
    kind: Literal["extracted"] = "extracted"


@dataclass(frozen=True)
class RunEnded:
    """The run ended with an outcome, or, where `error` is set, broke; `traceback` then tells where."""

    outcome: Outcome | None
    message: str
    error: str = ""
    traceback: str = ""
    kind: Literal["end"] = "end"


RunEvent = Union[
    RunStarted,
    TurnDecided,
    StepStarted,
    StepFinished,
    ApprovalAsked,
    ModelAsked,
    ModelExchange,
    Judged,
    Extracted,
    Drifted,
    Transient,
    RunEnded,
]


class CUAState(TypedDict, total=False):
    """The state of the graph: counters and what is pending, in JSON types, of bounded size; no history, no picture."""

    run_id: str
    task: str
    first_frame: dict[str, Any]
    frame: dict[str, Any]
    turn: int
    step: int
    pending: list[dict[str, Any]]
    ruling: dict[str, Any] | None
    elapsed_s: float
    fingerprints: list[str]
    outcome: str
    message: str
