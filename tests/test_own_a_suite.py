"""The page "Own a suite" as its team of three does it: its files and its commands, in
the order in which they are on the page.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.types import TypeText
from support.forked_python import run_python
from support.page_user import Page, Recorder, User
from support.paths import ROOT
from support.vnc_servers import require, require_package

require_package("starlette")
PAGE = (ROOT / "docs" / "own-a-suite.md").read_text(encoding="utf-8")
FAST = ("-p", "no:cacheprovider", "-p", "no:pytest-vnc", "-ovnc_rehearse=0")
TITLE = Path("tests/__vnc_recordings__/shared/title/recording.json")
TEA = Path("tests/__vnc_recordings__/test_list/test_tea/recording.json")
LIST = Path("tests/test_list.py")
# one test of each recording: the other eighteen only replay
ONE_OF_EACH = ("-k", "tea or salt")
REPLAY = ("pytest", *FAST, "-n", "4", "--vnc-record=replay")
# where the second line of the file shows, with the caret behind it
SECOND_LINE = [478, 326, 640, 342]
SAVE = ("Control", "s")
GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@localhost")


def snippet(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def command(start: str) -> list[str]:
    """Return the words of the page's only command that starts so, without Python."""
    (line,) = re.findall(rf"^{re.escape(start)}.*$", PAGE, re.MULTILINE)
    words = shlex.split(line, comments=True)
    if words[0] == "cua-vnc":
        return ["pytest_vnc_use.cli", *words[1:]]
    assert words[:2] == ["python", "-m"]
    return words[2:]


def git(*arguments: str) -> None:
    subprocess.run([*GIT, *arguments], check=True, stdout=subprocess.DEVNULL)


def commit(message: str) -> None:
    git("add", "-A")
    git("commit", "-q", "-m", message)


def printed(*words: str) -> str:
    done = run_python(*words, cwd=Path.cwd(), timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def recorder(words: list[str]) -> Recorder:
    return Recorder(*words, cwd=Path.cwd())


@pytest.fixture
def _repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the page shows, committed."""
    for program in ("Xtigervnc", "xterm", "nano", "git"):
        require(program)
    monkeypatch.chdir(tmp_path)
    test = snippet("python")
    home = Path("tests/home")
    home.mkdir(parents=True)
    LIST.write_text(test, encoding="utf-8")
    Path("pytest.ini").write_text(snippet("ini"), encoding="utf-8")
    (home / ".nanorc").write_text("set nohelp\n", encoding="utf-8")
    Path(".gitignore").write_text("runs/\n__pycache__/\n", encoding="utf-8")
    git("init", "-q", "-b", "main")


@pytest.mark.desktop
@pytest.mark.slow
@pytest.mark.usefixtures("_repository")
def test_suite_is_recorded_edited_reviewed_and_upgraded() -> None:
    # Ada records: the named task once, and one of the nineteen sets
    record = command("python -m pytest --vnc-record=manual")
    with recorder([*record, *FAST, *ONE_OF_EACH]) as session:
        with session.user() as user:
            user.type("Shopping")
            user.press("Enter")
        with session.user() as user:
            user.type("tea")
            user.press(*SAVE)
        with session.user() as user:
            user.type("salt")
            user.press(*SAVE)
            user.until(lambda question: len(question["steps"]) == 2)
            place = {"box": SECOND_LINE, "claim": "", "value": "thing"}
            user.done(values=[{**place, "after": 1}, {**place, "after": 2}])
        ended = session.ended()
    assert ended.code == 0, ended.out
    assert "NOT REPEATED" not in ended.out
    directory = "written to tests/__vnc_recordings__"
    assert f"1 recording {directory}/shared" in ended.out
    assert f"2 recordings {directory}/test_list" in ended.out
    assert TITLE.exists()
    listed = printed(*command("cua-vnc recordings list"))
    assert "title" in listed
    assert "test_tea" in listed
    assert "test_thing" in listed
    commit("twenty tests")
    assert "20 passed" in printed(*REPLAY)

    # Ben inserts a step
    git("checkout", "-q", "-b", "milk")
    source = LIST.read_text("utf-8")
    LIST.write_text(source.replace("tea\\n", "tea\\nmilk\\n"), "utf-8")
    edit = command("cua-vnc recordings edit")
    edit.append(f"--options={shlex.join(FAST)}")
    before = load(TEA)
    assert before
    with recorder(edit) as session, Page(session.url) as page:
        user = User(page)
        user.press("Enter")
        user.type("milk")
        user.press(*SAVE)
        # he continues with the recorded end
        user.done(until=len(before.steps))
        page.answer(*[{"kind": "accept"}] * 9)
        assert page.states["tests/test_list.py::test_tea"] == "passed"
    after = load(TEA)
    assert after
    count = len(before.steps)
    kept = after.steps[:count]
    added = after.steps[count:]
    assert [step.id for step in kept] == [step.id for step in before.steps]
    assert TypeText("milk") in [step.action for step in added]
    commit("milk")

    # Chi reviews
    shown = printed(*command("cua-vnc recordings diff"))
    assert "test_tea" in shown
    assert "test_thing" not in shown
    assert "test_tea" in Path("changes.html").read_text("utf-8")

    # the program is upgraded
    Path("tests/home/.nanorc").write_text("")
    accept = command("python -m pytest --vnc-record=accept")
    with recorder([*accept, *FAST, *ONE_OF_EACH]) as session:
        asked = session.page.answer(*[{"kind": "accept"}] * 30)
        ended = session.ended()
    assert ended.code == 0, ended.out
    assert asked
    assert "20 passed" in printed(*REPLAY)
