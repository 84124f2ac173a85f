"""CI files: valid for the published schemas, run when they should, and their shell
steps do what they promise.
"""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_vnc_use.cli.project import Project
from pytest_vnc_use.cli.target import read_target
from support.ci_jobs import BASH, SH, Machine
from support.gemini_server import GeminiServer, calls, text
from support.paths import EXAMPLES, PAD_LINE, ROOT
from support.vnc_servers import require, require_pyside

pytestmark = pytest.mark.slow

PROGRAMS = {
    "xvnc": "xterm",
    "page": "http://localhost:8000/",
    "qt": "viewer",
    "container": "container:shop xterm",
    "address": "winbox::5900",
}
WORKFLOW = ".github/workflows/desktop-tests.yml"
CI = EXAMPLES / "ci"
GIT = ("git", "-c", "user.name=us", "-c", "user.email=us@example.com")


def run_github(
    machine: Machine, file: str, job: str, secrets: Mapping[str, str]
) -> int:
    """Run the `run:` steps of a job, until one fails; then those that run always."""

    def value(text: object) -> str:
        known = {
            **{
                f"${{{{ secrets.{name} }}}}": secret for name, secret in secrets.items()
            },
            "${{ github.token }}": "token",
            "${{ steps.report.outputs.artifact-url }}": "URL",
            "${{ steps.page.outputs.artifact-url }}": "https://github.test/page",
            "${{ steps.page.outputs.artifact-url || steps.report.outputs.artifact-url }}": (
                "https://github.test/page"
            ),
            "${{ github.ref_name }}": machine.branch,
        }
        return known.get(str(text), "" if "secrets." in str(text) else str(text))

    workflow = yaml.safe_load((machine.clone / file).read_text())
    outcomes: dict[str, int] = {}
    failed = 0
    for step in workflow["jobs"][job]["steps"]:
        text = step.get("if", "")
        condition = re.fullmatch(r"steps\.(\w+)\.outcome == 'failure'", text)
        has_no_runs = (
            "hashFiles('**/runs/vnc-results.json')" in text
            and not (machine.clone / "runs").is_dir()
        )
        is_skipped = failed and "always()" not in text
        if (
            is_skipped
            or "run" not in step
            or has_no_runs
            or (condition and not outcomes[condition[1]])
        ):
            continue
        variables = {name: value(text) for name, text in step.get("env", {}).items()}
        variables |= {
            "GITHUB_STEP_SUMMARY": str(machine.directory / "summary.md"),
            "GITHUB_WORKSPACE": str(machine.clone),
        }
        code = machine.run(
            BASH if step.get("shell") == "bash" else SH, step["run"], variables
        )
        outcomes[step.get("id", "")] = code
        if not step.get("continue-on-error"):
            failed = failed or code
    return failed


def run_gitlab(
    machine: Machine, file: str, job: str, secrets: Mapping[str, str]
) -> int:
    """Run a job, and what it extends, as the runner does: all lines are one script."""
    jobs: dict[str, Any] = yaml.safe_load((machine.clone / file).read_text())
    whole = {"before_script": [], **jobs.get(jobs[job].get("extends"), {}), **jobs[job]}
    variables = {
        "CI_SERVER_HOST": "gitlab.test",
        "CI_PROJECT_PATH": "team/shop",
        "CI_COMMIT_REF_NAME": machine.branch,
        "CI_JOB_URL": "https://gitlab.test/team/shop/-/jobs/1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{machine.origin}.insteadOf",
        "GIT_CONFIG_VALUE_0": (
            f"https://heal:{secrets.get('HEAL_TOKEN', '')}@gitlab.test/team/shop.git"
        ),
    }
    return machine.run(
        BASH,
        "\n".join([*whole["before_script"], *whole["script"]]),
        {**variables, **secrets},
    )


def run_jenkins(
    machine: Machine, file: str, stage: str, secrets: Mapping[str, str]
) -> int:
    """Run the scripts of the stage Install, and of another one; a missing credential
    fails its stage.
    """
    source = (machine.clone / file).read_text()
    stages = dict(
        zip(*[iter(re.split(r"stage\('([^']+)'\)", source)[1:])] * 2, strict=True)
    )
    known: dict[str, str] = {"BRANCH_NAME": machine.branch, "BUILD_URL": "URL"}
    for name in ("Install", stage):
        bound = re.findall(r"credentialsId: '(\w+)', variable: '(\w+)'", stages[name])
        if missing := [key for key, _ in bound if key not in secrets]:
            machine.said += (
                f"ERROR: Could not find credentials entry with ID '{missing[0]}'\n"
            )
            return 1
        variables = {**known, **{variable: secrets[key] for key, variable in bound}}
        for script in re.findall(r"sh '''\n(.*?)'''", stages[name], re.DOTALL):
            code = machine.run(
                SH, textwrap.dedent(script).replace("\\\\", "\\"), variables
            )
            if code and "catchError" not in stages[name]:
                return code
    return 0


