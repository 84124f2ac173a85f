"""Tests without Python: what a file says becomes tests, and errors name its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.toml import FileTest, read_task_file

BASKET = """\
app = "python shop"
max_steps = 30

[[test]]
name = "basket"
task = "Add two {fruit} to the basket"
expect = "the basket shows 2 {fruit}"
parameters = { fruit = ["apples", "pears"] }

[[test]]
name = "sign in"
task = ["Sign in with <secret:SHOP_PASSWORD>", "Sign out"]
expect = ["nobody is signed in", "no error is shown"]
max_steps = 5
secrets = ["SHOP_PASSWORD"]
policy = "shop.toml"
"""


def read(directory: Path, text: str) -> tuple[FileTest, ...]:
    path = directory / "test_shop.vnc.toml"
    path.write_text(text, encoding="utf-8")
    (directory / "shop.toml").touch()
    return read_task_file(path)


@pytest.fixture
def basket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[FileTest, FileTest, FileTest]:
    """The tests of a file: two of one table, and one of two tasks."""
    monkeypatch.setenv("SHOP_PASSWORD", "geheim")
    apples, pears, sign_in = read(tmp_path, BASKET)
    return apples, pears, sign_in


def test_parameters_make_test_of_each_value(basket: tuple[FileTest, ...]) -> None:
    apples, pears, _ = basket
    assert apples.name == "basket[apples]"
    assert pears.name == "basket[pears]"
    (spec,) = pears.specs
    assert spec.task == "Add two pears to the basket"
    assert spec.expect == ("the basket shows 2 pears",)
    assert dict(spec.settings) == {"app": "python shop", "max_steps": 30}


def test_claims_of_several_tasks_are_of_last(basket: tuple[FileTest, ...]) -> None:
    first, second = basket[2].specs
    assert first.task == "Sign in with <secret:SHOP_PASSWORD>"
    assert first.expect == ()
    assert second.expect == ("nobody is signed in", "no error is shown")


def test_settings_of_test_overrule_those_of_file(
    basket: tuple[FileTest, ...], tmp_path: Path
) -> None:
    spec, _ = basket[2].specs
    assert spec.secrets == {"SHOP_PASSWORD": "geheim"}
    assert spec.settings["max_steps"] == 5
    assert spec.settings["policy"] == str(tmp_path / "shop.toml")


TEST = '[[test]]\nname = "a"\ntask = "Click it"\n'


def test_policy_strict_is_no_file(tmp_path: Path) -> None:
    (test,) = read(tmp_path, TEST + 'policy = "strict"')
    assert test.specs[0].settings["policy"] == "strict"


def test_task_of_several_lines_ends_at_last(tmp_path: Path) -> None:
    task = '"""\nClick it,\nand wait.\n"""'
    (test,) = read(tmp_path, TEST.replace('"Click it"', task))
    assert test.specs[0].task == "Click it,\nand wait."


MISTAKES = [
    ("", 1, "'test' is missing"),
    (TEST + 'task = "again"', 4, "not TOML: Cannot overwrite a value"),
    (
        TEST.replace("[[test]]", "[test]"),
        1,
        r"'test' begins with two brackets. Write \[\[test\]\]",
    ),
    (
        TEST + "max_steps = 0",
        4,
        "'max_steps' must be a whole number, at least 1, got 0",
    ),
    (TEST + '\n[[test]]\nname = "b"', 5, "'task' is missing"),
    (TEST + "expect = 5", 4, "'expect' must be text, a list of texts, or false, got 5"),
    (
        TEST.replace('"Click it"', "[]"),
        3,
        r"'task' must be text, or a list of texts, got \[\]",
    ),
    (
        TEST.replace('"a"', '"a::b"'),
        2,
        "'name' must be letters, digits, spaces, - and _, got 'a::b'",
    ),
    (
        TEST + "\n" + TEST,
        5,
        "the name of a test must be unique, got 'a' also in line 1",
    ),
    (
        TEST.replace("it", "{it}"),
        1,
        "'{it}' is not a parameter of this test. Its parameters are: none",
    ),
    (
        TEST + 'parameters = { it = ["a"] }',
        1,
        "'it' is never used. Write {it} in task, expect or app",
    ),
    (
        TEST + "[test.parameters]\nfruit = []",
        4,
        "'parameters' must be lists .*, with at least one each, got",
    ),
    (
        TEST + 'secrets = ["PIN"]\npolicy = "none.toml"',
        5,
        "'policy' must be a file, relative to .*, got 'none.toml'",
    ),
    (
        TEST + 'secrets = ["geheim, sehr"]',
        4,
        "'secrets' must name environment variables",
    ),
    (
        TEST.replace("it", "<secret:PIN>"),
        1,
        "'<secret:PIN>' stands for a secret. Add 'PIN' to 'secrets'",
    ),
]


@pytest.mark.parametrize(("text", "line", "problem"), MISTAKES)
def test_mistake_is_reported_with_line(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem) as caught:
        read(tmp_path, text)
    lines = str(caught.value).splitlines()
    (reported,) = [text for text in lines if re.search(problem, text)]
    assert f"test_shop.vnc.toml:{line}:" in reported
    assert "geheim" not in str(caught.value)


def test_file_of_other_programs_is_read_or_rejected(tmp_path: Path) -> None:
    path = tmp_path / "test_shop.vnc.toml"
    path.write_bytes(b"\xef\xbb\xbf" + TEST.replace("\n", "\r\n").encode())
    assert [test.name for test in read_task_file(path)] == ["a"]
    path.write_bytes(TEST.encode("utf-16"))
    with pytest.raises(
        SettingsError, match=r"test_shop\.vnc\.toml: must be saved as UTF-8: "
    ):
        read_task_file(path)


def test_mistake_is_collection_error_beside_repeated_tests(
    pytester: pytest.Pytester,
) -> None:
    pytester.makefile(
        ".vnc.toml",
        test_a='[[test]]\nname = "pad"\ntask = "Click it"\n',
        test_b='[[test]]\nname = "pad"\n',
    )
    result = pytester.runpytest_subprocess(
        "--collect-only", "-q", "-p", "no:cacheprovider", "--vnc-repeat=2"
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [f"test_a.vnc.toml::pad[[]run{number}]" for number in (1, 2)]
    )
    result.stdout.fnmatch_lines(["*test_b.vnc.toml:1: 'task' is missing*"])
    assert "Traceback" not in result.stdout.str()
