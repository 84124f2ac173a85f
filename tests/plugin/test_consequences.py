"""What of a function depends on what one of its lines gave, or raised."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from pytest_vnc_use.body_checks.code_places import function_at
from pytest_vnc_use.body_checks.consequences import Consequences, consequences_of

ON, OFF = True, False
VALUES = {
    "x = ask()  # here\nassert x  # there": ON,
    "x = ask()  # here\nassert other  # there": OFF,
    "assert ask()  # here, there": ON,
    "x = ask()  # here\ny = [x]\nassert all(y)  # there": ON,
    "x = ask()  # here\nx = look()\nassert x  # there": OFF,
    "x = ask()  # here\nif other:\n    x = look()\nassert x  # there": ON,
    "x, y = ask(), 1  # here\nassert y  # there": ON,
    "x = ask()  # here\nwith open(x) as file:\n    text = file.read()\nassert text  # there": ON,
    "rows = []\nrows.append(ask())  # here\nassert rows  # there": ON,
    "self.ok = ask()  # here\nassert self.ok  # there": ON,
    "self.ok = ask()  # here\nassert self.look()  # there": ON,
    "self.ok = ask()  # here\nassert self.desktop.look()  # there": OFF,
    "rows['a'] = ask()  # here\nassert rows['b']  # there": ON,
    "def look():\n    return ask()  # here\nassert other  # there": OFF,
    "if (x := ask()).rows:  # here\n    pass\nassert x  # there": ON,
    # --- which way is taken
    "if ask():  # here\n    press()\nassert other  # there": OFF,
    "if ask(): press()  # here\nassert other  # there": OFF,
    "if ask():  # here\n    assert other  # there": ON,
    "if ask():  # here\n    pass\nelse:\n    assert other  # there": ON,
    "x = False\nif ask():  # here\n    x = True\nassert x  # there": ON,
    "if ask():  # here\n    return\nassert other  # there": ON,
    "if ask():  # here\n    pytest.skip()\nassert other  # there": ON,
    "if ask():  # here\n    raise KeyError\nassert other  # there": OFF,
    "for _ in range(3):\n    if ask():  # here\n        break\nassert other  # there": OFF,
    "for _ in range(3):\n    if ask():  # here\n        break\nelse:\n    assert other  # there": ON,
    "for _ in range(3):\n    if ask():  # here\n        break\n    x = 1\nassert x  # there": ON,
    "for _ in range(3):\n    assert x  # there\n    x = ask()  # here": ON,
    "x = False\nwhile not x:\n    y = 1\n    x = ask()  # here\nassert y  # there": ON,
    "for _ in range(3):\n    if ask():  # here\n        continue\n    assert other  # there": ON,
    "match ask():  # here\n    case 1:\n        x = 1\nassert x  # there": ON,
    "match ask():  # here\n    case 1:\n        press()\nassert other  # there": OFF,
    "match other:\n    case 1:\n        assert other  # there\n    case 2:\n        ask()  # here": OFF,
    "try:\n    x = ask()  # here\nexcept KeyError:\n    press()\nassert other  # there": OFF,
    "try:\n    ask()  # here\nfinally:\n    assert other  # there": OFF,
}
RETRY = "for _ in range(3):\n    try:\n        ask()  # here\n        break\n    except E:\n        pass\n"
RAISED = {
    "ask()  # here\nassert other  # there": OFF,
    "try:\n    ask()  # here\nexcept Exception:\n    pass\nassert other  # there": OFF,
    "try: ask()  # here\nexcept Exception: pass\nassert other  # there": OFF,
    "x = 0\ntry:\n    x = ask()  # here\nexcept Exception:\n    pass\nassert x  # there": ON,
    "x = 0\ntry:\n    ask()  # here\n    x = 1\nexcept Exception:\n    pass\nassert x  # there": ON,
    "x = 0\ntry:\n    ask()  # here\nexcept Exception:\n    x = 1\nassert x  # there": ON,
    "x = 0\ntry:\n    ask()  # here\nexcept Exception:\n    pass\nelse:\n    x = 1\nassert x  # there": ON,
    "try:\n    ask()  # here\nexcept Exception as exc:\n    x = exc\nassert x  # there": ON,
    "try:\n    ask()  # here\nexcept Exception:\n    return\nassert other  # there": ON,
    "try:\n    ask()  # here\nexcept Exception:\n    raise\nassert other  # there": OFF,
    "with suppress(KeyError):\n    ask()  # here\nassert other  # there": OFF,
    "with suppress(KeyError): ask()  # here\nassert other  # there": OFF,
    "x = 0\nwith suppress(KeyError):\n    ask()  # here\n    x = 1\nassert x  # there": ON,
    "x = 0\nwith quiet():\n    ask()  # here\n    x = 1\nassert x  # there": ON,
    "x = 0\ntry:\n    with quiet():\n        ask()  # here\n    x = 1\nexcept E:\n    pass\nassert x  # there": ON,
    f"{RETRY}assert other  # there": OFF,
    f"{RETRY}else:\n    fail()  # there": ON,
}
OF_VERDICT = {
    "try:\n    if ask():  # here\n        press()\n    x = 1\nexcept E:\n    pass\nassert x  # there": ON,
    "try:\n    if ask().holds:  # here\n        press()\n    x = 1\nexcept E:\n    pass\nassert x  # there": OFF,
    "with suppress(E):\n    x = bool(ask())  # here\n    y = 1\nassert y  # there": ON,
    "with step():\n    x = ask()  # here\n    if x.holds:\n        press()\n    assert other  # there": OFF,
    "ask()  # here\nassert all(each.holds for each in agent.verdicts)  # there": ON,
    "assert not ask().holds  # here\nassert other  # there": OFF,
}  # fmt: skip


def function_of(folder: Path, body: str) -> tuple[str, dict[str, int]]:
    """A file with a function, and the lines that are marked in it."""
    file = folder / "some.py"
    text = "def some(self, other):\n" + "\n".join(f"    {line}" for line in body.splitlines()) + "\n"
    file.write_text(text, encoding="utf-8")
    marked = [(number, line.partition("# ")[2]) for number, line in enumerate(text.splitlines(), start=1)]
    return str(file), {word: number for number, words in marked for word in words.split(", ")}


@pytest.mark.parametrize(
    ("body", "depends", "options"),
    [
        *((body, depends, {}) for body, depends in VALUES.items()),
        *((body, depends, {"raised": True}) for body, depends in RAISED.items()),
        *((body, depends, {"of_verdict": True}) for body, depends in OF_VERDICT.items()),
    ],
)
def test_a_line_depends_on_another(tmp_path: Path, body: str, depends: bool, options: dict[str, bool]) -> None:
    file, lines = function_of(tmp_path, body)
    function = function_at(file, lines["here"])
    assert function is not None
    assert Consequences(function, lines["here"], **options).includes(lines["there"]) is depends


HELPERS = """
def returned(agent):
    return ask(agent)  # returned

