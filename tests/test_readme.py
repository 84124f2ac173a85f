"""The README's commands and snippets are real."""

from __future__ import annotations

import re
import shlex
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

from pytest_vnc_use import cli
from pytest_vnc_use.plugin.toml_format import read_task_file
from pytest_vnc_use.safety.policy_file import explain, load_policy
from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.mark.parametrize("block", blocks("python"))
def test_a_python_snippet_is_collected_or_imports(pytester: pytest.Pytester, block: str) -> None:
    if "import pytest\n" in block:
        pytester.makepyfile(test_snippet=block)
        result = pytester.runpytest_subprocess("--collect-only", "-q", "--strict-markers")
        assert result.ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), result.stdout.str()
    else:
        compile(block, "README.md", "exec")
        exec("\n".join(line for line in block.splitlines() if line.startswith("from pytest_vnc_use")), {})


@pytest.mark.parametrize("block", [block for block in blocks("toml") if "[[test]]" in block])
def test_a_task_file_is_read(tmp_path: Path, block: str) -> None:
    file = tmp_path / "test_shop.vnc.toml"
    file.write_text(block, encoding="utf-8")
    assert [test.name for test in read_task_file(file)] == ["basket[apples]", "basket[pears]"]


@pytest.mark.parametrize("block", [block for block in blocks("toml") if "[[rule]]" in block])
def test_a_policy_is_loaded_and_explained(tmp_path: Path, block: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(block, encoding="utf-8")
    assert "nothing destructive" in explain(load_policy(str(file)))


@pytest.mark.parametrize("block", blocks("yaml"))
def test_a_ci_snippet_is_yaml_with_our_options(block: str, pytestconfig: pytest.Config) -> None:
    (job,) = yaml.safe_load(block).get("jobs", yaml.safe_load(block)).values()
    lines = job.get("script") or [step["run"] for step in job["steps"] if "run" in step]
    (command,) = [line for line in lines if "-m pytest" in line]
    for word in shlex.split(command):
        if word.startswith("--vnc-"):
            assert pytestconfig.getoption(word.split("=")[0].lstrip("-").replace("-", "_"), default="no") != "no"


def test_cua_vnc_takes_the_commands_that_are_shown() -> None:
    lines = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("cua-vnc")]
    assert len(lines) == 6
    for line in lines:
        cli.parser().parse_args(shlex.split(line)[1:])


def test_ci_runs_the_readmes_two_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line for block in blocks("bash") for line in block.splitlines() if "pip install" in line]
    assert len(commands) == 2
    for command in commands:
        assert f"\n{command}\n" in script


def test_the_options_that_are_named_exist(pytestconfig: pytest.Config) -> None:
    for option in set(re.findall(r"--(vnc-[a-z-]+)", README)):
        assert pytestconfig.getoption(option.replace("-", "_"), default="no") != "no", option


def test_the_packages_description_is_its_head() -> None:
    """pytest-metadata parses all of it at every start of pytest."""
    description = metadata("pytest-vnc-use")["Description"]
    assert description.strip().startswith("# pytest-vnc-use\n")
    assert "@pytest.mark.vnc_task(" in description
    assert "## Try it" in README
    assert "## Try it" not in description
