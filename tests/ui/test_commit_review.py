"""`cua-vnc recordings diff`, and the page of `cua-vnc ui --review`, for what commits
change in recordings.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import pytest
from PIL import Image
from pydantic import BaseModel

from pytest_vnc_use.cli import main
from pytest_vnc_use.recordings.format import Accepted, Recording, Screen, held
from pytest_vnc_use.recordings.store import load, save
from pytest_vnc_use.types import Region
from pytest_vnc_use.ui.commits import CommitReview
from support.desks import Served, received
from support.paths import EXAMPLES
from support.vnc_servers import require

DIRECTORY = Path("tests/__vnc_recordings__/test_shop")
BASKET = DIRECTORY / "test_basket/recording.json"
SIGN_IN = DIRECTORY / "test_sign_in/recording.json"
LABEL = Region(300, 400, 380, 430)
RED = 0xFF0000
Model = TypeVar("Model", bound=BaseModel)


def git(*arguments: str) -> str:
    author = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
    command = ["git", *author, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def commit(name: str) -> None:
    git("add", "-A")
    git("commit", "-q", "-m", name)
    git("tag", name)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository with two of the examples' recordings, committed as `old`."""
    require("git")
    monkeypatch.chdir(tmp_path)
    for path in (BASKET, SIGN_IN):
        recorded = EXAMPLES / "__vnc_recordings__/test_shop" / path.parent.name
        shutil.copytree(recorded, path.parent)
    git("init", "-q", "-b", "main")
    commit("old")


def read(path: Path) -> Recording:
    recording = load(path)
    assert recording
    return recording


def painted(screen: Screen, colour: int = RED) -> Screen:
    """Return the screen with another label, which a reviewer has accepted."""
    pixels = screen.pixels().copy()
    LABEL.part_of(pixels)[:] = colour
    accepted = Accepted(by="eve", at=datetime(2026, 11, 29, 8, 30), region=LABEL)
    return replaced(screen, pixels=held(pixels), history=(accepted,))


def replaced(model: Model, **fields: object) -> Model:
    return model.model_copy(update=fields)


def change(path: Path, *, drop: str = "", colour: int = RED) -> None:
    """Change the label on the screen before the first step, and drop a step."""
    recording = read(path)
    segment, *segments = recording.segments
    first, *others = segment.steps
    first = replaced(first, screen=painted(first.screen, colour))
    steps = tuple(step for step in (first, *others) if step.id != drop)
    segment = replaced(segment, steps=steps)
    save(path, replaced(recording, segments=(segment, *segments)))


def diff(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["recordings", "diff", *arguments]) == 0
    return capsys.readouterr().out


def test_same_change_of_two_tests_is_one_difference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(BASKET, drop="s6")
    change(SIGN_IN, colour=RED + 1)  # which nobody sees
    before = git("status", "--porcelain", "--untracked-files=all")
    printed = diff(capsys)
    assert printed.startswith("## 2 recordings changed, 2 differences on the screen\n")
    first = printed.partition("### Difference 2")[0]
    assert "### Difference 1: 80 x 30 pixels at (300, 400)" in first
    assert "- `tests/test_shop.py::test_basket` `before step s1: " in first
    assert "- `tests/test_shop.py::test_sign_in` `before step s1: " in first
    assert "`before step s6: click at (417, 434) (removed)`" in printed
    assert "\n-  s6: click at (417, 434)\n" in printed
    accepted = "- `2026-11-29 08:30 eve accepted before step 1 300,400,380,430`"
    assert printed.count(accepted) == 2
    assert git("status", "--porcelain", "--untracked-files=all") == before


@pytest.mark.parametrize(
    ("revisions", "expected"),
    [
        ("old..new", {"test_basket", "test_sign_in"}),
        ("side..new", {"test_basket", "test_sign_in"}),
        ("side...new", {"test_sign_in"}),
        ("old..", {"test_basket", "test_sign_in"}),
        ("new", {"test_new"}),
        ("", {"test_new"}),
    ],
)
def test_revisions_are_those_of_git_diff(
    capsys: pytest.CaptureFixture[str], revisions: str, expected: set[str]
) -> None:
    change(BASKET)
    commit("common")
    git("checkout", "-q", "-b", "other")
    git("rm", "-q", "-r", str(BASKET.parent))
    commit("side")
    git("checkout", "-q", "main")
    change(SIGN_IN)
    commit("new")
    shutil.copytree(BASKET.parent, DIRECTORY / "test_new")
    renamed = read(BASKET).model_copy(update={"test": "test_shop.py::test_new"})
    save(DIRECTORY / "test_new/recording.json", renamed)
    printed = diff(capsys, *([revisions] if revisions else []))
    assert set(re.findall("### `tests/test_shop.py::(.*)`", printed)) == expected


@pytest.mark.parametrize("revisions", ["old..new", "old"])
@pytest.mark.parametrize("is_staged", [True, False])
def test_moved_recording_is_compared_with_former(
    capsys: pytest.CaptureFixture[str], revisions: str, is_staged: bool
) -> None:
    moved = Path("tests/shop/__vnc_recordings__/test_shop/test_cart")
    moved.parent.mkdir(parents=True)
    BASKET.parent.rename(moved)
    change(moved / "recording.json", drop="s6")
    if revisions == "old..new":
        commit("new")
    elif is_staged:
        git("add", "-A")
    before = git("status", "--porcelain", "--untracked-files=all")
    printed = diff(capsys, revisions)
    assert printed.startswith("## 1 recording changed, 2 differences on the screen\n")
    assert f"\n moved from {BASKET.parent} to {moved}\n" in printed
    assert "80 x 30 pixels at (300, 400)" in printed
    assert "`before step s6: click at (417, 434) (removed)`" in printed
    assert git("status", "--porcelain", "--untracked-files=all") == before


