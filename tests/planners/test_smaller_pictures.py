"""Pictures of a number of bytes at most, before planners and judges: what they point at stays where it was."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.planners.anthropic.planner import SMALLER
from pytest_vnc_use.planners.common.screens import SmallerFrames, SmallerPictures, png_size, reduced
from pytest_vnc_use.types import Click, Frame, FrameRef, Region
from support import chat_server, messages_server, responses_server
from support.chat_conversations import chat
from support.chat_server import call
from support.gemini_conversations import Conversation, frame_of
from support.gemini_server import calls
from support.judge_servers import KEY, KINDS, court, opinion
from support.native_conversations import claude, gpt
from support.pictures import noise

MOST_BYTES = 20_000


@pytest.fixture(scope="module")
def screen() -> bytes:
    return noise(1440, 900)


def pictures_in(sent: Any) -> Iterator[bytes]:
    """The pictures of a request in JSON, in order."""
    match sent:
        case dict():
            for value in sent.values():
                yield from pictures_in(value)
        case list():
            for value in sent:
                yield from pictures_in(value)
        case str() if "iVBORw0KGgo" in sent[:40]:
            yield base64.b64decode(sent.partition(",")[2] or sent)


@pytest.mark.parametrize("most_bytes", [MOST_BYTES, 1000])
def test_a_picture_is_scaled_down_until_it_fits(most_bytes: int) -> None:
    small = reduced(noise(480, 300), most_bytes)
    assert most_bytes / 3 < len(small) <= most_bytes
    with Image.open(io.BytesIO(small)) as picture:
        assert picture.format == "PNG"
        assert abs(picture.width / picture.height - 1.6) < 0.1


def test_a_picture_that_fits_stays_as_it_is() -> None:
    png = noise(40, 30)
    assert reduced(png, len(png)) is png


@pytest.mark.slow
def test_a_picture_has_its_bytes_in_the_size_that_the_service_looks_at() -> None:
    """One of few colours has many once it is scaled, and more bytes with fewer pixels."""
    file = io.BytesIO()
    Image.effect_noise((1600, 1000), 90).convert("1").convert("RGB").save(file, "PNG")
    striped = file.getvalue()
    assert len(SMALLER.fit(striped)) > len(striped)
    sent = reduced(striped, len(striped), SMALLER)
    assert len(sent) <= len(striped)
    assert SMALLER.fit(sent) is sent


# --- planners --------------------------------------------------------------------------------------------------------


def test_geminis_points_stay_where_they_were(converse: Callable[..., Conversation], screen: bytes) -> None:
    talk = converse([calls(("click", {"x": 500, "y": 500}))])
    talk.history.pngs[talk.history.screen.digest] = screen
    planner = SmallerPictures(talk.planner, MOST_BYTES)
    decision = planner.decide(talk.history.observation(), timeout_s=20.0)
    assert [proposal.action for proposal in decision.proposals] == [Click(720, 450)]
    [sent] = talk.server.requests[0].images
    assert len(sent) <= MOST_BYTES


def test_points_on_a_grid_stay_where_they_were(screen: bytes) -> None:
    with chat([call("click", x=500, y=500)]) as talk:
        talk.history.pngs[talk.history.screen.digest] = screen
        planner = SmallerPictures(talk.planner, MOST_BYTES)
        decision = planner.decide(talk.history.observation(), timeout_s=20.0)
        assert [proposal.action for proposal in decision.proposals] == [Click(720, 450)]
        [sent] = talk.server.requests[0].images
    assert len(sent) <= MOST_BYTES


def middle_of(sent: Any) -> tuple[int, int]:
    """The middle of the newest picture of a request, in its own pixels."""
    width, height = png_size([*pictures_in(sent)][-1])
    return width // 2, height // 2


def chats_click(request: chat_server.ChatRequest) -> chat_server.Reply:
    x, y = middle_of(request.body)
    return call("click", x=x, y=y)


def claudes_click(request: Any) -> messages_server.Reply:
    return messages_server.uses(("left_click", {"coordinate": middle_of(request)}))


def claudes_older_click(request: Any) -> messages_server.Reply:
    [tool] = [tool for tool in request["tools"] if tool["name"] == "computer"]
    declared = tool["display_width_px"], tool["display_height_px"]
    assert declared == png_size([*pictures_in(request)][-1])
    return messages_server.older({"action": "left_click", "coordinate": [declared[0] // 2, declared[1] // 2]})


def openais_click(request: Any) -> responses_server.Reply:
    x, y = middle_of(request)
    return responses_server.acts({"type": "click", "button": "left", "x": x, "y": y})


@pytest.mark.parametrize(
    ("talks", "script", "settings"),
    [
        (chat, chats_click, {"coordinates": "pixels"}),
        (claude, claudes_click, {}),
        (claude, claudes_older_click, {"tool": "computer_20250124"}),
        (gpt, openais_click, {}),
    ],
    ids=["chat completions", "claude", "claude, older tool", "openai"],
)
def test_points_in_the_pixels_of_what_was_sent_are_scaled_back(
    talks: Callable[..., Any], script: Callable[[Any], Any], settings: dict[str, Any], screen: bytes
) -> None:
    with talks(script, **settings) as talk:
        for _ in range(2):
            talk.history.pngs[talk.history.screen.digest] = screen
            talk.planner, planner = SmallerPictures(talk.planner, MOST_BYTES), talk.planner
            [proposal] = talk.act().proposals
            talk.planner = planner
            assert abs(proposal.action.x - 720) <= 20
            assert abs(proposal.action.y - 450) <= 20
        bodies = [getattr(request, "body", request) for request in talk.server.requests]
        sent = [png for body in bodies for png in pictures_in(body)]
        assert len(sent) == 3
        assert max(map(len, sent)) <= MOST_BYTES
        assert png_size(sent[0])[0] < 300


def test_what_pixels_are_meant_is_told(screen: bytes) -> None:
    with chat(chats_click, coordinates="pixels") as talk:
        talk.history.pngs[talk.history.screen.digest] = screen
        SmallerPictures(talk.planner, MOST_BYTES).decide(talk.history.observation(), timeout_s=20.0)
        body = talk.server.requests[0].body
    width, height = png_size([*pictures_in(body)][-1])
    assert f"pixels of the newest screenshot, which has {width} x {height} pixels" in body["messages"][0]["content"]


# --- judges ----------------------------------------------------------------------------------------------------------


def right_half(sent: Any) -> str:
    """An opinion about the right half of the picture, in its pixels."""
    width, height = png_size([*pictures_in(sent)][-1])
    return opinion(box_2d=[width // 2, 0, width, height])


def on_the_grid(sent: Any) -> str:
    return opinion(box_2d=[0, 500, 1000, 1000])


@pytest.mark.parametrize(
    ("kind", "said", "settings"),
    [
        ("gemini", on_the_grid, {}),
        ("chat", right_half, {"coordinates": "pixels"}),
        ("anthropic", right_half, {}),
        ("openai", right_half, {}),
    ],
)
def test_a_judges_region_is_scaled_back(
    kind: str, said: Callable[[Any], str], settings: dict[str, Any], screen: bytes
) -> None:
    def script(request: Any) -> Any:
        return KINDS[kind].say(said(getattr(request, "body", request)))

    frame = Frame(FrameRef("its digest", 1440, 900), screen)
    with KINDS[kind].server(script, api_key=KEY) as server:
        judge = SmallerFrames(KINDS[kind].judge(server, **settings), MOST_BYTES)
        verdict = judge.judge("It is noisy.", frame, timeout_s=20.0)
        assert (verdict.kind, verdict.frame) == ("holds", frame.ref)
        assert verdict.region is not None
        assert abs(verdict.region.left - 720) <= 20
        assert verdict.region == Region(verdict.region.left, 0, 1440, 900)
        [request] = server.requests
        [sent] = request.images if kind == "gemini" else pictures_in(getattr(request, "body", request))
    assert len(sent) <= MOST_BYTES


def test_a_frame_that_fits_is_judged_as_it_is() -> None:
    with court(KINDS["chat"], chat_server.said(opinion(box_2d=[0, 0, 1000, 500]))) as asked:
        frame = frame_of(3)
        asked.frame, asked.judge = frame, SmallerFrames(asked.judge, 2 * len(frame.png))
        assert asked.ask().region == Region(0, 0, 1440, 450)
        [sent] = pictures_in(asked.server.requests[0].body)
    assert sent == frame.png
