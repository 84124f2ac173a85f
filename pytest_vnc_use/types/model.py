"""The data that the parts of the package exchange: decisions, rulings, steps, results,
limits.

All of it is plain data without behaviour. It imports no pytest, langgraph, google,
twisted or PIL. Coordinates are pixels of the desktop, from the top left. Durations are
in seconds, and their names end in `_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypedDict, Union

from pytest_vnc_use.types.actions import Action, JsonObject
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.frames import (
    DirectoryCreated,
    Drift,
    FrameRef,
    GateAwaited,
    RecordingAwaited,
    SettledReason,
    Transient,
)
from pytest_vnc_use.types.verdicts import Reading, Usage, Verdict

DecisionKind = Literal["act", "finished", "gave_up"]
RulingKind = Literal["allow", "deny", "ask"]


@dataclass(frozen=True)
class Confirmation:
    """The model's request that a user confirms an action first. With `blocks`, the
    model's service refuses the action.
    """

    explanation: str
    category: str = ""
    blocks: bool = False


@dataclass(frozen=True)
class Proposal:
    """One action of a turn, the model's reason, and the call as it came (`{"name": …,
    "args": …}`).
    """

    action: Action
    intent: str = ""
    as_proposed: JsonObject = field(default_factory=dict)
    confirmation: Confirmation | None = None


@dataclass(frozen=True)
class Decision:
    """The planner's answer.

    `text` is the model's text: the reason for the proposals, or the closing message.
    With `stop_at_error`, the proposals after one that fails are not performed.
    `provider_details` is JSON that the provider must get back unchanged; only the
    planner reads it. `params` are the parameters that a custom planner finished with.

    The loop adds two fields. `repeated_requests` counts the requests that were repeated
    because the screen changed while the model worked; `usage` then covers all answers.
    `stale` is true if the screen changed before this answer too.
    """

    kind: DecisionKind
    text: str = ""
    proposals: tuple[Proposal, ...] = ()
    model: str = ""
    usage: Usage = Usage()
    provider_details: JsonObject = field(default_factory=dict)
    stop_at_error: bool = False
    params: JsonObject = field(default_factory=dict)
    repeated_requests: int = 0
    stale: bool = False


@dataclass(frozen=True)
class Ruling:
    """The safety rules' answer about one action, and the rule that gave it.

    `by` is `user` only after a user really approved or denied it.
    """

    kind: RulingKind
    rule: str
    explanation: str = ""
    by: Literal["policy", "user"] = "policy"
    ends_run: bool = True
    """For a denial: if true, the run ends here; if false, the planner gets the refusal
    and continues.
    """


@dataclass(frozen=True)
class Times:
    """The seconds of a step, by activity. `model_s` counts on a turn's first step
    only.
    """

    model_s: float = 0.0
    act_s: float = 0.0
    settle_s: float = 0.0
    capture_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """One action that was performed, refused or failed. `number` and `turn` count from
    1 in the run.

    `text`, `model`, `usage` and `repeated_requests` are the turn's. The last two are
    set on the turn's first step only, so that sums are right. `error` is empty if the
    action was performed. `output` is the result of a user function, as text. `note` is
    a message to the planner beside the result. `transient_frames` are those since the
    previous step ended, oldest first. `url` is the browser's URL after the step, if it
    is known. `elements` are what it acted on, if known; `crop` is an image of their
    surroundings. Both are only for readers.
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
    text: str = ""
    model: str = ""
    usage: Usage = Usage()
    transient_frames: tuple[FrameRef, ...] = ()
    repeated_requests: int = 0
    url: str = ""
    elements: Elements = ()
    crop: FrameRef | None = None


REPEATED_NOTE = (
    "This same action on this same screen was proposed {times} times. Try another way,"
    " or give up."
)
"""The note of a step that a run repeats without effect."""


@dataclass(frozen=True)
class Turn:
    """One answer of the planner and its steps, one step for each proposal, in order."""

    decision: Decision
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class ModelRequest:
    """A request just before it is sent: its characters of text, its number of images,
    and the maximum tokens of the answer.
    """

    purpose: str
    model: str
    characters: int
    images: int
    answer_tokens: int
    kind: Literal["model_request"] = "model_request"


@dataclass(frozen=True)
class ModelExchange:
    """One HTTP request to a model and its answer. Images are replaced by
    `sha256:<hex>`; headers are left out.

    `purpose` is `planner` or `judge`. `retry_in_s` is set if the same request is sent
    again after that wait. `usage` is the service's count, also for an unusable answer.
    `dollars` is None if the price is unknown. With `uncounted`, the request may be
    billed, but no answer came, or the answer has no usage; `dollars` is then an
    estimate.
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


Report = Callable[[Union[ModelRequest, ModelExchange]], None]
"""The callback for model requests. It gets a ModelRequest before each request and a
ModelExchange after it.

If it raises on a ModelRequest, the request is not sent.
"""


def ignore_report(_: ModelRequest | ModelExchange) -> None:
    """Ignore the report: the callback where no caller needs it."""


@dataclass(frozen=True)
class Observation:
    """Everything that a planner may see: the task, the turns so far, and the frames,
    whose images `load_png` returns.

    A planner that asks a model calls `report` for each exchange. `request_s` is the
    time limit of one request, if it was changed after the planner was made.
    """

    task: str
    first_frame: FrameRef
    frame: FrameRef
    turns: tuple[Turn, ...]
    load_png: Callable[[FrameRef], bytes] = field(repr=False)
    report: Report = field(default=ignore_report, repr=False)
    request_s: float | None = None


class Outcome(str, Enum):
    """The way a run ended.

    `done` says only that the planner believes the task is done. No outcome says that it
    really is.
    """

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
    """The limits of a run.

    A planner may propose the same action on the same frame `repeats` times. After that,
    the run makes no progress, and ends.
    """

    steps: int = 40
    seconds: float = 300.0
    repeats: int = 3


@dataclass(frozen=True)
class RunResult:
    """The result of `VncUseAgent.run`. `steps` are in order; `transcript` is the run in
    readable lines.

    `params` are the parameters that a custom planner finished with.
    """

    run_id: str
    outcome: Outcome
    message: str
    run_dir: Path
    task: str = ""
    steps: tuple[Step, ...] = ()
    usage: Usage = Usage()
    transcript: str = ""
    params: JsonObject = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Raise TypeError: not even the outcome `done` means that the task is done."""
        raise TypeError(
            "a RunResult is neither true nor false. Compare its `outcome`, and `verify`"
            " what matters"
        )


@dataclass(frozen=True)
class RunStarted:
    """The start of a run.

    `started_at` is UTC in ISO 8601. `screen` is the first frame. `expect` are the
    claims to judge once the task is done. `settings` are the agent's settings by name;
    another process needs them to continue the run. They hold no secrets.
    `custom_policy` is true if the user gave a policy object, `custom_judge` if the user
    gave a judge: a run directory cannot hold these. `secrets` and `functions` are names
    only. `body_checks` is true if the user wrote `expect=None`: then no judge is asked
    about the end state. `recording` is the name of the recording that several tests
    share; "" for the test's own. `values` are those of the task and its claims by name;
    these have `<value:NAME>` for them.
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
    custom_policy: bool = False
    custom_judge: bool = False
    secrets: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    body_checks: bool = False
    recording: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["run"] = "run"


@dataclass(frozen=True)
class TurnDecided:
    """The planner's answer in turn `number`, which took `model_s`."""

    number: int
    decision: Decision
    model_s: float
    kind: Literal["turn"] = "turn"


@dataclass(frozen=True)
class StepStarted:
    """The start of a step.

    It is written before the action is performed, so that a resumed run never acts
    twice.
    """

    number: int
    turn: int
    proposal: Proposal
    ruling: Ruling
    kind: Literal["step_started"] = "step_started"


@dataclass(frozen=True)
class StepFinished:
    """The end of a step."""

    step: Step
    kind: Literal["step"] = "step"


@dataclass(frozen=True)
class ApprovalRequest:
    """The start of a wait for a user's answer about step `number`."""

    number: int
    proposal: Proposal
    ruling: Ruling
    kind: Literal["approval_request"] = "approval_request"


@dataclass(frozen=True)
class Judged:
    """The verdict on a claim."""

    verdict: Verdict
    kind: Literal["judged"] = "judged"


@dataclass(frozen=True)
class Extracted:
    """A value that was read off the screen for a `form`, the name of a type.

    `problem` says why the value does not fit the form; it is empty if it fits.
    """

    reading: Reading
    form: str
    problem: str = ""
    kind: Literal["extracted"] = "extracted"


@dataclass(frozen=True)
class RunEnded:
    """The end of a run, with its outcome. If the run failed, `error` and `traceback` are
    set.
    """

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
    ApprovalRequest,
    ModelRequest,
    ModelExchange,
    Judged,
    Extracted,
    Drift,
    Transient,
    GateAwaited,
    RecordingAwaited,
    DirectoryCreated,
    RunEnded,
]


class CUAState(TypedDict, total=False):
    """The state of the graph: counters and pending proposals, in JSON types.

    It has a bounded size, and holds no history and no image.
    """

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
