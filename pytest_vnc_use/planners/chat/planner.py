"""A planner that asks any model behind chat completions, as LM Studio, vLLM, llama.cpp and many services serve them.

Nothing is kept between turns: the messages are rebuilt from the observation. Such models make no safety decisions of
their own; the policy's rules hold for them as for any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import get_args
from urllib.parse import urlsplit

from pytest_vnc_use.errors import PlannerError, SettingsError
from pytest_vnc_use.planners.chat.answers import ChatAnswer, NotJson, ToolCall, read_answer, read_value
from pytest_vnc_use.planners.chat.commands import Commands
from pytest_vnc_use.planners.chat.messages import Message, details_of, rebuild_messages, refusal_messages
from pytest_vnc_use.planners.chat.qwen_tool import ComputerUse
from pytest_vnc_use.planners.chat.service import chat_service
from pytest_vnc_use.planners.chat.vnc_command import VncCommand
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.boxes import GRID, Coordinates
from pytest_vnc_use.planners.common.calls import FunctionCall
from pytest_vnc_use.planners.common.functions import Declaration, Offered
from pytest_vnc_use.planners.common.http_json import post_json
from pytest_vnc_use.planners.common.pixels import png_size
from pytest_vnc_use.planners.common.retry import Attempt, Backoff, Failure, ask, request_size
from pytest_vnc_use.planners.common.vocabulary import (
    EndOfRun,
    Reading,
    ScreenArguments,
    Vocabulary,
    check_at_least_one,
    left_at,
    listed_in,
    refused,
)
from pytest_vnc_use.types import Decision, JsonObject, Observation, Usage

VOCABULARIES: dict[str, Callable[..., Vocabulary]] = {
    "commands": Commands,
    "computer_use": ComputerUse,
    "vnc_command": VncCommand,
}

WORDS_AGAIN, CALLS_AGAIN = 1, 3
"""The most repeated requests in one turn: after words without a call, and after too many calls."""

MOST_CALLS = 40
"""The most calls of an answer that is carried out in part; with more calls it is refused as a whole."""

BRIEFLY = "answer with a short reason and a tool call"


@dataclass(frozen=True)
class Refused:
    """An answer that is not carried out: the message to the model, and how often it may be sent in one turn."""

    line: str
    again: int


@dataclass
class _Asking:
    """The state of one turn's requests: the messages, with refused answers added, and the tokens of all."""

    observation: Observation
    messages: list[Message]
    refusals: int = 0
    usage: Usage = field(default_factory=Usage)


