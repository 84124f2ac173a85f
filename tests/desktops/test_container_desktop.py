"""A desktop in a container: ready when it says so, its program described truly, bad
input named, nothing left.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.container import ContainerDesktop, find_engine
from pytest_vnc_use.errors import (
    AuthenticationFailed,
    DesktopError,
    DesktopRefused,
    ProgramMissing,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.types import TypeText
from support.containers import DIRECTORY, ENGINE, desktop_image, started_container
from support.leftovers import processes_naming
from support.vnc_servers import wait_for


def engine(*arguments: str) -> str:
    return subprocess.run(
        [ENGINE, *arguments], capture_output=True, text=True, timeout=400
    ).stdout


@pytest.mark.slow
@pytest.mark.container
def test_container_gets_volumes_variables_and_network(
    start: Callable[..., ContainerDesktop],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HANDED_ON", "plums # and more")
    tmp_path.chmod(0o755)  # the user in the container is another one
    (tmp_path / "list.txt").write_text("apples")
    terminal = (
        "xterm",
        "-e",
        "touch ready; read line; echo $line >typed; exec sleep 300",
    )
    options: dict[str, Any] = {
        "environment": ["FRUIT=two pears", "HANDED_ON"],
        "volumes": [f"{tmp_path}:/shared:ro"],
    }
    desktop = start(
        started_container, *terminal, network="none", password="sesame", **options
    )
    with pytest.raises(AuthenticationFailed):
        connect(desktop.server, "wrong")
    lines = (
        path.read_bytes()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    )
    assert not any(b"sesame" in line for line in lines)
    wait_for(lambda: desktop.run(["ls", "ready"]).exit_code == 0, "the terminal")
    with closing(connect(desktop.server, "sesame")) as controller:
        assert controller.size == (1024, 768)
        controller.perform(TypeText("two apples", press_enter=True))
    wait_for(
        lambda: desktop.run(["cat", "typed"]).stdout == "two apples\n", "the typed line"
    )
    script = (
        'cat /shared/list.txt; echo ";$FRUIT;$HANDED_ON;$PWD"; ls /sys/class/net; touch'
        " /shared/new"
    )
    ran = desktop.run(["sh", "-c", script])
    assert ran.stdout == "apples;two pears;plums # and more;/home/tester\nlo\n"
    assert "Read-only" in ran.stderr
    assert (desktop.exit_reason(), desktop.program_exit_reason()) == ("", "")
    engine("kill", desktop.container)
    wait_for(desktop.exit_reason, "the end of the container")
    assert "exited with 137" in desktop.exit_reason()
    socket_path = Path(desktop.server)
    desktop.stop()
    assert desktop.program_exit_reason() == ""
    assert "Xvnc TigerVNC" in desktop.logs()["container"]
    assert (
        desktop.container not in engine("ps", "--all", "--format", "{{.Names}}").split()
    )
    assert not socket_path.exists()
    assert processes_naming(Path(desktop.container)) == {}


BAD: list[tuple[dict[str, Any], type[VncUseError], str]] = [
    ({"engine": "lxc"}, SettingsError, r"one of docker, podman, got 'lxc'"),
    (
        {"image": "--privileged"},
        SettingsError,
        "an image must have a name, .* got '--privileged'",
    ),
    (
        {"image": "localhost:1/no-such-image"},
        DesktopError,
        "cannot pull .*, which is not on .*refused; build it",
    ),
    (
        {"environment": ["NO_SUCH_NAME"]},
        SettingsError,
        r"variable 'NO_SUCH_NAME' is not set",
    ),
    (
        {"volumes": ["/no/such:/there"]},
        SettingsError,
        r"got '/no/such:/there': there is no '/no/such'",
    ),
    (
        {"command": ["no-such-program"]},
        ProgramMissing,
        r"cannot start 'no-such-program'",
    ),
    (
        {"port": 5902, "start_timeout_s": 1.5},
        DesktopRefused,
        "not ready after 1.5 s: .* greeting at port 5902",
    ),
]


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.parametrize(
    ("options", "error", "message"), BAD, ids=[message for *_, message in BAD]
)
def test_bad_input_is_named_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    error: type[VncUseError],
    message: str,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    valid = {"image": desktop_image(), "engine": ENGINE, "connect": connect}
    with pytest.raises(error, match=message):
        ContainerDesktop(**(valid | options))
    assert list(tmp_path.iterdir()) == []
    assert processes_naming(tmp_path) == {}
    # others may start and stop theirs
    assert str(tmp_path) not in engine("ps", "--all", "--format", "{{.Labels}}")


def test_engine_that_does_not_answer_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").write_text(
        "#!/bin/sh\necho Cannot connect to the Docker daemon >&2\nexit 1\n"
    )
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    tried = (
        "docker cannot list containers: Cannot connect to the Docker daemon; podman is"
        " not on PATH. .* podman"
    )
    with pytest.raises(DesktopError, match=tried):
        find_engine()
    (tmp_path / "podman").symlink_to("/bin/true")
    assert find_engine().name == "podman"


def test_compose_file_agrees_with_its_readme() -> None:
    readme = (DIRECTORY / "README.md").read_text()
    service = yaml.safe_load((DIRECTORY / "compose.yaml").read_text())["services"][
        "desktop"
    ]
    assert f"-p {service['ports'][0]} " in readme
    assert f"docker exec -i {service['container_name']}" in readme
    assert f"docker build -t {service['image']} examples/desktop" in readme
    assert set(service["environment"]) <= {word.strip("`") for word in readme.split()}
    assert (DIRECTORY / service["build"]["dockerfile"]).exists()
