"""CI files: valid for the published schemas, the same as docs/ci.md shows, and their shell steps do what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import check_jsonschema
import jsonschema
import pytest
import yaml

from pytest_vnc_use.cli.init.ci import PACKAGES, ci_files
from pytest_vnc_use.cli.init.project import Project, plan
from pytest_vnc_use.cli.init.questions import Answers
from pytest_vnc_use.cli.init.target import read_target
from support.ci_jobs import Machine, Runner, run_github, run_gitlab, run_jenkins
from support.gemini_server import GeminiServer, calls, text
from support.paths import PAD_LINE, ROOT
from support.vnc_servers import require, require_pyside

pytestmark = pytest.mark.slow

PROGRAMS = {
    "xvnc": "xterm",
    "page": "http://localhost:8000/",
    "qt": "viewer",
    "container": "container:shop xterm",
    "address": "winbox::5900",
}
SCHEMAS = {
    ".github/workflows/desktop-tests.yml": "github-workflows",
    ".gitlab/desktop-tests.yml": "gitlab-ci",
    ".gitlab-ci.yml": "gitlab-ci",
}
DOCS = ROOT / "docs" / "ci.md"


def files_of(ci: str, kind: str, folder: Path) -> dict[str, str]:
    return ci_files(ci, read_target(PROGRAMS[kind], "qt" if kind == "qt" else "", folder), folder)


def check_schema(document: object, name: str) -> None:
    schemas = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(schema)(schema).validate(document)


def parsed(source: str) -> object:
    """The document as JSON has it: YAML 1.1 takes the key `on` for true."""
    return json.loads(json.dumps(yaml.safe_load(source)).replace('"true": {"push"', '"on": {"push"'))


# --- what they are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_yaml_is_valid_for_the_published_schema(tmp_path: Path, ci: str, kind: str) -> None:
    for path, source in files_of(ci, kind, tmp_path).items():
        check_schema(parsed(source), SCHEMAS[path])


def test_the_composite_action_is_valid_for_the_published_schema() -> None:
    source = (ROOT / ".github" / "actions" / "replay" / "action.yml").read_text(encoding="utf-8")
    check_schema(yaml.safe_load(source), "github-actions")


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_jenkinsfile_is_balanced(tmp_path: Path, kind: str) -> None:
    (source,) = files_of("jenkins", kind, tmp_path).values()
    outside = "".join(re.split(r"'''.*?'''", re.sub(r"//.*", "", source), flags=re.DOTALL))
    assert outside.count("{") == outside.count("}")
    assert source.count("'''") % 2 == 0


@pytest.mark.parametrize("ci", ["github", "gitlab", "jenkins"])
def test_docs_show_what_is_written(tmp_path: Path, ci: str) -> None:
    path, source = next(iter(files_of(ci, "xvnc", tmp_path).items()))
    blocks = re.findall(r"^```\w+ title=\"([^\"]+)\"\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.M | re.DOTALL)
    assert dict(blocks)[path] == source, f"docs/ci.md must show this as {path}:\n{source}"


def test_the_packages_are_debians() -> None:
    if not shutil.which("apt-cache"):
        pytest.skip("apt-cache is not installed")
    names = sorted({name for packages in PACKAGES.values() for name in packages} | {"git"})
    known = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, timeout=60, check=True).stdout
    if "tigervnc-standalone-server" not in known.split():
        pytest.skip("apt-cache knows no packages here")
    assert not set(names) - set(known.split())


# --- what they do ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    ci: str
    file: str
    run: Runner
    replay: str
    heal: str


RECIPES = [
    Recipe("github", ".github/workflows/desktop-tests.yml", run_github, "replay", "heal"),
    Recipe("gitlab", ".gitlab/desktop-tests.yml", run_gitlab, "replay-desktop-tests", "heal-desktop-tests"),
    Recipe("jenkins", "Jenkinsfile", run_jenkins, "Replay", "Heal,Propose the new recordings"),
]


@pytest.fixture
def origin(tmp_path: Path) -> Callable[[str], Path]:
    """A project of `cua-vnc init` with a Qt program, pushed to a repository of its own."""

    def make(ci: str) -> Path:
        project, bare = tmp_path / "project", tmp_path / "origin.git"
        project.mkdir()
        target = read_target(PAD_LINE, "qt", project)
        planned = plan(Answers(target, "Click into the middle", "model", ci), Project.read(project))
        for file in planned.files:
            (project / file.path).parent.mkdir(parents=True, exist_ok=True)
            (project / file.path).write_text(file.text or "")
        test = project / "tests" / "test_first.py"
        test.write_text(
            test.read_text().replace("    pass", '    assert "press" in vnc_desktop.read_file("events.txt")')
        )
        (project / "requirements.txt").touch()  # the program is its own
        git = ["git", "-c", "user.name=us", "-c", "user.email=us@example.com"]
        subprocess.run(["git", "init", "-q", "-b", "main", "--bare", str(bare)], check=True)
        subprocess.run(["git", "config", "receive.advertisePushOptions", "true"], cwd=bare, check=True)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=project, check=True)
        subprocess.run(["git", "add", "-A"], cwd=project, check=True)
        subprocess.run([*git, "commit", "-q", "-m", "first"], cwd=project, check=True)
        subprocess.run(["git", "push", "-q", str(bare), "main"], cwd=project, check=True)
        return bare

    return make


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.ci)
def test_heal_proposes_recordings_that_replay_without_a_key(
    tmp_path: Path, origin: Callable[[str], Path], model: Callable[..., GeminiServer], recipe: Recipe
) -> None:
    require("git")
    require_pyside()
    bare = origin(recipe.ci)
    server = model(calls(("click", {"x": 500, "y": 500})), text("I clicked"))
    secrets = {"GOOGLE_API_KEY": server.api_key, "GH_TOKEN": "token", "HEAL_TOKEN": "token"}
    healing = Machine(tmp_path / "healing", bare, {"GOOGLE_GEMINI_BASE_URL": server.url})
    assert recipe.run(healing, recipe.file, recipe.heal, secrets) == 0, healing.said
    assert "1 recording written" in healing.said
    listed = ["git", "ls-tree", "-r", "--name-only", "heal-desktop-tests"]
    pushed = subprocess.run(listed, cwd=bare, capture_output=True, text=True, check=True).stdout
    assert "tests/__vnc_recordings__/test_first/test_first.json" in pushed
    assert "runs/" not in pushed
    if recipe.ci != "gitlab":
        assert any(call.startswith("gh pr create --head heal-desktop-tests") for call in healing.calls)
    subprocess.run(["git", "update-ref", "refs/heads/main", "heal-desktop-tests"], cwd=bare, check=True)

    replaying = Machine(tmp_path / "replaying", bare)
    assert recipe.run(replaying, recipe.file, recipe.replay, {}) == 0, replaying.said
    assert "1 run planned by recording" in replaying.said
    assert (replaying.clone / "report.html").exists()


def test_without_a_recording_and_a_key_replay_fails(tmp_path: Path, origin: Callable[[str], Path]) -> None:
    require("git")
    require_pyside()
    recipe = RECIPES[0]
    machine = Machine(tmp_path / "machine", origin(recipe.ci))
    assert recipe.run(machine, recipe.file, recipe.replay, {}) == 1, machine.said
    assert "no recording" in machine.said


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.ci)
def test_without_a_key_nothing_is_healed_and_nothing_fails(
    tmp_path: Path, origin: Callable[[str], Path], recipe: Recipe
) -> None:
    require("git")
    machine = Machine(tmp_path / "machine", origin(recipe.ci))
    assert recipe.run(machine, recipe.file, recipe.heal, {}) == 0, machine.said
    assert "nothing is healed" in machine.said
    assert not [call for call in machine.calls if call.startswith("gh")]


def test_a_test_that_cannot_be_healed_fails_the_job_after_the_others_were_proposed(
    tmp_path: Path, origin: Callable[[str], Path], model: Callable[..., GeminiServer]
) -> None:
    require("git")
    require_pyside()
    server = model(text("I cannot do that"))
    machine = Machine(tmp_path / "machine", origin("github"), {"GOOGLE_GEMINI_BASE_URL": server.url})
    secrets = {"GOOGLE_API_KEY": server.api_key}
    assert run_github(machine, RECIPES[0].file, "heal", secrets) == 1, machine.said
    assert "no recording has changed" in machine.said
