"""A planner that asks any model behind chat completions, as LM Studio, vLLM, llama.cpp
and many services serve them.

Nothing is kept between turns: the messages are rebuilt from the observation. Such
models make no safety decisions; the policy's rules apply to them as to any other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit, urlunsplit

from pytest_vnc_use import clock
from pytest_vnc_use.errors import PlannerError, SettingsError
from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.planners.chat.answers import (
    NotJson,
    call_of,
    read_answer,
    read_value,
    usage_of,
)
from pytest_vnc_use.planners.chat.toolsets import TABLES
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import GRID, Arguments, Coordinates
from pytest_vnc_use.planners.common.functions import Declaration, Offered
from pytest_vnc_use.planners.common.http import (
    ApiKey,
    Attempt,
    Backoff,
    Failure,
    Service,
    ask,
    malformed,
    resolve_key,
    resolve_url,
    shortened,
)
from pytest_vnc_use.planners.common.judge import Grid, ServiceJudge
from pytest_vnc_use.planners.common.screens import png_size, resized
from pytest_vnc_use.planners.common.service_planner import ModelAnswer
from pytest_vnc_use.planners.common.toolset import (
    EndOfRun,
    FunctionCall,
    Toolset,
    check_at_least_one,
    left_at,
    reject_call,
)
from pytest_vnc_use.planners.common.turns import screens_seen, steps_of
from pytest_vnc_use.types import (
    CallFunction,
    Decision,
    FrameRef,
    JsonObject,
    Observation,
    Proposal,
    Step,
    Turn,
    Usage,
)

TEXT_RETRIES = 1
"""The maximum retries in one turn after text without a call."""
CALLS_RETRIES = 3
"""The maximum retries in one turn after too many calls."""
BRIEFLY = "answer with a short reason and a tool call"
KEPT_TURNS = 10
MAX_TEXT_LENGTH = 2000
"""The maximum characters of the model's text that are sent again."""
MAX_RESULT_LENGTH = 20_000
"""The maximum characters of a result: a long list of elements, or a page's text."""

Message = dict[str, Any]
Rejection = tuple[str, int]
"""Why an answer is not performed, and the maximum retries for that in one turn."""

_COORDINATES: dict[str, Coordinates] = {"vnc_command": "pixels", "local_agent": "1000"}
"""The unit of coordinates, for the toolsets in which it is fixed."""
_ELEMENT = re.compile(
    r"^\d+\. (.*) at \(-?\d+, -?\d+\), \[(-?\d+), (-?\d+), (-?\d+), (-?\d+)\].*$",
    re.MULTILINE,
)


