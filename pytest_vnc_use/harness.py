"""The base of an agent that decides by itself, as in a computer-use harness: `act`, `run`, `mouse_click`, `screenshot`.

Its actions go through the same loop, policy, run folder and report as a model's. `act` runs in its own thread, which
waits while an action is carried out.
"""

from __future__ import annotations

import base64
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Literal

from pytest_vnc_use.agent.agent import VncUseAgent
from pytest_vnc_use.errors import ActionError, PlannerError, SettingsError
from pytest_vnc_use.planners.local.callables import address_of, finish
from pytest_vnc_use.types import (
    CLICKS,
    Button,
    Click,
    Decision,
    DesktopAction,
    Direction,
    Drag,
    HistoryDirection,
    KeyCombo,
    Limits,
    Move,
    Observation,
    Proposal,
    RunResult,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

_LATE_S = 1.0
"""The extra time that the planner waits for `act`, so that the loop's limit comes first."""


class Agent(ABC):
    """An agent of your own: write `act`, and call `run`, or name the class as `--vnc-planner=module:MyAgent`.

    `vnc_agent` is the fixture of that name, or a VncUseAgent; a planner needs none. `task` is the sentence to carry
    out. If a run continues after an interruption, `act` begins again: what it had done is not done again.
    """

    vnc_agent: VncUseAgent | None = None
    task: str = ""
    _acting: _Acting | None = None
    _params: Mapping[str, Any] | None = None

    def __init__(self, vnc_agent: VncUseAgent | None = None, task: str = "") -> None:
        self.vnc_agent, self.task = vnc_agent, task or self.task
        self._home = threading.current_thread()

    # --- yours -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def act(self) -> bool:
        """Carry out the next part of the task; return whether it is done. It is called until it returns True."""

    def check_task_success(self) -> bool:
        """Return whether the task is done: by default a judge decides. Raises Inconclusive if it is unsure."""
        return bool(self._own_agent().verify_end_state(self.task))

    # --- the run -----------------------------------------------------------------------------------------------------

    def run(self, max_steps: int = 40, *, expect: str | Sequence[str] | None = ()) -> RunResult:
        """Carry out the task in at most `max_steps` actions. `expect` and errors are those of `VncUseAgent.run`."""
        agent = self._own_agent()
        limits = Limits(max_steps, agent.settings.seconds, agent.settings.stall)
        try:
            return agent.run(self.task, expect=expect, limits=limits, planner=self)
        finally:
            self.end_run()

    def finish(self, params: Mapping[str, Any] | None = None) -> bool:
        """Note the result of the task, the run's `params`; return True, for `return self.finish({"total": 3})`."""
        self._params = dict(params or {})
        return True

    def screenshot(self) -> str:
        """Return the screen after the last action, as PNG in base64."""
        acting = self._acting_here()
        png = acting.png() if acting else self._own_agent().screenshot()
        return base64.b64encode(png).decode("ascii")

    # --- the hands: each returns once the screen has answered, and raises ActionError where it could not be done -----

    def mouse_click(
        self, x: int, y: int, button: Button = "left", click_type: Literal["single", "double", "triple"] = "single"
    ) -> None:
        """Click at a point of the screen, in pixels."""
        if click_type not in CLICKS:
            raise ActionError(f"a click_type must be {', '.join(CLICKS)}, got {click_type!r}")
        self._carry_out(Click(x, y, button, CLICKS[click_type]))

    def mouse_move(self, x: int, y: int) -> None:
        """Move the pointer."""
        self._carry_out(Move(x, y))

    def mouse_drag(self, x: int, y: int, to_x: int, to_y: int) -> None:
        """Drag with the left button."""
        self._carry_out(Drag(x, y, to_x, to_y))

    def mouse_scroll(self, x: int, y: int, direction: Direction, repeat: int = 1) -> None:
        """Turn the wheel by `repeat` notches."""
        self._carry_out(Scroll(x, y, direction, repeat))

    def press_keys(self, keys: str | Sequence[str]) -> None:
        """Press keys together: `"Ctrl+Shift+P"`, `["ctrl", "a"]`, `"Digit_1"`."""
        self._carry_out(KeyCombo((keys,) if isinstance(keys, str) else tuple(keys)))

    def type_text(self, text: str) -> None:
        """Type at the focus; `<secret:NAME>` is typed as the secret's value."""
        self._carry_out(TypeText(text))

    def page_navigation(self, direction: HistoryDirection) -> None:
        """Go back or forward in the focused browser."""
        self._carry_out(TraverseHistory(direction))

    def wait(self, duration: float) -> None:
        """Let some seconds pass, and look again."""
        self._carry_out(Wait(duration))

    # --- the planner -------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name in the report, with the class's address."""
        return f"harness ({address_of(type(self))})"

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the next action of `act`. Raises what `act` raises."""
        acting = self._acting
        if acting is None or not acting.awaits(observation):
            self.end_run()
            self.task, self._params = observation.task, None
            acting = self._acting = _Acting(self, observation)
            acting.start()
        else:
            acting.go_on(observation)
        return acting.decision(timeout_s)

    def end_run(self) -> None:
        """End the thread of `act` if it still waits in an action."""
        if self._acting is not None:
            self._acting.end()
            self._acting = None

    def _acting_here(self) -> _Acting | None:
        """Return the run to which this thread belongs, which may have ended."""
        acting = getattr(_here, "acting", None)
        return acting if isinstance(acting, _Acting) and acting.is_of(self) else None

    def _carry_out(self, action: DesktopAction) -> None:
        acting, agent = self._acting_here(), self.vnc_agent
        if acting is not None:
            acting.carry_out(action)
        elif self._acting is not None or (agent is not None and threading.current_thread() is not self._home):
            raise ActionError(
                "only the thread that calls `act` may act, because the policy and the limits hold there, got "
                f"{threading.current_thread().name!r}"
            )
        else:
            self._own_agent().perform(action)

    def _own_agent(self) -> VncUseAgent:
        if self.vnc_agent is None:
            raise SettingsError(
                f"{type(self).__name__} needs a desktop: write {type(self).__name__}(vnc_agent, task), with the "
                "fixture vnc_agent or a VncUseAgent, got None"
            )
        return self.vnc_agent


class _RunOver(BaseException):
    """The error that the run has ended: `act` must do nothing more."""


_here = threading.local()
"""The current thread's run, in `acting`, until the thread ends."""


class _Acting:
    """The calls of one agent's `act` in one run, in a thread. Finished turns get the same results again."""

    def __init__(self, agent: Agent, observation: Observation) -> None:
        self._agent = agent
        self._observation = observation
        self._frame = observation.first_frame if observation.turns else observation.frame
        self._proposed = 0
        self._is_over = False
        self._decisions: SimpleQueue[Decision | BaseException] = SimpleQueue()
        self._observations: SimpleQueue[Observation | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._run, daemon=True, name="vnc-use harness")
        self.start = self.thread.start

    # --- the loop's side ---

    def awaits(self, observation: Observation) -> bool:
        """Return whether this observation is the answer to the last proposed action."""
        return self.thread.is_alive() and len(observation.turns) == self._proposed

    def go_on(self, observation: Observation) -> None:
        """Give `act` the result of its action."""
        self._observations.put(observation)

    def decision(self, timeout_s: float) -> Decision:
        """Return the next decision of `act`. Raises what it raises, and PlannerError if it takes too long."""
        try:
            decision = self._decisions.get(timeout=timeout_s + _LATE_S)
        except Empty:
            raise PlannerError(f"{self._agent.name} did not decide within {timeout_s:.1f} s") from None
        if isinstance(decision, BaseException):
            raise decision
        return decision

    def end(self) -> None:
        """End the thread if it waits for the result of an action, or at its next one."""
        self._is_over = True
        self._observations.put(None)

    # --- the side of `act` ---

    def is_of(self, agent: Agent) -> bool:
        """Return whether this is a run of that agent."""
        return self._agent is agent

    def png(self) -> bytes:
        """Return the screen after the last action."""
        return self._observation.load_png(self._frame)

    def carry_out(self, action: DesktopAction) -> None:
        """Have an action carried out, and wait for it. Raises ActionError if it could not be done."""
        if self._is_over:
            raise _RunOver
        number = self._proposed
        self._proposed += 1
        if number >= len(self._observation.turns):
            self._decisions.put(Decision("act", proposals=(Proposal(action),)))
            observation = self._observations.get()
            if observation is None:
                raise _RunOver
            self._observation = observation
        [step] = self._observation.turns[number].steps
        if type(step.proposal.action) is not type(action):
            raise PlannerError(
                f"{self._agent.name} must repeat what it did before the run was interrupted: "
                f"{step.proposal.action!r}, got {action!r}"
            )
        is_newest = self._proposed == len(self._observation.turns)
        self._frame = self._observation.frame if is_newest else step.frame_after
        if step.error:
            raise ActionError(step.error)

    def _run(self) -> None:
        _here.acting = self
        try:
            while not self._act():
                pass
            self._decisions.put(finish(self._agent._params))
        except _RunOver:
            pass
        except BaseException as exc:  # noqa: BLE001  # whatever the user's code raises is raised in the loop
            self._decisions.put(exc)

    def _act(self) -> bool:
        before = self._proposed
        done = bool(self._agent.act())
        if not done and self._proposed == before:
            self.carry_out(TakeScreenshot())  # so that the run's limits end an agent without actions
        return done