def kept(page):
    page.ok = ask()  # kept

def dropped(agent):
    if ask(agent):  # dropped
        agent.press()

def raised(agent):
    assert ask(agent)  # raised

def yielded(agent):
    yield ask(agent)  # yielded

def test(agent):
    returned(agent); kept(agent); dropped(agent); raised(agent)  # test
"""


@pytest.mark.parametrize(
    ("name", "is_followed", "is_kept"),
    [
        ("returned", True, False),
        ("kept", True, True),
        ("dropped", False, False),
        ("raised", True, False),
        ("yielded", True, False),
    ],
)
def test_callers_depend_on_what_they_get(tmp_path: Path, name: str, is_followed: bool, is_kept: bool) -> None:
    file = tmp_path / "some.py"
    file.write_text(dedent(HELPERS), encoding="utf-8")
    marked = {line.partition("# ")[2]: number for number, line in enumerate(HELPERS.splitlines(), start=1)}
    found, kept = consequences_of(((str(file), marked[name]), (str(file), marked["test"])))
    assert [each.function.name for each in found] == [name, *(["test"] if is_followed else [])]
    assert kept is is_kept


FILLS = """
def fill(rows, desktop):
    try:
        rows.extend(desktop.read())  # here
    except Exception:
        pass

def test(desktop):
    rows, others = [], []
    fill(rows, desktop)  # called
    assert rows  # there
    assert others  # elsewhere
"""


def test_what_a_helper_changes_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text(FILLS, encoding="utf-8")
    marked = {line.partition("# ")[2]: number for number, line in enumerate(FILLS.splitlines(), start=1)}
    found, _ = consequences_of(((str(file), marked["here"]), (str(file), marked["called"])), raised=True)
    assert found[-1].includes(marked["there"])
    assert not found[-1].includes(marked["elsewhere"])


def test_the_value_of_a_fixture_is_kept(tmp_path: Path) -> None:
    file, lines = function_of(tmp_path, "yield ask()  # here")
    assert consequences_of(((file, lines["here"]),))[1]
