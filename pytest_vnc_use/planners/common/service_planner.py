"""The base of planners over a model's service: a request from the observation, an
answer, a decision.

Nothing is kept between turns: each request is rebuilt from the observation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar

from pytest_vnc_use.planners.common.arguments import Arguments
from pytest_vnc_use.planners.common.functions import declare_all
from pytest_vnc_use.planners.common.http import Backoff, Failure, Service, ask
from pytest_vnc_use.planners.common.screens import ImageLimit, png_size
from pytest_vnc_use.planners.common.toolset import (
    GIVE_UP,
    check_at_least_one,
    check_excluded,
)
from pytest_vnc_use.types import Decision, JsonObject, Observation, Proposal, Usage

Call = TypeVar("Call")
AnyAnswer = TypeVar("AnyAnswer")


@dataclass(frozen=True)
class ModelAnswer(Generic[Call]):
    """One answer: its `items` as they came, to be sent back, and the values read from
    them.

    `text` excludes `reasoning`. `cut_off`: the token limit ended it.
    """

    items: Sequence[JsonObject] = ()
    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    cut_off: bool = False


class ServicePlanner(ABC, Generic[AnyAnswer]):
    """A planner that asks a model. A subclass builds the request, and decides by the
    answer.

    `read` returns the answer in a response, or why it cannot be used.
    """

    provider: ClassVar[str]

    def __init__(
        self,
        service: Service,
        read: Callable[[JsonObject], AnyAnswer | Failure],
        backoff: Backoff | None,
    ) -> None:
        self._service = service
        self._read = read
        self._backoff = backoff or Backoff()

    @property
    def name(self) -> str:
        """The planner's name with the model."""
        return f"{self.provider} ({self._service.model})"

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the model's next turn. Raises PlannerError."""
        answer = ask(
            self._service,
            self._body(observation),
            purpose="planner",
            read=self._read,
            timeout_s=timeout_s,
            report=observation.report,
            backoff=self._backoff.within(observation.request_s),
        )
        return self._decision(answer, observation)

    @abstractmethod
    def _body(self, observation: Observation) -> JsonObject:
        """Return the request."""

    @abstractmethod
    def _decision(self, answer: AnyAnswer, observation: Observation) -> Decision:
        """Return the decision of an answer."""


class ComputerPlanner(ServicePlanner[ModelAnswer[Call]]):
    """A planner over a service with a built-in computer tool, whose coordinates are
    pixels of the screenshot.

    The calls of an answer are performed in order, until one fails.
    """

    items_key: ClassVar[str]
    """The name of the answer's items in a decision's provider_details."""
    actions: ClassVar[Sequence[str]]
    """The names of the tool's actions."""
    _limit: ImageLimit

    def __init__(
        self,
        service: Service,
        read: Callable[[JsonObject], ModelAnswer[Call] | Failure],
        backoff: Backoff | None,
        *,
        excluded_actions: Sequence[str],
        functions: Sequence[Callable[..., object]],
        reserved: Sequence[str],
        keep_screenshots: int,
    ) -> None:
        """Raise SettingsError. `reserved` are names that no user function may have."""
        check_at_least_one(keep_screenshots=keep_screenshots)
        super().__init__(service, read, backoff)
        self._excluded = check_excluded(excluded_actions, supported=self.actions)
        declared = declare_all(functions, taken=(*reserved, GIVE_UP.name))
        self._declarations = (GIVE_UP, *declared)
        self._functions = frozenset(
            declaration.name for declaration in self._declarations
        )
        self._keep = keep_screenshots

    def _decision(
        self, answer: ModelAnswer[Call], observation: Observation
    ) -> Decision:
        decided = partial(
            Decision,
            model=answer.model,
            usage=answer.usage,
            stop_at_error=True,
        )
        if (reason := self._reason_to_give_up(answer.calls)) is not None:
            return decided("gave_up", reason or answer.text)
        if not answer.calls:
            return decided("finished", answer.text)
        read = partial(
            Arguments, screen=observation.frame, sent=self._sent(observation)
        )
        groups = self._proposals(answer.calls, read, observation)
        details: dict[str, Any] = {
            self.items_key: answer.items,
            "counts": [len(group) for group in groups],
            "screen": asdict(observation.frame),
        }
        text = answer.text or answer.reasoning
        proposals = tuple(chain.from_iterable(groups))
        return decided(
            "act",
            text,
            proposals,
            provider_details=details,
        )

    def _sent(self, observation: Observation) -> tuple[int, int]:
        """Return the size of the newest screenshot as it is sent."""
        return self._limit.fitted(*png_size(observation.load_png(observation.frame)))

    @abstractmethod
    def _reason_to_give_up(self, calls: Sequence[Call]) -> str | None:
        """Return the reason that a call gives for giving up; None if no call does."""

    @abstractmethod
    def _proposals(
        self,
        calls: Sequence[Call],
        read: Callable[..., Arguments],
        observation: Observation,
    ) -> list[tuple[Proposal, ...]]:
        """Return the proposals of each call, in order, at least one a call. `read`
        makes the arguments of an action.
        """