def images_in(page: str) -> list[Image.Image]:
    sources = re.findall('src="data:image/webp;base64,([^"]+)"', page)
    return [Image.open(io.BytesIO(b64decode(source))) for source in sources]


def test_page_shows_screens_before_and_after(
    capsys: pytest.CaptureFixture[str],
) -> None:
    old = read(SIGN_IN).segments[0].steps[0].screen.pixels()
    change(SIGN_IN)
    commit("new")
    diff(capsys, "old..new", "--html", "changes.html")
    page = Path("changes.html").read_text("utf-8")
    before, after, *screens = images_in(page)
    assert before.size == after.size == (200, 150)
    plain = int(old[415, 340])
    colour = (plain >> 16 & 0xFF, plain >> 8 & 0xFF, plain & 0xFF)
    assert before.getpixel((100, 75)) == colour
    assert after.getpixel((100, 75)) == (255, 0, 0)
    assert [screen.size for screen in screens] == [old.shape[::-1]] * 2


def add_transient(path: Path, *history: Accepted) -> None:
    """Have the first step show a red label on the screen after it."""
    recording = read(path)
    segment, *segments = recording.segments
    first, *others = segment.steps
    shown = replaced(painted(segment.screens[1]), history=history)
    step = replaced(first, transients=(*first.transients, shown))
    segment = replaced(segment, steps=(step, *others))
    save(path, replaced(recording, segments=(segment, *segments)))


def insert_step(path: Path) -> None:
    """Insert a step at the beginning."""
    recording = read(path)
    segment, *segments = recording.segments
    inserted = replaced(segment.steps[0], id="", transients=())
    segment = replaced(segment, steps=(inserted, *segment.steps))
    save(path, replaced(recording, segments=(segment, *segments)))


def test_accepted_transient_is_difference_with_picture(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = datetime(2026, 11, 29, 8, 30)
    add_transient(SIGN_IN, Accepted(by="eve", at=at, region=LABEL))
    commit("new")
    printed = diff(capsys, "old..new", "--html", "changes.html")
    assert printed.startswith("## 1 recording changed, 1 difference on the screen\n")
    assert "### Difference 1: 80 x 30 pixels at (300, 400)" in printed
    assert "- `tests/test_shop.py::test_sign_in` `briefly after step s1: " in printed
    assert "eve accepted after step 1, shown briefly at 300,400,380,430`" in printed
    before, after, *_ = images_in(Path("changes.html").read_text("utf-8"))
    assert before.getpixel((100, 75)) != (255, 0, 0)
    assert after.getpixel((100, 75)) == (255, 0, 0)
    with closing(CommitReview("old..new")) as review:
        (group,) = review.facts()["groups"]
    assert group["boxes"] == [[300, 400, 380, 430]]


def test_learned_transient_is_difference_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_transient(SIGN_IN)
    commit("learned")
    printed = diff(capsys, "old..learned")
    assert "`briefly after step s1: " in printed
    assert "### Difference 1: 80 x 30 pixels at (300, 400)" in printed
    insert_step(SIGN_IN)
    commit("inserted")
    printed = diff(capsys, "learned..inserted")
    assert printed.startswith("## 1 recording changed, 1 difference on the screen\n")
    assert "briefly" not in printed


def test_recording_that_cannot_be_read_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(BASKET)
    change(SIGN_IN)
    (SIGN_IN.parent / "s1.webp").unlink()
    commit("new")
    assert main(["recordings", "diff", "old..new"]) == 1
    printed = capsys.readouterr().out
    title = "## 1 recording changed, 1 difference on the screen, 1 not compared\n"
    assert printed.startswith(title)
    (problem,) = re.findall("- Not compared: `(.*)`", printed)
    assert problem.startswith(f"{SIGN_IN}: ")
    assert "s1.webp" in problem


def test_revision_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["recordings", "diff", "origin/main..HEAD"]) == 2
    assert "'origin/main' is no revision" in capsys.readouterr().err
    monkeypatch.chdir("/")
    assert main(["recordings", "diff"]) == 2
    assert "'/' is in no git repository" in capsys.readouterr().err


@pytest.fixture
def review() -> Iterator[CommitReview]:
    """The page's review of a changed label."""
    change(SIGN_IN)
    commit("new")
    with closing(CommitReview("old..new")) as made:
        yield made


def test_served_review_of_commit_takes_no_answer(
    review: CommitReview, served: Served
) -> None:
    written = SIGN_IN.read_bytes()
    served.desk.review = review
    cookie = served.cookie()
    with served.page(cookie) as page:
        shown = received(page, "groups")
        (group,) = shown["groups"]
        assert shown["revisions"] == "old..new"
        assert group["boxes"] == [[300, 400, 380, 430]]
        answer = {"type": "answer", "id": group["id"], "kind": "accept"}
        page.send(json.dumps(answer))
        assert served.ask("GET", f"/{group['urls'][1]}", Cookie=cookie)[0] == 200
    assert SIGN_IN.read_bytes() == written