class OpenAICompatible:
    """A planner for a model behind `base_url`, such as `http://localhost:1234/v1`. The default path is `/v1`.

    `vocabulary` is `commands`, single VNC commands and batches for any model that calls tools, or `computer_use`, the
    tool that Qwen's models know, or `vnc_command`, commands and queues of them in one tool each. `coordinates` is the
    model's unit: "1000" (Qwen3-VL, GLM-V, UI-TARS) or "pixels" (most others). `excluded_actions` are names in the
    vocabulary. `functions` are Python callables with docstrings and type hints, which the agent calls. If `temperature`
    is None, the model's own holds. `keep_thoughts` is how many of the newest turns go back with the model's thoughts.
    `error_format` is `text` or `json`, an object with the kind of the error. `extra_calls` is for an answer with too
    many calls: `refuse` refuses all of them, `first` carries out the first ones. Raises SettingsError.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str = "",
        *,
        vocabulary: str = "commands",
        coordinates: Coordinates = "1000",
        functions: Sequence[Offered] = (),
        excluded_actions: Sequence[str] = (),
        keep_screenshots: int = 3,
        include_initial_screenshot: bool = True,
        keep_thoughts: int = 0,
        error_format: str = "text",
        extra_calls: str = "refuse",
        temperature: float | None = None,
        max_tokens: int = 4096,
        system_instruction: str | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        check_at_least_one(keep_screenshots=keep_screenshots, max_tokens=max_tokens)
        _check_known("coordinates", coordinates, get_args(Coordinates))
        _check_known("vocabulary", vocabulary, tuple(VOCABULARIES))
        _check_known("error_format", error_format, ("text", "json"))
        _check_known("extra_calls", extra_calls, ("refuse", "first"))
        self._takes_first = extra_calls == "first"
        self._coordinates = coordinates
        self._vocabulary = VOCABULARIES[vocabulary](functions, excluded_actions)
        self._service = chat_service(base_url, model, api_key)
        self._max_tokens = max_tokens
        self._temperature = {} if temperature is None else {"temperature": temperature}
        self._rebuild_messages = partial(
            rebuild_messages,
            keep_screenshots=keep_screenshots,
            include_initial_screenshot=include_initial_screenshot,
            keep_thoughts=keep_thoughts,
            result_of=prompts.result_in_json if error_format == "json" else prompts.result_in_words,
        )
        self._system_instruction = system_instruction
        self._backoff = backoff or Backoff()

    @property
    def name(self) -> str:
        """The planner's name with the model and the server."""
        return f"openai-compatible ({self._service.model} at {urlsplit(self._service.url).netloc})"

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the model's next turn. Raises PlannerError."""
        asking = _Asking(observation, self._messages(observation))

        def send(attempt_s: float) -> Attempt[Decision]:
            request = self._request(asking.messages)
            return post_json(self._service, request, timeout_s=attempt_s, read=partial(self._read, asking))

        asked = request_size("planner", self._request(asking.messages))
        backoff = self._backoff.within(observation.request_s)
        return ask(send, asked=asked, timeout_s=timeout_s, report=observation.report, backoff=backoff)

    # --- asking ------------------------------------------------------------------------------------------------------

    def _messages(self, observation: Observation) -> list[Message]:
        system = self._system_instruction
        if system is None:
            where = prompts.coordinates_in_words(self._coordinates, self._counted(observation))
            system = prompts.tool_operator(where, *self._vocabulary.rules)
        return self._rebuild_messages(observation, system=system)

    def _counted(self, observation: Observation) -> tuple[int, int]:
        """Return the width and the height of the newest screenshot in the model's unit."""
        return png_size(observation.load_png(observation.frame)) if self._coordinates == "pixels" else (GRID, GRID)

    def _request(self, messages: Sequence[Message]) -> JsonObject:
        tools = [_tool(declaration) for declaration in self._vocabulary.declarations]
        single = {"parallel_tool_calls": False} if self._vocabulary.most_actions == 1 else {}
        base = {"model": self._service.model, "messages": list(messages), "tools": tools, "tool_choice": "auto"}
        return {**base, "max_tokens": self._max_tokens, **self._temperature, **single}

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, asking: _Asking, body: JsonObject) -> Decision | Failure:
        """Return the decision; or a failure, after which the same turn is asked again with a line that says why.

        A model that makes no valid call after that has given up.
        """
        answer = read_answer(body)
        if isinstance(answer, Failure):
            return answer
        asking.usage += answer.usage
        decision = self._decision(answer, asking.observation)
        if isinstance(decision, Refused):
            asking.refusals += 1
            problem = f"nothing of the model's answer can be carried out: {decision.line}"
            if asking.refusals <= decision.again:
                asking.messages += refusal_messages(answer, decision.line)
                return Failure(PlannerError(problem), again=True, after_s=0.0)
            decision = Decision("gave_up", problem)
        return replace(decision, model=answer.model or self._service.model, usage=asking.usage)

    def _decision(self, answer: ChatAnswer, observation: Observation) -> Decision | Refused:
        if answer.cut_off:
            return Refused(f"your answer was cut off at max_tokens={self._max_tokens}; {BRIEFLY}", WORDS_AGAIN)
        if not answer.calls:
            words = repr(answer.words[:200]) if answer.words else "nothing"
            return Refused(f"you answered without a tool call, with {words}; {BRIEFLY}", WORDS_AGAIN)
        readings = self._readings(answer.calls, observation)
        asked, most = sum(map(_actions_in, readings)), self._vocabulary.most_actions
        if asked > most and self._takes_first and len(readings) <= MOST_CALLS and _actions_in(readings[0]) <= most:
            readings = _first_of(answer.calls, readings, most)
        elif asked > most:
            problem = f"one turn may hold {most} action{'s' if most > 1 else ''}, got {asked}; nothing was carried out"
            return Refused(problem, CALLS_AGAIN)
        ended = _ending(readings)
        if ended is not None:
            return Decision(ended.kind, ended.words or answer.words)
        return _acting(answer, readings, number=len(observation.turns) + 1)

    def _readings(self, calls: Sequence[ToolCall], observation: Observation) -> list[Reading]:
        """Return the meaning of each call, for the newest screen and the pointer's last place."""
        pointer = left_at(observation.turns)
        spell = partial(
            ScreenArguments,
            screen=observation.frame,
            counted=self._counted(observation),
            pointer=pointer,
            sent=png_size(observation.load_png(observation.frame)),
            listed=listed_in(observation.turns),
        )
        read, known = self._vocabulary.read, self._vocabulary.declarations
        return [
            (refused(call.call, call.problem),) if call.problem else read(_typed(call.call, known), spell)
            for call in calls
        ]