class OpenAICompatible:
    """A planner for a model behind `base_url`, such as `http://localhost:1234/v1`. The
    default path is `/v1`.

    `toolset` names the model's tools: `commands`, single VNC commands and batches for
    any model that calls tools; `computer_use`, the tool that Qwen's models know;
    `vnc_command`, the tools of an agent with a tool prompt; or `local_agent`, those of
    a local vision agent. The latter two have fixed coordinates. `coordinates` is the
    model's unit:
    "1000" (Qwen3-VL, GLM-V, UI-TARS) or "pixels" (most others). `excluded_actions` are
    names in the toolset. `functions` are Python callables with docstrings and type
    hints, which the agent calls. If `temperature` is None, the model's default applies.
    `reasoning_turns` is how many of the newest turns include reasoning. Raises
    SettingsError.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: ApiKey = None,
        *,
        toolset: str = "commands",
        coordinates: Coordinates = "1000",
        functions: Sequence[Offered] = (),
        excluded_actions: Sequence[str] = (),
        keep_screenshots: int = 3,
        reasoning_turns: int = 0,
        temperature: float | None = None,
        max_tokens: int = 4096,
        system_instruction: str | None = None,
        log: AgentLog | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        check_at_least_one(keep_screenshots=keep_screenshots, max_tokens=max_tokens)
        choices = {
            "coordinates": (coordinates, get_args(Coordinates)),
            "toolset": (toolset, tuple(TABLES)),
        }
        for name, (value, supported) in choices.items():
            if value not in supported:
                raise SettingsError(
                    f"{name} must be one of {', '.join(supported)}, got {value!r}"
                )
        self._coordinates = _COORDINATES.get(toolset, coordinates)
        self._toolset = Toolset(
            TABLES[toolset], functions, excluded_actions, call_in=call_of
        )
        self._service = chat_service(base_url, model, api_key)
        self._max_tokens = max_tokens
        self._temperature = {} if temperature is None else {"temperature": temperature}
        self._keep_screenshots = keep_screenshots
        self._reasoning_turns = reasoning_turns
        self._log = log
        self._system_instruction = system_instruction
        self._backoff = backoff or Backoff()

    @property
    def name(self) -> str:
        """The planner's name with the model and the server."""
        return (
            f"openai-compatible ({self._service.model} at"
            f" {urlsplit(self._service.url).netloc})"
        )

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the model's next turn. Raises PlannerError.

        If nothing of an answer can be performed, the same turn is asked again with a
        line that says why. A model that makes no valid call after that has given up.
        """
        observation = _at_configured_size(observation)
        messages = self._messages(observation)
        rejections = 0
        usage = Usage()
        if self._log and (
            not observation.turns or self._shows_screen(observation.turns[-1])
        ):
            self._log.dump(observation.load_png(observation.frame))

        def note(request: JsonObject, attempt: Attempt[Decision]) -> Attempt[Decision]:
            if self._log:
                self._log.note(request, attempt)
            return attempt

        def read(body: JsonObject) -> Decision | Failure:
            nonlocal rejections, usage
            answer = read_answer(body)
            if isinstance(answer, Failure):
                return answer
            usage += answer.usage
            decision = self._decision(answer, observation)
            if isinstance(decision, tuple):
                line, again = decision
                rejections += 1
                problem = f"nothing of the model's answer can be performed: {line}"
                if rejections <= again:
                    names = ", ".join(call.name for call in answer.calls[:20])
                    text = answer.text or (
                        f"(calls of {names})" if names else "(nothing)"
                    )
                    messages.append({"role": "assistant", "content": _cut(text)})
                    messages.append(user_message(f"Nothing was performed: {line}."))
                    return Failure(PlannerError(problem), again=True, after_s=0.0)
                decision = Decision("gave_up", problem)
            return replace(
                decision, model=answer.model or self._service.model, usage=usage
            )

        return ask(
            self._service,
            lambda: self._request(messages),
            purpose="planner",
            read=read,
            timeout_s=timeout_s,
            report=observation.report,
            backoff=self._backoff.within(observation.request_s),
            after=note,
        )

    def _messages(self, observation: Observation) -> list[Message]:
        """Return the conversation so far. Its size has a limit, however long the run
        is.

        A tool answers in text only, because most servers reject images there; the
        screen follows in a user message. The newest turns are in the model's text. The
        turns before them are summarised in one line a step, and the oldest of these are
        left out.
        """
        system = self._system_instruction
        if system is None:
            where = prompts.format_coordinates(self._sent(observation))
            rules = "\n".join(f"- {rule}" for rule in (where, *self._toolset.rules))
            system = self._toolset.table.operator.format(rules=rules)
        turns = [turn for turn in observation.turns if turn.steps]
        recent = turns[-KEPT_TURNS:]
        older = turns[:-KEPT_TURNS]
        has_screen = [*map(self._shows_screen, recent)]
        first = observation.first_frame if turns else observation.frame
        with_first = not older and sum(has_screen) < self._keep_screenshots
        task = prompts.format_task(observation.task, older)
        messages: list[Message] = [
            {"role": "system", "content": system},
            user_message(task, observation.load_png(first) if with_first else None),
        ]
        seen = screens_seen(recent, observation.frame)[1:]
        for number, (turn, frame) in enumerate(zip(recent, seen, strict=True)):
            is_sent = (
                has_screen[number]
                and sum(has_screen[number + 1 :]) < self._keep_screenshots
            )
            png = observation.load_png(frame) if is_sent else None
            with_reasoning = len(recent) - number <= self._reasoning_turns
            exchange = self._messages_of(
                turn, observation, with_reasoning=with_reasoning
            )
            screen = prompts.NEWER_SCREEN if png is not None else prompts.OLDER_SCREEN
            messages += exchange or [
                user_message(f"{_cut(prompts.format_turn(turn))}\n{screen}", png)
            ]
            if exchange and has_screen[number]:
                messages.append(user_message(screen, png))
        return messages

    def _shows_screen(self, turn: Turn) -> bool:
        """Return whether the model gets a screenshot after this turn."""
        chat = turn.decision.provider_details.get("chat")
        calls = chat["message"]["tool_calls"] if chat else []
        if {call["function"]["name"] for call in calls} == {self._toolset.table.batch}:
            # the results of a batch are text only
            return self._toolset.table.always_shows_screen
        return any(
            self._toolset.shows_screen(str(step.proposal.as_proposed.get("name")))
            for step in turn.steps
        )

    def _messages_of(
        self, turn: Turn, observation: Observation, *, with_reasoning: bool
    ) -> list[Message]:
        """Return the model's message and a result for each of its calls; [] if they
        cannot be sent back.
        """
        details = turn.decision.provider_details.get("chat") or {
            "message": {},
            "actions": [],
        }
        if not details["actions"] or sum(details["actions"]) != len(turn.steps):
            return []
        reasoning = details.get("thoughts", "") if with_reasoning else ""
        content = details["message"]["content"]
        if reasoning:
            content = f"<think>\n{reasoning}\n</think>\n\n{content}"
        messages: list[Message] = [{**details["message"], "content": content}]
        steps = iter(turn.steps)
        for call, count in zip(
            details["message"]["tool_calls"], details["actions"], strict=True
        ):
            call_steps = [*islice(steps, count)]
            results = [self._result_of(step, observation) for step in call_steps]
            if len(results) == 1:
                text = results[0]
            elif results:  # a batch
                names = [step.proposal.as_proposed["name"] for step in call_steps]
                lines = enumerate(zip(names, results, strict=True), start=1)
                text = "\n".join(
                    f"{number}. {name}: {result}" for number, (name, result) in lines
                )
            else:  # Only one call was performed.
                problem = (
                    f"{call['function']['name']}: one call a turn is performed; call it"
                    " again if need be"
                )
                text = json.dumps(
                    {
                        "ok": False,
                        "error": {"type": "too_many_tool_calls", "message": problem},
                    }
                )
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "content": _cut(text, MAX_RESULT_LENGTH),
                }
            )
        return messages

    def _result_of(self, step: Step, observation: Observation) -> str:
        """Return the result of one step as text for the model."""
        if self._toolset.table.typed_errors:
            return prompts.typed_result(step)
        name = step.proposal.as_proposed.get("name")
        output = step.output
        if name == "detect_elements":
            sent = self._sent(observation)
            scale = sent[0] / observation.frame.width if sent else 1.0
            output = _ELEMENT.sub(partial(_with_size, scale=scale), output)
        if name == "get_timing" and output and (sent := self._sent(observation)):
            output = f"{output}\nscreenshot: {sent[0]} x {sent[1]} pixels"
        return prompts.format_result(replace(step, output=output))

    def _sent(self, observation: Observation) -> tuple[int, int] | None:
        """Return the size of the newest screenshot if the model's coordinates are
        pixels of it.
        """
        if self._coordinates != "pixels":
            return None
        return png_size(observation.load_png(observation.frame))

    def _request(self, messages: Sequence[Message]) -> JsonObject:
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in self._toolset.declarations
        ]
        table = self._toolset.table
        request = {
            "model": self._service.model,
            "messages": list(messages),
            "tools": tools,
            "tool_choice": "auto",
            "max_tokens": self._max_tokens,
            **self._temperature,
        }
        if table.max_actions == 1 and not table.typed_errors:
            request["parallel_tool_calls"] = False
        return request

    def _decision(
        self, answer: ModelAnswer[FunctionCall], observation: Observation
    ) -> Decision | Rejection:
        if answer.cut_off:
            return (
                f"your answer was cut off at max_tokens={self._max_tokens}; {BRIEFLY}",
                TEXT_RETRIES,
            )
        if not answer.calls and self._toolset.table.text_ends:
            return Decision(self._toolset.table.text_ends, answer.text)
        if not answer.calls:
            text = repr(answer.text[:200]) if answer.text else "nothing"
            return (
                f"you answered without a tool call, with {text}; {BRIEFLY}",
                TEXT_RETRIES,
            )
        pointer = left_at(observation.turns)
        sent = self._sent(observation)
        make_args = partial(
            Arguments, screen=observation.frame, sent=sent, pointer=pointer
        )
        table = self._toolset.table
        declared = self._toolset.declarations
        readings = [
            self._toolset.read(_typed(call, declared), make_args)
            for call in answer.calls
        ]
        if table.typed_errors:
            readings = readings[: table.max_actions]
        actions = 0
        for reading in readings:
            actions += 1 if isinstance(reading, EndOfRun) else len(reading)
        if actions > table.max_actions:
            maximum = count_of(table.max_actions, "action")
            problem = (
                f"one turn may hold {maximum}, got {actions}; nothing was performed"
            )
            return problem, CALLS_RETRIES
        # Giving up ends the run despite other calls. Success must be visible first, so
        # it must be the only call.
        for reading in readings:
            if isinstance(reading, EndOfRun) and (
                reading.kind == "gave_up" or len(readings) == 1
            ):
                return Decision(reading.kind, reading.text or answer.text)
        proposals: list[Proposal] = []
        counts = [0] * len(answer.calls)
        for number, reading in enumerate(readings):
            if isinstance(reading, EndOfRun):
                reading = (reject_call(answer.calls[number], prompts.TOO_EARLY),)
            counts[number] = len(reading)
            proposals += reading
        details = details_of(answer, counts, len(observation.turns) + 1)
        return Decision(
            "act",
            answer.text,
            tuple(proposals),
            stop_at_error=True,
            provider_details=details,
        )


def _at_configured_size(observation: Observation) -> Observation:
    """Return the observation with screenshots no longer on any side than the newest
    call of `configure` allows.
    """
    max_side = 0
    for step in steps_of(observation.turns):
        action = step.proposal.action
        if prompts.problem_of(step) or not isinstance(action, CallFunction):
            continue
        if action.name == "configure":
            max_side = action.arguments.get("screenshot_max_side") or max_side
    if not max_side:
        return observation

    def load(screen: FrameRef) -> bytes:
        png = observation.load_png(screen)
        width, height = png_size(png)
        scale = min(1.0, max_side / max(width, height))
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        return resized(png, size)

    return replace(observation, load_png=load)


def _typed(call: FunctionCall, declarations: Sequence[Declaration]) -> FunctionCall:
    """Return the call with values of the types that its tool declares: in some forms
    each value is text.
    """
    schemas = [
        declaration.parameters
        for declaration in declarations
        if declaration.name == call.name
    ]
    properties: JsonObject = schemas[0].get("properties", {}) if schemas else {}
    args = dict(call.args)
    for name, value in args.items():
        if (
            isinstance(value, str)
            and properties.get(name, {}).get("type", "string") != "string"
        ):
            with suppress(NotJson):
                args[name] = read_value(value)
    return replace(call, args=args)


def _with_size(element: re.Match[str], scale: float) -> str:
    """Return a listed element as its name with x, y, w and h, in pixels of the
    screenshot that was sent.
    """
    corners = [round(int(number) * scale) for number in element.groups()[1:]]
    left, top, right, bottom = corners
    return f"{element[1]} (x={left}, y={top}, w={right - left}, h={bottom - top})"


def user_message(text: str, png: bytes | None = None) -> Message:
    """Return a message of the user, with the image after the text."""
    if png is None:
        return {"role": "user", "content": text}
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return {
        "role": "user",
        "content": [
            {"type": "text", "text": text},
            {"type": "image_url", "image_url": {"url": url}},
        ],
    }


def details_of(
    answer: ModelAnswer[FunctionCall], actions: Sequence[int], number: int
) -> JsonObject:
    """Return the data of an answer to send back: its calls, each with an id, and the
    number of actions of each.

    Its reasoning is separate. The arguments are written as JSON again, because servers
    fail on a history with other arguments. `number` is the turn's.
    """
    ids = [call.id for call in answer.calls]
    if not all(ids) or len(set(ids)) < len(ids):
        ids = [f"call_{number}_{index}" for index in range(len(ids))]
    calls: list[JsonObject] = []
    for call, call_id in zip(answer.calls, ids, strict=True):
        function = {
            "name": call.name or "unknown",
            "arguments": json.dumps(dict(call.args)),
        }
        calls.append(
            {"id": call_id, "type": "function", "function": function, **call.extra}
        )
    message = {"role": "assistant", "content": _cut(answer.text), "tool_calls": calls}
    reasoning = {"thoughts": _cut(answer.reasoning)} if answer.reasoning else {}
    return {"chat": {"message": message, "actions": list(actions), **reasoning}}


def _cut(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    if len(text) <= max_length:
        return text
    return f"{text[:max_length]} … (cut, of {len(text)} characters)"


def chat_service(base_url: str, model: str, api_key: ApiKey = None) -> Service:
    """Return the service at `base_url`, such as `http://localhost:1234/v1`. The default
    path is `/v1`.

    The whole endpoint, with `/chat/completions`, means the same. Raises SettingsError,
    and KeyRejected if the key cannot be sent.
    """
    for name, text in (("base_url", base_url), ("model", model)):
        if not text:
            raise SettingsError(f"{name} must not be empty, got {text!r}")
    has_key = callable(api_key) or bool((api_key or "").strip())
    key = resolve_key(api_key, ()) if has_key else ""
    split_url = urlsplit(resolve_url(base_url) or "")
    if split_url.username is not None:
        raise SettingsError(
            "base_url must not contain a user name or a password. Pass the key as"
            " api_key"
        )
    path = split_url.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    url = urlunsplit(split_url._replace(path=f"{path}/chat/completions"))
    return Service(
        url,
        model,
        key,
        {"Authorization": f"Bearer {key}"} if key else {},
        usage_of,
        api_key,
        # GLM reports an outage as {"code", "msg"}, with status 200
        answer_fields=("choices", "code"),
        url_help=(
            "vnc_base_url must be the URL that has /chat/completions below it, such as"
            " http://host:8000/v1"
        ),
    )


class ChatJudge(ServiceJudge):
    """A judge that asks the model behind `base_url`, such as
    `http://localhost:1234/v1`.

    `coordinates` is the model's unit, as for the planner. Without a `temperature` the
    model's default applies. `max_tokens` counts thinking too. Raises SettingsError, and
    KeyRejected if the key cannot be sent.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: ApiKey = None,
        *,
        coordinates: Coordinates = "1000",
        temperature: float | None = None,
        max_tokens: int = 4096,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(
            chat_service(base_url, model, api_key), self._whole_answer, backoff=backoff
        )
        self._coordinates = coordinates
        self._max_tokens = max_tokens
        self._fixed: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
        if temperature is not None:
            self._fixed["temperature"] = temperature

    def _grid(self, screen: FrameRef) -> Grid:
        if self._coordinates == "pixels":
            return Grid(screen.width, screen.height)
        return Grid(GRID, GRID)

    def _body(self, rules: str, observation: Observation) -> JsonObject:
        question = user_message(
            observation.task, observation.load_png(observation.frame)
        )
        return {
            **self._fixed,
            "messages": [{"role": "system", "content": rules}, question],
        }

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        described = {"name": name, "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": described}}

    def _whole_answer(self, body: JsonObject) -> ModelAnswer[FunctionCall] | Failure:
        answer = read_answer(body)
        if isinstance(answer, Failure):
            return answer
        if answer.cut_off:
            return malformed(f"it was cut off at max_tokens={self._max_tokens}")
        return replace(answer, model=answer.model or self._service.model)


