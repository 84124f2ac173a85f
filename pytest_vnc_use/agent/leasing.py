"""From settings to desktops: which is leased or started, and how a client connects.

Each class is imported when it is chosen: none is needed to collect tests.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vnc_use.agent.credentials import SERVER_KEY_VARIABLE, desktop_password
from pytest_vnc_use.desktops.environment import withhold
from pytest_vnc_use.desktops.home import check_home
from pytest_vnc_use.errors import DesktopRefused, SettingsError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.settings.fallbacks import (
    LOCAL_AGENT,
)
from pytest_vnc_use.settings.layers import read_count
from pytest_vnc_use.settings.settings import (
    LOCAL_SERVERS,
    Settings,
)
from pytest_vnc_use.types.protocols import (
    Controller,
    Desktop,
    MessageTap,
)
from pytest_vnc_use.types.wire import Wire, host_and_port

if TYPE_CHECKING:
    from pytest_vnc_use.backends.browser import BrowsableDesktop
    from pytest_vnc_use.backends.vnc import VNCController
    from pytest_vnc_use.desktops.started import ReachedDesktop
    from pytest_vnc_use.desktops.xvnc import XvncDesktop

PROTECT = "use a server with TLS (vnc_tls=require), wss://, or a tunnel (ssh -L)"
START_SETTINGS = (
    "server",
    "screen_size",
    "rendering",
    "start_seconds",
    "container_engine",
    "container_args",
    "home",
    "app",
    "exec",
)
"""The settings that decide which desktop is started, with its program."""
CONNECTION_SETTINGS = (
    "server",
    "password_env",
    "cdp",
    "scroll",
    "typing",
    "toolset",
    "show_secrets",
    "rfb_log",
    "username",
    "tls",
    "start_seconds",
)
"""The settings that decide how a controller connects."""
_ENGINE = "pytest_vnc_use.agent.run"
"""The module that imports LangGraph, which takes most of a second of processor time."""
_MAX_PORT = 65_535
_warned: set[str] = set()
"""The servers of which the user was warned in this process."""


def is_external(settings: Settings) -> bool:
    """Return whether another user started the desktop."""
    server = settings.server
    is_started = server in LOCAL_SERVERS or server.startswith("container:")
    return bool(server) and not is_started


def settings_at(settings: Settings, server: str) -> Settings:
    """Return the settings for a desktop at this address. The rules of the wire are for
    an external desktop only.

    A desktop that the plugin starts has a private socket, or a loopback address with a
    random password.
    """
    if is_external(settings):
        return replace(settings, server=server)
    return replace(
        settings,
        server=server,
        username="",
        tls="off",
    )


def agree(
    one: Settings,
    other: Settings,
    names: Sequence[str],
) -> bool:
    """Return whether both have the same values of these settings."""
    return all(getattr(one, name) == getattr(other, name) for name in names)


def lease_desktop(
    settings: Settings,
    holder: str = "",
    name: str = "",
    prestarted: ReachedDesktop | None = None,
    *,
    runs_tasks: bool = False,
) -> Desktop:
    """Lease the desktop that the settings name, with its program, for one user: an
    external one, or a started one.

    `holder` is the name that other waiting tests see. A desktop that is started has its
    home at a path that follows from `name`. For a user who `runs_tasks`, the engine is
    imported while the program starts. A `prestarted` desktop is leased in place of a new
    one. Raises DesktopError, SettingsError.
    """
    desktop = prestarted
    try:
        command = program_of(settings)
        _check_home(settings)
        if desktop is None and is_external(settings):
            desktop = _external_desktop(settings, holder)
        elif desktop is None:
            desktop = start_desktop(settings, name)
        if command:
            with desktop.launching(command):
                if runs_tasks:
                    import_engine()
    except BaseException:
        # whatever it was, Ctrl-C too: nothing that was started stays behind
        if desktop:
            desktop.stop()
        raise
    return desktop


def starts_alike(one: Settings, other: Settings) -> bool:
    """Return whether both start the same desktop, apart from its program."""
    return agree(replace(one, app=""), replace(other, app=""), START_SETTINGS)


def prestart_desktop(
    settings: Settings, name: str, variables: Mapping[str, str]
) -> XvncDesktop:
    """Start a desktop on TigerVNC and connect to it, for a `lease_desktop` to come;
    `variables` as in `start_desktop`. Raises DesktopError, SettingsError.
    """
    from pytest_vnc_use.desktops.xvnc import XvncDesktop

    desktop = start_desktop(settings, name, variables)
    assert isinstance(desktop, XvncDesktop)
    try:
        desktop.connect()
    except BaseException:
        desktop.stop()
        raise
    return desktop


def import_engine() -> None:
    """Import what runs tasks, before the time limit of the first one.

    Not in a thread: CPython 3.11 can fail with a SystemError where two threads parse
    modules.
    """
    import_module(_ENGINE)


def program_of(settings: Settings) -> list[str]:
    """Return the argv of the program under test. Raises SettingsError if one is missing
    or cannot be started.
    """
    try:
        command = shlex.split(settings.app, posix=os.name == "posix")
    except ValueError as exc:
        raise SettingsError(
            f"--vnc-app must be a command line, got {settings.app!r}: {exc}"
        ) from exc
    if settings.server == "qt" and not command:
        raise SettingsError(
            "--vnc-server=qt needs --vnc-app, the command of the program under test,"
            " got ''"
        )
    if command and is_external(settings) and not settings.exec:
        raise SettingsError(
            f"--vnc-app={settings.app!r} cannot be started on the desktop at"
            f" {settings.server!r}, because only VNC reaches that desktop. Set"
            " --vnc-exec, such as 'ssh HOST', or remove --vnc-app and start the"
            " program yourself"
        )
    return command


def _check_home(settings: Settings) -> None:
    """Raise SettingsError if no program on this desktop can start with `home`."""
    if not settings.home or not settings.server:
        return
    if settings.server in LOCAL_SERVERS:
        check_home(Path(settings.home))
        return
    remedy = "let a fixture write the files with vnc_desktop.write_file"
    if not is_external(settings):
        remedy = "put the files into the image"
    raise SettingsError(
        f"vnc_home={settings.home!r} works with the servers xvnc and qt only, got"
        f" {settings.server!r}. Pass -o vnc_home= or remove it, and {remedy}"
    )


def external_servers(settings: Settings) -> list[str]:
    """Return the addresses of desktops that another user started. Raises SettingsError
    if one is not an address.
    """
    # with numpy, which takes a tenth of a second
    from pytest_vnc_use.desktops.remote import remote_exec_of

    servers = [
        address.strip() for address in settings.server.split(",") if address.strip()
    ]
    for address in servers or [settings.server]:
        if ":" not in address and "/" not in address and not address.isdecimal():
            raise SettingsError(
                "--vnc-server must be host::port, host:display, ws://…, wss://…, the"
                f" path of a unix socket, xvnc, qt or container:IMAGE, got {address!r}"
            )
        host_and_port(address)
    if settings.exec:
        commands = {
            remote_exec_of(settings.exec, address).command for address in servers
        }
        if len(commands) < len(servers):
            raise SettingsError(
                f"--vnc-exec={settings.exec!r} runs the same command for several"
                f" servers, got {servers!r}. Put {{host}} or {{port}} into the"
                " command, such as 'ssh {host}'"
            )
    return servers


def start_desktop(
    settings: Settings, name: str = "", variables: Mapping[str, str] = os.environ
) -> ReachedDesktop:
    """Start a desktop without a program; `name` as in `lease_desktop`. On TigerVNC, the
    program inherits these `variables`. Raises DesktopError, SettingsError.
    """
    withhold(settings.password_env, SERVER_KEY_VARIABLE)
    started: dict[str, Any] = {
        "size": settings.screen_size,
        "start_timeout_s": settings.start_seconds,
    }
    desktop_options: dict[str, Any] = {
        "pinned": settings.rendering == "pinned",
        "name": name,
        "home": Path(settings.home) if settings.home else None,
    }
    match settings.server:
        case "":
            raise SettingsError(
                "--vnc-server must name a desktop, got ''. Give its address, such as"
                " --vnc-server=host::port, or start a desktop with --vnc-server=xvnc,"
                " --vnc-server=container:IMAGE, or --vnc-server=qt with --vnc-app"
            )
        case "qt":
            from pytest_vnc_use.desktops.qt import QtDesktop

            qt_open = settings.qt_host_network
            return QtDesktop(
                **started,
                is_open=qt_open == "always",
                may_be_open=qt_open != "false",
                **desktop_options,
            )
        case "xvnc":
            from pytest_vnc_use.desktops.xvnc import XvncDesktop

            return XvncDesktop(**started, **desktop_options, variables=variables)
        case _:
            from pytest_vnc_use.backends import vnc
            from pytest_vnc_use.desktops.container import ContainerDesktop

            name_and_port = settings.server.removeprefix("container:")
            image, colons, port_text = name_and_port.partition("::")
            port = 5901
            if colons:
                port = read_count(
                    port_text, "the port of container:IMAGE::PORT", _MAX_PORT
                )
            return ContainerDesktop(
                image,
                **started,
                **_container_options(settings.container_args),
                port=port,
                engine=settings.container_engine,
                password=desktop_password(settings),
                connect=partial(vnc.connect, encoding="raw"),
            )


def _container_options(text: str) -> dict[str, Any]:
    """Return the keyword arguments of `ContainerDesktop` from arguments of `docker
    run`. Raises SettingsError.
    """
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, exit_on_error=False
    )
    parser.add_argument(
        "-e",
        "--env",
        dest="environment",
        action="append",
        default=[],
    )
    parser.add_argument(
        "-v",
        "--volume",
        dest="volumes",
        action="append",
        default=[],
    )
    parser.add_argument("--network", "--net", default="")
    try:
        options, others = parser.parse_known_args(shlex.split(text))
    except (argparse.ArgumentError, ValueError) as exc:
        raise SettingsError(
            f"vnc_container_args must be arguments of docker run, got {text!r}: {exc}"
        ) from None
    if others:
        raise SettingsError(
            "vnc_container_args supports only -e, -v and --network, got"
            f" {shlex.join(others)!r}"
        )
    return vars(options)


def _external_desktop(settings: Settings, holder: str) -> ReachedDesktop:
    """Lease the first desktop that is free. Of several, skip one that does not answer,
    and warn of it.
    """
    from pytest_vnc_use.desktops.external import ExternalDesktop, lease
    from pytest_vnc_use.desktops.remote import remote_exec_of

    withhold(settings.password_env, SERVER_KEY_VARIABLE)
    servers = external_servers(settings)

    def look(server: str, _: str | None) -> Controller:
        return connect_to(settings, server, desktop_password(settings))

    while True:
        leased = lease(servers, holder, timeout_s=settings.lease_seconds)
        try:
            if len(servers) > 1:
                look(leased.server, None).close()
            remote_exec = None
            if settings.exec:
                remote_exec = remote_exec_of(settings.exec, leased.server)
            return ExternalDesktop(
                leased.server,
                remote_exec,
                look,
                leased,
            )
        except DesktopRefused as exc:
            leased.release()
            if len(servers) == 1:
                raise
            servers.remove(leased.server)
            warnings.warn(line(f"skipped this desktop: {exc}"), stacklevel=3)
        except BaseException:  # whatever it was, Ctrl-C too: the lease is given back
            leased.release()
            raise


def external_desktop(settings: Settings) -> Desktop:
    """Return the desktop at the settings' address, without a lease; with `exec` also
    its files and commands.

    Raises SettingsError.
    """
    from pytest_vnc_use.desktops.external import ExternalDesktop
    from pytest_vnc_use.desktops.remote import remote_exec_of

    withhold(settings.password_env, SERVER_KEY_VARIABLE)
    return ExternalDesktop(
        settings.server,
        remote_exec_of(settings.exec, settings.server) if settings.exec else None,
    )


def browsable(settings: Settings, desktop: Desktop) -> Desktop:
    """Return the desktop with its `browser`, which raises SettingsError if `cdp` does
    not say where it is.
    """
    from pytest_vnc_use.backends.browser import browser_at, with_browser

    return with_browser(desktop, partial(browser_at, settings.cdp, desktop.read_file))


def wire_of(settings: Settings) -> Wire:
    """Return the rules of the connection to an external desktop. Raises SettingsError
    if they contradict each other.
    """
    wire = Wire.of(settings.username, settings.tls)
    return replace(wire, password_env=settings.password_env)


def devtools_url(settings: Settings, desktop: BrowsableDesktop) -> str:
    """Return where the DevTools of the desktop's browser listen, once they do. Raises
    DesktopError, SettingsError.
    """
    from pytest_vnc_use.backends.browser import await_devtools

    def is_over() -> bool:
        return bool(desktop.exit_reason() or desktop.program_exit_reason())

    return await_devtools(lambda: desktop.browser, settings.start_seconds, is_over)


def connect_to(
    settings: Settings,
    server: str,
    password: str | None,
    **arguments: Any,
) -> VNCController:
    """Return a connection as the settings want it; warn once of a server without
    encryption.

    `arguments` are further arguments of `vnc.connect`. Raises DesktopError,
    SettingsError.
    """
    from pytest_vnc_use.backends import vnc

    controller = vnc.connect(
        server,
        password,
        type_by=settings.typing,
        wire=wire_of(settings),
        **arguments,
    )
    if controller.exposure and server not in _warned:
        _warned.add(server)
        try:
            warnings.warn(
                f"the VNC connection to {controller.server!r} is not encrypted:"
                f" {controller.exposure}; {PROTECT}",
                stacklevel=2,
            )
        except Warning:  # warnings are errors in this session
            controller.close()
            raise
    return controller


def connect(
    settings: Settings,
    password: str | None = None,
    *,
    may_stay_blank: bool = False,
    program_exit_reason: Callable[[], str] = str,
    read_file: Callable[..., str] | None = None,
    tap: MessageTap | None = None,
) -> Controller:
    """Return a controller for the desktop at `settings.server`, with a watchdog. Raises
    DesktopError.

    A screen of one colour is an error after `start_seconds`, unless it
    `may_stay_blank`. If `program_exit_reason` says that the program ended, a lost
    connection is not replaced. With `cdp`, DevTools drive a browser; `read_file` reads
    a file of the desktop. `tap` gets each message that is sent.
    """
    from pytest_vnc_use.backends import vnc
    from pytest_vnc_use.backends.browser import browser_at

    read_file = read_file or external_desktop(settings).read_file
    encoding = None
    frozen_s = vnc.Watch.frozen_s
    if settings.record == "manual":
        encoding = "tight"
        frozen_s = math.inf  # the user sees that nothing changes
    elif password:
        # Only a local desktop has a known password. A whole screen in raw arrives 10 ms
        # later.
        encoding = "raw"
    browser = None
    if settings.cdp:
        browser = partial(browser_at, settings.cdp, read_file)
    return connect_to(
        settings,
        settings.server,
        password or desktop_password(settings),
        scroll_by=settings.scroll,
        show_pointer=settings.toolset == LOCAL_AGENT,
        tap=tap,
        encoding=encoding,
        watch=vnc.Watch(
            None if may_stay_blank else settings.start_seconds,
            frozen_s,
            program_exit_reason=program_exit_reason,
        ),
        browser=browser,
    )


def vnc_behind(controller: Controller) -> VNCController:
    """Return the VNC connection of this controller. Raises SettingsError if it has
    none.
    """
    from pytest_vnc_use.backends.typed_secrets import RedactingController
    from pytest_vnc_use.backends.vnc import VNCController

    if isinstance(controller, RedactingController):
        return vnc_behind(controller.desktop)
    if isinstance(controller, VNCController):
        return controller
    raise SettingsError(
        "--vnc-record=manual needs the plugin's own controller, got a"
        f" {type(controller).__name__!r}. Remove `controller`, or use a planner"
    )