Runner = Callable[[Machine, str, str, Mapping[str, str]], int]


def workflow(kind: str, directory: Path) -> str:
    project = Project(
        directory,
        read_target(PROGRAMS[kind], "qt" if kind == "qt" else "", directory),
        "Type it",
    )
    (source,) = [
        source
        for path, source in project.plan(ci="github", policy=False).items()
        if path.endswith(".yml")
    ]
    assert source
    return source


def check_schema(document: object, name: str) -> None:
    import check_jsonschema
    import jsonschema

    schemas = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(schema)(schema).validate(document)


def parsed(source: str) -> object:
    """The document as JSON has it: YAML 1.1 takes the key `on` for true."""
    return json.loads(
        json.dumps(yaml.safe_load(source)).replace('"true": {"push"', '"on": {"push"')
    )


@pytest.mark.parametrize("kind", PROGRAMS)
def test_workflow_is_valid(tmp_path: Path, kind: str) -> None:
    source = workflow(kind, tmp_path)
    check_schema(parsed(source), "github-workflows")
    # it would give a fork's code the secrets
    assert "pull_request_target" not in source
    # jobs are in containers
    shares_network = "-o vnc_qt_host_network=true --vnc-record=replay" in source
    assert shares_network == (kind == "qt")
    assert ("VNC_USE_PASSWORD" in source) == (kind == "address")


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (CI / "github-shards.yml", "github-workflows"),
        (CI / "gitlab.yml", "gitlab-ci"),
        (ROOT / ".github" / "actions" / "replay" / "action.yml", "github-actions"),
    ],
    ids=["shards", "gitlab", "action"],
)
def test_example_is_valid(path: Path, schema: str) -> None:
    check_schema(parsed(path.read_text("utf-8")), schema)


def test_workflow_installs_qt_of_program(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import PySide6\n")
    project = Project(tmp_path, read_target("python app.py", "", tmp_path), "Type it")
    installed = str(project.plan(ci="github", policy=False)[WORKFLOW])
    assert 'pip install "pytest-vnc-use[demo] @ git+https://' in installed
    (tmp_path / "requirements.txt").write_text("PyQt6==6.9\n")
    installed = str(project.plan(ci="github", policy=False)[WORKFLOW])
    assert 'pytest-vnc-use" -r requirements.txt' in installed


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("push", {"replay"}),
        ("pull_request", {"replay", "recordings"}),
        ("schedule", {"replay", "heal"}),
        ("workflow_dispatch", {"replay", "heal"}),
    ],
)
def test_github_heals_at_night_and_by_hand(
    tmp_path: Path, event: str, expected: set[str]
) -> None:
    jobs = yaml.safe_load(workflow("xvnc", tmp_path))["jobs"]

    def runs(job: dict[str, str]) -> bool:
        condition = job.get("if", "True").replace("github.event_name", repr(event))
        return bool(eval(condition.replace("||", "or")))

    assert {name for name, job in jobs.items() if runs(job)} == expected


@dataclass(frozen=True)
class Recipe:
    ci: str
    file: str
    run: Runner
    replay: str
    heal: str