class AgentLog:
    """The files of a local vision agent: its screenshots in a directory, numbered from
    `start`, such as `PREFIX0001.png`, and a log of requests.

    The log is `agent_run_YYYYMMDD_HHMMSS.log` in the working directory. In it tools and
    prompts are cut, and images are digests with their lengths; responses are whole.
    """

    def __init__(self, directory: str, prefix: str, start: int) -> None:
        self._directory = Path(directory)
        self._prefix = prefix
        self._next = start
        self._log = Path(f"agent_run_{clock.utc_now():%Y%m%d_%H%M%S}.log").resolve()

    def dump(self, png: bytes) -> None:
        """Write the next screenshot."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / f"{self._prefix}{self._next:04d}.png").write_bytes(png)
        self._next += 1

    def note(self, request: JsonObject, attempt: Attempt[Any]) -> None:
        """Add a request and its response to the log."""
        short = {**_summary(request), "tools": f"({len(request['tools'])} tools)"}
        failed: dict[str, str] = {}
        if isinstance(attempt.result, Failure):
            failed["error"] = str(attempt.result.error)
        with self._log.open("a", encoding="utf-8") as file:
            for title, body in (
                ("REQUEST", short),
                ("RESPONSE", attempt.response or failed),
            ):
                file.write(
                    f"{clock.utc_now():%Y-%m-%d %H:%M:%S}"
                    f" {title}\n{json.dumps(body, indent=2)}\n"
                )


def _summary(value: Any) -> Any:
    """Return JSON with each image as its digest and length, and long texts cut."""
    match value:
        case str() if value.startswith("data:image/"):
            data = value.partition(",")[2]
            return (
                f"sha256:{hashlib.sha256(data.encode()).hexdigest()} ({len(data)}"
                " characters)"
            )
        case str():
            return shortened(value, 200)
        case dict():
            return {name: _summary(inner) for name, inner in value.items()}
        case list():
            return [_summary(inner) for inner in value]
        case _:
            return value
