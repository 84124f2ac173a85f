"""The fake server for Gemini refuses the requests that Google would: one sound request, and each way to spoil it."""

from __future__ import annotations

import base64
import copy
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.gemini_rules import COMPUTER_USE_ONLY, camel_case
from support.gemini_server import API_KEY, GeminiServer, calls, text, wants_confirmation

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\xfb\xff\xfe\xfb\xff").decode()
URL_SAFE = str.maketrans("+/", "-_")
Body = dict[str, Any]


def send(url: str, body: Body, *, model: str = "gemini-3.8-flash", version: str = "v1beta", key: str = API_KEY) -> Body:
    request = urllib.request.Request(
        f"{url}/{version}/models/{model}:generateContent", json.dumps(body).encode(), {"x-goog-api-key": key}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            answered: Body = json.load(response)
    except urllib.error.HTTPError as refused:
        with refused:
            answered = json.load(refused)
    return answered


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    asked = wants_confirmation({"x": 1, "y": 1}, "This pays.")
    with GeminiServer([calls(("click", asked), ("wait", {})), text("Done."), text("Done.")]) as server:
        yield server


@pytest.fixture
def sound(server: GeminiServer) -> Body:
    """Return the second request of a conversation, with two calls answered, the first of them acknowledged."""
    body: Body = {
        "contents": [{"role": "user", "parts": [{"text": "Pay"}, image()]}],
        "tools": [{"computerUse": {"environment": "ENVIRONMENT_DESKTOP"}}],
    }
    said = send(server.url, body)["candidates"][0]["content"]
    click, wait = (part["functionCall"] for part in said["parts"])
    body["contents"] += [
        said,
        {"role": "user", "parts": [response(click, safety_acknowledgement="true"), response(wait)]},
    ]
    return body


def image(mime_type: str = "image/png", data: str = PNG) -> Body:
    return {"inlineData": {"mimeType": mime_type, "data": data}}


def response(call: Body, **more: str) -> Body:
    answer = {"name": call["name"], "id": call["id"], "response": {"output": "ok", **more}, "parts": [image()]}
    return {"functionResponse": answer}


def test_sound_request_is_answered_in_either_casing_and_alphabet(server: GeminiServer, sound: Body) -> None:
    assert send(server.url, sound)["candidates"][0]["content"]["parts"] == [{"text": "Done."}]
    snaked = json.dumps(sound).replace("inlineData", "inline_data").replace("mimeType", "mime_type")
    snaked = snaked.replace("functionResponse", "function_response").replace(PNG, PNG.translate(URL_SAFE).rstrip("="))
    assert send(server.url, json.loads(snaked))["candidates"][0]["content"]["parts"] == [{"text": "Done."}]
    assert server.refusals == []


def _said(body: Body) -> Body:
    parts: Body = body["contents"][1]["parts"][0]
    return parts


def _told(body: Body) -> list[Body]:
    parts: list[Body] = body["contents"][2]["parts"]
    return parts


def _first(body: Body) -> Body:
    answer: Body = _told(body)[0]["functionResponse"]
    return answer


def _second(body: Body) -> Body:
    answer: Body = _told(body)[1]["functionResponse"]
    return answer


SPOILT: list[tuple[Callable[[Body], object], str]] = [
    (lambda body: _told(body).pop(), "number of function response parts is equal to the number of function call parts"),
    (lambda body: body["contents"].pop(1), "function response turn comes immediately after a function call turn"),
    (lambda body: _first(body).update(name=""), "Name cannot be empty"),
    (lambda body: _first(body).pop("name"), "Name cannot be empty"),
    (lambda body: _first(body).update(name="type"), "is not the name of the function call, click"),
    (lambda body: _first(body).update(id="another"), "is not the id of the function call"),
    (lambda body: _first(body).pop("id"), "is not the id of the function call"),
    (lambda body: _told(body).reverse(), "is not the name of the function call"),
    (lambda body: _said(body).pop("thoughtSignature"), "is missing a `thought_signature`"),
    (lambda body: _said(body).update(thoughtSignature="AAAA"), "is not what the model said"),
    (lambda body: _said(body)["functionCall"]["args"].pop("safety_decision"), "nothing had been asked"),
    (lambda body: _first(body)["response"].pop("safety_acknowledgement"), "must be acknowledged in the corresponding"),
    (
        lambda body: _told(body)[1]["functionResponse"]["response"].update(safety_acknowledgement="true"),
        "was acknowledged",
    ),
    (lambda body: _first(body).update(parts=[image("image/jpeg")]), "requires image of mime_type image/png"),
    (lambda body: _first(body).update(parts=[image(data="AAAA")]), "requires image of mime_type image/png"),
    (lambda body: _told(body).append(image()), "an image stands outside of function_response.parts"),
    (lambda body: body["contents"].pop(), "the last content of the request is of the role user"),
    (lambda body: body["contents"].append({"role": "user", "parts": [{"text": ""}]}), "must not be empty"),
    (lambda body: body["contents"].clear(), "contents is not specified"),
    (lambda body: body.update(temperature=1), 'Unknown name "temperature"'),
    (lambda body: body.update(generationConfig={"temperature": 1}), "temperature is not supported"),
    (lambda body: body["tools"][0]["computerUse"].update(size=1), 'Unknown name "size"'),
    (lambda body: body["tools"][0]["computerUse"].update(environment="DESKTOP"), "Invalid value at"),
    (lambda body: body["tools"][0]["computerUse"].update(disabledSafetyPolicies=["FUN"]), "Invalid value at"),
    (lambda body: body["tools"][0]["computerUse"].update(environment="ENVIRONMENT_BROWSER"), "must have a url"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILT)
def test_spoilt_request_is_refused(
    server: GeminiServer, sound: Body, spoil: Callable[[Body], object], message: str
) -> None:
    body = copy.deepcopy(sound)
    spoil(body)
    refused = send(server.url, body)["error"]
    assert (refused["code"], refused["status"]) == (400, "INVALID_ARGUMENT")
    assert message in refused["message"]
    assert "candidates" in send(server.url, sound)


def test_key_model_and_version_are_checked(server: GeminiServer, sound: Body) -> None:
    bad_key = send(server.url, sound, key="another")["error"]
    assert (bad_key["code"], bad_key["details"][0]["reason"]) == (400, "API_KEY_INVALID")
    for wrong in ({"model": "gemini-0"}, {"version": "v1"}):
        assert send(server.url, sound, **wrong)["error"]["status"] == "NOT_FOUND"


def test_oldest_model_needs_tool_and_no_signature(server: GeminiServer, sound: Body) -> None:
    without_tool = send(server.url, {"contents": sound["contents"][:1]}, model=COMPUTER_USE_ONLY)
    assert "requires the use of the Computer Use tool" in without_tool["error"]["message"]
    sound["tools"][0]["computerUse"]["environment"] = "ENVIRONMENT_BROWSER"
    for answer in (_first(sound), _second(sound)):
        answer["response"]["url"] = ""
    server.answered.append(_without_signature(sound["contents"][1]))
    sound["contents"][1] = server.answered[-1]
    assert "candidates" in send(server.url, sound, model=COMPUTER_USE_ONLY)


def _without_signature(content: Body) -> Body:
    parts = [{name: part[name] for name in part if name != "thoughtSignature"} for part in content["parts"]]
    return {**content, "parts": parts}


def test_oldest_model_knows_no_desktop(server: GeminiServer, sound: Body) -> None:
    assert (
        "does not support ENVIRONMENT_DESKTOP" in send(server.url, sound, model=COMPUTER_USE_ONLY)["error"]["message"]
    )


def test_script_used_up_says_so(server: GeminiServer, sound: Body) -> None:
    for _ in range(2):
        assert "candidates" in send(server.url, sound)
    assert "no reply left" in send(server.url, sound)["error"]["message"]


def test_users_own_json_keeps_its_casing() -> None:
    assert camel_case({"function_call": {"args": {"a_b": {"c_d": 1}}}}) == {
        "functionCall": {"args": {"a_b": {"c_d": 1}}}
    }