def _first_of(calls: Sequence[ToolCall], readings: Sequence[Reading], most: int) -> list[Reading]:
    """Return the first readings, of at most `most` actions, and a refusal of each call after them."""
    sums = accumulate(map(_actions_in, readings))
    problem = f"one turn may hold {most} action{'s' if most > 1 else ''}, and this call was not carried out"
    return [
        reading if total <= most else (refused(call.call, f"{call.call.name}: {problem}; call it again if need be"),)
        for call, reading, total in zip(calls, readings, sums, strict=True)
    ]


def _actions_in(reading: Reading) -> int:
    return 1 if isinstance(reading, EndOfRun) else len(reading)


def _ending(readings: Sequence[Reading]) -> EndOfRun | None:
    """Return the end of the run, if there is one.

    Giving up ends the run whatever other calls there are. Success must be visible first, so it ends the run only alone.
    """
    endings = [reading for reading in readings if isinstance(reading, EndOfRun)]
    valid = [ended for ended in endings if ended.kind == "gave_up" or len(readings) == 1]
    return valid[0] if valid else None


def _acting(answer: ChatAnswer, readings: Sequence[Reading], *, number: int) -> Decision:
    """Return the decision with the turn's proposals in order. If one fails, those after it are skipped."""
    groups = [
        (refused(call.call, prompts.TOO_EARLY),) if isinstance(reading, EndOfRun) else reading
        for call, reading in zip(answer.calls, readings, strict=True)
    ]
    return Decision(
        "act",
        answer.words,
        tuple(proposal for group in groups for proposal in group),
        stop_at_error=True,
        provider_details=details_of(answer, [len(group) for group in groups], number),
    )


def _typed(call: FunctionCall, known: Sequence[Declaration]) -> FunctionCall:
    """Return the call with values of the types that its tool declares: in some forms each value is text."""
    schemas = [each.parameters for each in known if each.name == call.name]
    properties: JsonObject = schemas[0].get("properties", {}) if schemas else {}
    args = dict(call.args)
    for name, value in args.items():
        if isinstance(value, str) and properties.get(name, {}).get("type", "string") != "string":
            with suppress(NotJson):
                args[name] = read_value(value)
    return replace(call, args=args)


def _tool(declaration: Declaration) -> JsonObject:
    function = {
        "name": declaration.name,
        "description": declaration.description,
        "parameters": dict(declaration.parameters),
    }
    return {"type": "function", "function": function}


def _check_known(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise SettingsError(f"{name} must be one of {', '.join(known)}, got {value!r}")
