"""Requests to Gemini's service by Google's SDK, and their errors."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from google import genai
from google.genai import errors, types
from pydantic import ValidationError

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import ModelUnavailable, PlannerError
from pytest_vnc_use.planners.common.certificates import certificate_failure
from pytest_vnc_use.planners.common.endpoint import UNSENT, Endpoint, http_errors, limit_stream
from pytest_vnc_use.planners.common.http_json import load_certificates
from pytest_vnc_use.planners.common.json_answers import NotJson, malformed, read_json, redact_key
from pytest_vnc_use.planners.common.proxies import Route, is_loopback
from pytest_vnc_use.planners.common.retry import Attempt, Failure, ask, request_size
from pytest_vnc_use.planners.gemini.answers import (
    GeminiAnswer,
    answer_failure,
    failure_of_error,
    loggable,
    read_answer,
    usage_of,
    without,
)
from pytest_vnc_use.types import JsonObject, Report

API_VERSION = "v1beta"
"""The version with documented Computer Use. The SDK's own default has changed between its versions."""

CLEAN_UP_S = 1.0
"""The extra seconds that the SDK may wait after our own time limit. A request that was given up then ends by itself."""


def generate(
    endpoint: Endpoint,
    model: str,
    contents: Sequence[types.Content],
    config: types.GenerateContentConfig,
    *,
    purpose: str,
    timeout_s: float,
    report: Report,
) -> GeminiAnswer:
    """Return the first usable answer to the contents, within the attempts of `endpoint.backoff`. Raises PlannerError.

    The time that is left bounds every attempt, even if an answer comes a byte at a time.
    """

    def respond(client: genai.Client) -> str:
        """Return the text of one response as it came. The SDK's own parser warns about unknown enum values."""
        response = client.models.generate_content(model=model, contents=list(contents), config=config)
        return (response.sdk_http_response and response.sdk_http_response.body) or ""

    def send(attempt_s: float) -> Attempt[GeminiAnswer]:
        body, failure = _ask(endpoint, model, respond, attempt_s, route := Route())
        failure = failure and route.explain(failure, body)
        request = loggable(json.loads(route.sent), key=endpoint.api_key) if route.sent else {"model": model}
        response = loggable(body, key=endpoint.api_key) if body else None
        result = failure or _read(body, detects_injection=_detects_injection(config))
        return Attempt(request, response, result, usage_of(body))

    plain = {**config.model_dump(), "model": model, "contents": [content.model_dump() for content in contents]}
    return ask(send, asked=request_size(purpose, plain), timeout_s=timeout_s, report=report, backoff=endpoint.backoff)


def describe_model(endpoint: Endpoint, model: str, *, timeout_s: float) -> JsonObject:
    """Return the service's description of a model, to check the key and the model's name. One request, free of charge.

    Raises PlannerError, KeyRejected among them.
    """

    def respond(client: genai.Client) -> str:
        return client.models.get(model=model).model_dump_json()

    body, failure = _ask(endpoint, model, respond, timeout_s, route := Route())
    if failure is not None:
        raise route.explain(failure, body).error from None
    return body


def _ask(
    endpoint: Endpoint, model: str, respond: Callable[[genai.Client], str], timeout_s: float, route: Route
) -> tuple[JsonObject, Failure | None]:
    """Return the response of one request. Errors of the SDK and its HTTP library become a failure, in our words."""
    unsent = False
    try:
        with closing(_client(endpoint, timeout_s, route)) as client:
            body = read_json(Deadline(timeout_s).call(partial(respond, client)))
        if not body.get("error"):
            return body, None
        details = loggable(body, key=endpoint.api_key)  # an error in a response of status 200
        error = details["error"] if isinstance(details["error"], dict) else {"message": details["error"]}
        code = error.get("code")
        return details, failure_of_error(code if isinstance(code, int) else 200, {"error": error}, model=model)
    except errors.APIError as exc:
        fields = exc.details if isinstance(exc.details, dict) else {"message": exc.details}
        details = loggable(fields, key=endpoint.api_key)
        return details, failure_of_error(exc.code, details, model=model)
    except NotJson as exc:
        unavailable = str(exc)
    except DeadlineExceeded:
        unavailable = f"the model's service did not answer within {timeout_s:.1f} s"
    except http_errors() as exc:
        if failure := certificate_failure(exc):
            return {}, failure
        unavailable, unsent = f"the model's service cannot be reached: {exc!r}", isinstance(exc, http_errors(UNSENT))
    except Exception as exc:  # noqa: BLE001  # any error: the frames of its traceback hold the API key
        problem = f"the model's service could not be asked: {exc!r}"
        return {}, Failure(PlannerError(redact_key(problem, key=endpoint.api_key)), unbilled=True)
    return {}, Failure(ModelUnavailable(redact_key(unavailable, key=endpoint.api_key)), again=True, unbilled=unsent)


def _read(body: JsonObject, *, detects_injection: bool) -> GeminiAnswer | Failure:
    """Return the answer if it is usable and can be sent back in the next turn; else a failure."""
    answer = read_answer(body)
    failure = answer_failure(answer, detects_injection=detects_injection)
    if failure is not None:
        return failure
    try:
        models_words(answer.content)
    except (ValidationError, LookupError, UserWarning) as exc:
        return malformed(str(exc))
    return answer


def _detects_injection(config: types.GenerateContentConfig) -> bool:
    computers = [tool.computer_use for tool in config.tools or () if isinstance(tool, types.Tool)]
    return any(computer is not None and computer.enable_prompt_injection_detection for computer in computers)


def _client(endpoint: Endpoint, timeout_s: float, route: Route) -> genai.Client:
    """Return a client for one request, which `route` follows. A client that is kept leaves its sockets open."""

    def bound(response: Any) -> None:
        response.stream = limit_stream(response)

    trust_env = not is_loopback(endpoint.base_url or "")
    options = types.HttpOptions(
        base_url=endpoint.base_url,
        api_version=API_VERSION,
        timeout=int((timeout_s + CLEAN_UP_S) * 1000),  # milliseconds
        # a late answer to a closed client leaves no socket open
        headers={"Connection": "close", "Accept-Encoding": "identity"},
        # the SDK would follow a redirect with the key, wherever it leads
        client_args={
            "event_hooks": {"request": [route.follow], "response": [bound]},
            "follow_redirects": False,
            "verify": load_certificates(),
            "trust_env": trust_env,
        },
        # unused, but else the SDK reads the certificates again for each client
        async_client_args={"ssl": load_certificates(), "trust_env": trust_env},
    )
    return genai.Client(vertexai=False, api_key=endpoint.api_key, http_options=options)


def base_config(**fields: Any) -> types.GenerateContentConfig:
    """Return a request's settings: `fields`, no function calls by the SDK, and the response as it came.

    Sampling parameters are not set: models from 3.6 on refuse them.
    """
    return types.GenerateContentConfig(
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        should_return_http_response=True,
        **fields,
    )


def models_words(content: JsonObject) -> types.Content:
    """Return the content for the SDK, without fields unknown to it. Raises ValidationError if it is no content."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the SDK warns about values newer than itself
            return types.Content.model_validate({**content, "role": "model"})
    except ValidationError as exc:
        unknown = [error["loc"] for error in exc.errors() if error["type"] == "extra_forbidden"]
        if not unknown:
            raise
    return models_words(without(content, unknown))
