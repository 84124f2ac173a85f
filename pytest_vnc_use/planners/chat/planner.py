"""A planner that asks any model behind chat completions, as LM Studio, vLLM, llama.cpp and many services serve them.

Nothing is kept between turns: the messages are rebuilt from the observation. Such models make no safety decisions of
their own; the policy's rules hold for them as for any other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, get_args
from urllib.parse import urlsplit, urlunsplit

from pytest_vnc_use.errors import PlannerError, SettingsError
from pytest_vnc_use.planners.chat.answers import ChatAnswer, NotJson, ToolCall, read_answer, read_value, usage_of
from pytest_vnc_use.planners.chat.commands import Commands
from pytest_vnc_use.planners.chat.qwen_tool import ComputerUse
from pytest_vnc_use.planners.chat.vnc_command import VncCommand
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import GRID, Coordinates
from pytest_vnc_use.planners.common.functions import Declaration, Offered
from pytest_vnc_use.planners.common.http import (
    Attempt,
    Backoff,
    Failure,
    Service,
    ask,
    found_key,
    found_url,
    post_json,
    request_size,
)
from pytest_vnc_use.planners.common.screens import png_size
from pytest_vnc_use.planners.common.toolset import (
    EndOfRun,
    FunctionCall,
    Reading,
    ScreenArguments,
    Vocabulary,
    check_at_least_one,
    left_at,
    listed_in,
    refused,
)
from pytest_vnc_use.planners.common.turns import screens_seen
from pytest_vnc_use.types import Decision, JsonObject, Observation, Step, Turn, Usage

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


KEPT_TURNS = 10
LONGEST_TEXT = 2000
"""The most characters of a result, or of the model's own words, that are sent again."""

Message = dict[str, Any]


def rebuild_messages(
    observation: Observation,
    *,
    system: str,
    keep_screenshots: int,
    include_initial_screenshot: bool = True,
    keep_thoughts: int = 0,
    result_of: Callable[[Step], str] = prompts.result_in_words,
) -> list[Message]:
    """Return the conversation so far with the newest `keep_screenshots` pictures. A line replaces each older one.

    The newest `keep_thoughts` turns are sent with the model's thoughts. `result_of` writes the result of a step.
    """
    turns = [turn for turn in observation.turns if turn.steps]
    recent, older = turns[-KEPT_TURNS:], turns[:-KEPT_TURNS]
    task = prompts.task_in_words(observation.task, older)
    first = observation.first_frame if turns else observation.frame
    with_first = include_initial_screenshot and not older and len(recent) < keep_screenshots
    first_png = observation.load_png(first) if with_first else None
    messages = [{"role": "system", "content": system}, user_message(task, first_png)]
    seen = screens_seen(recent, observation.frame)[1:]
    for age, turn, frame in zip(reversed(range(len(recent))), recent, seen, strict=True):
        png = observation.load_png(frame) if age < keep_screenshots else None
        messages += _messages_of(turn, png, result_of, with_thoughts=age < keep_thoughts)
    return messages


def _messages_of(
    turn: Turn, png: bytes | None, result_of: Callable[[Step], str], *, with_thoughts: bool
) -> Iterator[Message]:
    """Yield the model's words, a result for each of its calls, and the screen; or a summary in a user message."""
    details = turn.decision.provider_details.get("chat") or {"message": {}, "actions": []}
    screen = prompts.NEWER_SCREEN if png is not None else prompts.OLDER_SCREEN
    if not details["actions"] or sum(details["actions"]) != len(turn.steps):
        yield user_message(f"{_cut(prompts.format_turn(turn))}\n{screen}", png)
        return
    thoughts = details.get("thoughts", "") if with_thoughts else ""
    words = details["message"]["content"]
    yield {**details["message"], "content": f"<think>\n{thoughts}\n</think>\n\n{words}" if thoughts else words}
    steps = iter(turn.steps)
    for call, count in zip(details["message"]["tool_calls"], details["actions"], strict=True):
        result = _result([next(steps) for _ in range(count)], result_of)
        yield {"role": "tool", "tool_call_id": call["id"], "content": result}
    yield user_message(screen, png)


def _result(steps: Sequence[Step], result_of: Callable[[Step], str]) -> str:
    """Return the result of one call, or the results of each action of a batch."""
    if len(steps) == 1:
        return _cut(result_of(steps[0]))
    results = [f"{step.proposal.as_proposed['name']}: {result_of(step)}" for step in steps]
    return _cut("\n".join(f"{number}. {line}" for number, line in enumerate(results, start=1)))


def user_message(text: str, png: bytes | None = None) -> Message:
    """Return a message of the user, with the picture after the text."""
    if png is None:
        return {"role": "user", "content": text}
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return {
        "role": "user",
        "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}],
    }


def details_of(answer: ChatAnswer, actions: Sequence[int], number: int) -> JsonObject:
    """Return the data of an answer to send back: its calls, each with an id, and the number of actions of each.

    Its thoughts are kept apart. The arguments are written as JSON again, because servers fail on a history with other
    arguments. `number` is the turn's.
    """
    ids = [call.call.id for call in answer.calls]
    if not all(ids) or len(set(ids)) < len(ids):
        ids = [f"call_{number}_{place}" for place in range(len(ids))]
    calls: list[JsonObject] = []
    for call, call_id in zip(answer.calls, ids, strict=True):
        function = {"name": call.call.name or "unknown", "arguments": json.dumps(dict(call.call.args))}
        calls.append({"id": call_id, "type": "function", "function": function, **call.extra})
    message = {"role": "assistant", "content": _cut(answer.words), "tool_calls": calls}
    thoughts = {"thoughts": _cut(answer.thoughts)} if answer.thoughts else {}
    return {"chat": {"message": message, "actions": list(actions), **thoughts}}


def refusal_messages(answer: ChatAnswer, line: str) -> list[Message]:
    """Return an answer that is not carried out, and the line that says why."""
    calls = ", ".join(call.call.name for call in answer.calls[:20])
    words = answer.words or (f"(calls of {calls})" if calls else "(nothing)")
    return [{"role": "assistant", "content": _cut(words)}, user_message(prompts.not_carried_out(line))]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} … (cut, of {len(text)} characters)"


def chat_service(base_url: str, model: str, api_key: str = "") -> Service:
    """Return the service at `base_url`, such as `http://localhost:1234/v1`. The default path is `/v1`.

    Raises SettingsError, and KeyRejected if the key cannot be sent.
    """
    for name, text in (("base_url", base_url), ("model", model)):
        if not text:
            raise SettingsError(f"{name} must not be empty, got {text!r}")
    key = found_key(api_key, ()) if api_key.strip() else ""
    parts = urlsplit(found_url(base_url) or "")
    if parts.username is not None:
        raise SettingsError("base_url must be without a user and a password; pass the key as api_key")
    path = parts.path.rstrip("/") or "/v1"
    url = urlunsplit(parts._replace(path=f"{path}/chat/completions"))
    return Service(url, model, key, {"Authorization": f"Bearer {key}"} if key else {}, usage_of)