GITHUB = Recipe("github", WORKFLOW, run_github, "replay", "heal")
ALL = [
    GITHUB,
    Recipe(
        "gitlab",
        ".gitlab/desktop-tests.yml",
        run_gitlab,
        "replay-desktop-tests",
        "heal-desktop-tests",
    ),
    Recipe("jenkins", "Jenkinsfile", run_jenkins, "Replay", "Heal"),
]


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A project of `cua-vnc init` with a Qt program and the files of all CIs, pushed to
    a repository.
    """
    project = tmp_path / "project"
    bare = tmp_path / "origin.git"
    project.mkdir()
    (project / "requirements.txt").touch()  # the program needs nothing from pip
    target = read_target(PAD_LINE, "qt", project)
    files = Project(project, target, "Click into the middle").plan(
        ci="github", policy=True
    )
    for path in ("gitlab.yml", "Jenkinsfile", "github-shards.yml"):
        source = (
            (CI / path)
            .read_text("utf-8")
            .replace("-m vnc ", "-m vnc -o vnc_qt_host_network=true ")
        )
        files[{"gitlab.yml": ".gitlab/desktop-tests.yml"}.get(path, path)] = source
    for path, source in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(source or "")
    test = project / "tests" / "test_first.py"
    test.write_text(
        test.read_text().replace(
            "    pass", '    assert "press" in vnc_desktop.read_file("events.txt")'
        )
    )
    subprocess.run(["git", "init", "-q", "-b", "main", "--bare", str(bare)], check=True)
    subprocess.run(
        ["git", "config", "receive.advertisePushOptions", "true"], cwd=bare, check=True
    )
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=project, check=True)
    subprocess.run(["git", "add", "-A", "-f"], cwd=project, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "first"], cwd=project, check=True)
    subprocess.run(
        ["git", "push", "-q", str(bare), "main", "main:buttons"],
        cwd=project,
        check=True,
    )
    return bare


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.ci)
def test_heal_proposes_recordings_that_replay_without_key(
    tmp_path: Path, origin: Path, model: Callable[..., GeminiServer], recipe: Recipe
) -> None:
    require("git")
    require_pyside()
    holds = text(
        json.dumps({"reason": "it shows that", "verdict": "holds", "box_2d": None})
    )
    server = model(calls(("click", {"x": 500, "y": 500})), text("I clicked"), holds)
    secrets = {
        "GOOGLE_API_KEY": server.api_key,
        "GH_TOKEN": "token",
        "HEAL_TOKEN": "token",
    }
    healing = Machine(
        tmp_path / "healing",
        origin,
        {"GOOGLE_GEMINI_BASE_URL": server.url},
        branch="buttons",
    )
    assert recipe.run(healing, recipe.file, recipe.heal, secrets) == 0, healing.said
    assert "1 recording written" in healing.said
    branch = "heal-desktop-tests/buttons"
    listed = ["git", "ls-tree", "-r", "--name-only", branch]
    pushed = subprocess.run(
        listed, cwd=origin, capture_output=True, text=True, check=True
    ).stdout
    assert "tests/__vnc_recordings__/test_first/test_first/recording.json" in pushed
    assert "runs/" not in pushed
    if recipe.ci != "gitlab":
        assert any(
            call.startswith(f"gh pr create --head {branch} --base buttons --title")
            for call in healing.calls
        )
    subprocess.run(
        ["git", "update-ref", "refs/heads/main", branch], cwd=origin, check=True
    )

    replaying = Machine(tmp_path / "replaying", origin)
    assert recipe.run(replaying, recipe.file, recipe.replay, {}) == 0, replaying.said
    assert "1 run planned by recording" in replaying.said
    assert (replaying.clone / "report.html").exists()


def merged(origin: Path, directory: Path) -> None:
    """Commit the example's recording in a branch, and merge it as GitHub does."""
    recorded = "tests/__vnc_recordings__/test_shop/test_basket"
    subprocess.run(["git", "clone", "-q", str(origin), str(directory)], check=True)
    example = EXAMPLES / "__vnc_recordings__/test_shop/test_basket"
    for command in (
        [*GIT, "checkout", "-q", "-b", "change"],
        ["mkdir", "-p", recorded],
        ["cp", "-r", f"{example}/.", recorded],
        [*GIT, "add", "-f", recorded],
        [*GIT, "commit", "-q", "-m", "a recording"],
        [*GIT, "checkout", "-q", "main"],
        [*GIT, "merge", "-q", "--no-ff", "-m", "merge", "change"],
        [*GIT, "push", "-q", "origin", "main"],
    ):
        subprocess.run(command, cwd=directory, check=True)


def test_github_shows_recordings_that_pull_request_changes(
    tmp_path: Path, origin: Path
) -> None:
    require("git")
    before = Machine(tmp_path / "before", origin)
    empty = ["commit", "-q", "--allow-empty", "-m", "a pull request"]
    subprocess.run([*GIT, *empty], cwd=before.clone, check=True)
    assert run_github(before, WORKFLOW, "recordings", {}) == 0, before.said
    assert "no recording has changed" in before.said
    merged(origin, tmp_path / "clone")
    after = Machine(tmp_path / "after", origin)
    assert run_github(after, WORKFLOW, "recordings", {}) == 0, after.said
    summary = (after.directory / "summary.md").read_text("utf-8")
    assert summary.startswith("## 1 recording changed")
    assert "+task: Sign in as alice" in summary
    assert (after.clone / "recordings.html").exists()


def test_github_without_recording_or_key_fails_late(
    tmp_path: Path, origin: Path, model: Callable[..., GeminiServer]
) -> None:
    require("git")
    require_pyside()
    server = model(text("I cannot do that"))
    machine = Machine(
        tmp_path / "machine", origin, {"GOOGLE_GEMINI_BASE_URL": server.url}
    )
    assert run_github(machine, WORKFLOW, "heal", {}) == 0, machine.said
    assert "nothing is healed" in machine.said
    assert not [call for call in machine.calls if call.startswith("gh")]
    assert run_github(machine, WORKFLOW, "replay", {}) == 1, machine.said
    assert "no recording" in machine.said
    summary = (machine.directory / "summary.md").read_text()
    assert "https://github.test/page#run-1)" in summary
    assert "All files: URL" in summary
    machine.said = ""
    assert (
        run_github(machine, WORKFLOW, "heal", {"GOOGLE_API_KEY": server.api_key}) == 1
    ), machine.said
    assert "no recording has changed" in machine.said
