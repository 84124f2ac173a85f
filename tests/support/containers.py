"""The image of examples/desktop, built once for each content of that directory, and
desktops that run it.

Needs podman, and where no registry can be reached, mmdebstrap and root, to make
Debian's base image.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.container import ContainerDesktop
from support.paths import EXAMPLES
from support.vnc_servers import missing, require

ENGINE = "podman"
DIRECTORY = EXAMPLES / "desktop"
BASE = "docker.io/library/debian:bookworm-slim"
NOT_IN_SLIM = ("man", "locale", "info", "doc")
"""What Debian leaves out of its image too, of /usr/share."""
_BUILD_S = 900
_RUN_S = "60"
"""The longest time for a container that ends at once, in seconds."""
_LOCK = FileLock(Path(tempfile.gettempdir(), f"vnc-use-test-image-{os.getuid()}.lock"))
"""Of this user, as images are. Made when the tests are collected: some of them change
the temporary directory.
"""


def started_container(*command: str, **options: Any) -> ContainerDesktop:
    given = {"size": (1024, 768), "engine": ENGINE, "connect": connect, **options}
    return ContainerDesktop(desktop_image(), command, **given)


@functools.cache
def desktop_image() -> str:
    """Return the image's name; build it if it is not here yet. Skip if it cannot be run
    here; fail in CI.
    """
    require(ENGINE)
    if _failure(ENGINE, "info"):
        missing(
            f"a {ENGINE} that may run containers here",
            f"`{ENGINE} info` says what it lacks",
        )
    content = b"".join(
        path.name.encode() + path.read_bytes() for path in sorted(DIRECTORY.iterdir())
    )
    name = f"localhost/vnc-use-test-desktop:{hashlib.sha256(content).hexdigest()[:16]}"
    with _LOCK:
        if _failure(ENGINE, "image", "exists", name):
            _have_base_image()
            _do(ENGINE, "build", "--layers=false", "-t", name, str(DIRECTORY))
    if failure := _failure_to_publish(name):
        missing("a container with a published port", failure)
    return name


@functools.cache
def _failure_to_publish(name: str) -> str:
    # where no user may publish a port, Podman 4.3 waits without end
    run = [ENGINE, "run", "--rm", "--publish=127.0.0.1::5900", "--entrypoint=true"]
    return _failure("timeout", _RUN_S, *run, name)


def _have_base_image() -> None:
    if not _failure(ENGINE, "image", "exists", BASE) or not _failure(
        ENGINE, "pull", "-q", BASE
    ):
        return
    require("mmdebstrap")
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in NOT_IN_SLIM]
    with tempfile.TemporaryDirectory() as directory:
        tar = f"{directory}/root.tar"
        _do(
            "mmdebstrap",
            "--variant=minbase",
            "--dpkgopt=force-unsafe-io",
            *excluded,
            "bookworm",
            tar,
        )
        _do(ENGINE, "import", tar, BASE)


def _do(*command: str) -> None:
    """Skip if it fails, fail in CI: this machine cannot make or run containers."""
    if failure := _failure(*command):
        missing("what runs containers", f"{' '.join(command)!r} failed: {failure}")


def _failure(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_BUILD_S
    )
    return (
        f"exit code {done.returncode}: {done.stderr[-2000:]}" if done.returncode else ""
    )
