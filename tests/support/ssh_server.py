"""A real sshd on loopback. It accepts this test's key, and its home directory has no
startup files.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.vnc_servers import free_port, missing, require, running, wait_for

CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {directory}/host
AuthorizedKeysFile {directory}/user.pub
PidFile {directory}/pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin yes
SetEnv HOME={directory}
"""
CLIENT = """
Host desktop-host
  HostName 127.0.0.1
  User {user}
  IdentityFile {directory}/user
  UserKnownHostsFile {directory}/known
  StrictHostKeyChecking accept-new
  LogLevel ERROR
"""


@contextmanager
def ssh_server(directory: Path) -> Iterator[str]:
    """Yield the command line to it, with {port} to be filled in, and with it the
    address of a desktop there.
    """
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None:
        missing("sshd", "apt-get install openssh-server")
    require("ssh")
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name],
            check=True,
        )
    port = free_port()
    (directory / "sshd_config").write_text(
        CONFIG.format(port=port, directory=directory)
    )
    (directory / "ssh_config").write_text(
        CLIENT.format(user=getpass.getuser(), directory=directory)
    )
    if os.getuid() == 0:
        # where sshd, as root, wants to shut itself in
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with running(str(sshd), "-D", "-f", str(directory / "sshd_config")):
        wait_for((directory / "pid").exists, "the start of sshd")
        yield f"ssh -F {directory}/ssh_config -p {port} desktop-host"
