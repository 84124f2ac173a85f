"""From `Settings` to a desktop, its browser, and its controller."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_vnc_use.assembly.eyes import connect_bare, connect_to
from pytest_vnc_use.assembly.models import counted_in
from pytest_vnc_use.assembly.named_functions import named_functions
from pytest_vnc_use.errors import DesktopRefused, SettingsError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types import Action, Frame
from pytest_vnc_use.types.elements import ASK_S, Element, Elements
from pytest_vnc_use.types.protocols import Controller, Desktop, MessageTap
from pytest_vnc_use.types.wire import host_and_port

if TYPE_CHECKING:
    from pytest_vnc_use.backends.browser import Browser
    from pytest_vnc_use.backends.settling import SettleRules
    from pytest_vnc_use.backends.vnc import VNCController
    from pytest_vnc_use.desktops.external import Lease

START_SETTINGS = (
    *("server", "screen_size", "rendering", "start_seconds"),
    *("engine", "container_port", "container_env", "container_network", "volumes"),
)
"""The settings that decide which desktop is started, its program aside."""

CONNECTION_SETTINGS = (
    *("server", "password_env", "cdp", "scroll", "typing", "show_pointer", "show_secrets", "keep_messages"),
    *("username", "tls", "tls_ca", "tls_fingerprint"),
    *("settle_first_seconds", "settle_quiet_seconds", "blank_seconds", "frozen_seconds"),
)
"""The settings that decide how a controller connects."""


def _withhold_keys(settings: Settings) -> None:
    """Remove the variables of keys, as the settings name them, from the environment of the desktop and its program."""
    from pytest_vnc_use.desktops.environment import withhold

    withhold(settings.password_env, settings.api_key_env)


def same_connection(one: Settings, other: Settings) -> bool:
    """Return whether `connect` would make the same controller from both."""
    return all(getattr(one, name) == getattr(other, name) for name in CONNECTION_SETTINGS)


def same_start(one: Settings, other: Settings) -> bool:
    """Return whether both ask for the same desktop, with any program."""
    return all(getattr(one, name) == getattr(other, name) for name in START_SETTINGS)


def same_desktop(one: Settings, other: Settings) -> bool:
    """Return whether both ask for the same desktop, with the same program."""
    return same_start(one, other) and (one.app, one.exec) == (other.app, other.exec)


def lease_desktop(settings: Settings, holder: str = "") -> Desktop:
    """Lease the desktop that the settings name, with its program, for one user: a given one, or one started here.

    `holder` is the name that other waiting tests see. Raises DesktopError, SettingsError.
    """
    command = program_of(settings)
    desktop = _given_desktop(settings, holder) if is_given(settings) else start_desktop(settings)
    try:
        if command:
            desktop.launch(command)
    except BaseException:  # whatever it was, Ctrl-C too: nothing that was started stays behind
        desktop.stop()
        raise
    return desktop


def program_of(settings: Settings) -> list[str]:
    """Return the words of the program under test. Raises SettingsError if one is missing or cannot be started."""
    try:
        command = shlex.split(settings.app, posix=os.name == "posix")
    except ValueError as exc:
        raise SettingsError(f"--vnc-app must be a command line, got {settings.app!r}: {exc}") from exc
    if settings.server == "qt" and not command:
        raise SettingsError("--vnc-server=qt starts the program under test: --vnc-app must name its command, got ''")
    if command and is_given(settings) and not settings.exec:
        raise SettingsError(
            f"--vnc-app={settings.app!r} cannot be started on the desktop at {settings.server!r}, because only "
            "VNC reaches that desktop. Say with --vnc-exec how a command runs there, or remove --vnc-app and "
            "start the program yourself"
        )
    return command


def is_given(settings: Settings) -> bool:
    """Return whether somebody else started the desktop."""
    return settings.server not in ("", "qt", "xvnc") and not settings.server.startswith("container:")


def settings_at(settings: Settings, server: str) -> Settings:
    """Return the settings for a desktop at this address. The rules of the wire are for a given desktop only.

    A desktop that is started here has a private socket, or a loopback address with a random password.
    """
    if is_given(settings):
        return replace(settings, server=server)
    return replace(settings, server=server, username="", tls="off", tls_ca="", tls_fingerprint="")


def given_servers(settings: Settings) -> list[str]:
    """Return the addresses of desktops that somebody else started. Raises SettingsError if one is not an address."""
    from pytest_vnc_use.desktops.remote import remote_exec_of

    servers = [address.strip() for address in settings.server.split(",") if address.strip()]
    for address in servers or [settings.server]:
        if ":" not in address and "/" not in address and not address.isdecimal():
            raise SettingsError(
                "--vnc-server must be host::port, host:display, ws://…, wss://…, the path of a unix socket, xvnc, qt "
                f"or container:IMAGE, got {address!r}"
            )
        host_and_port(address)
    if settings.exec and len({remote_exec_of(settings.exec, address).command for address in servers}) < len(servers):
        raise SettingsError(
            f"--vnc-exec={settings.exec!r} runs the same command for several servers, got {servers!r}. Put "
            "{host} or {port} into the command, such as 'ssh {host}'"
        )
    return servers


def start_desktop(settings: Settings) -> Desktop:
    """Start a desktop without a program. Raises DesktopError, SettingsError."""
    _withhold_keys(settings)
    started: dict[str, Any] = {"size": settings.screen_size, "start_timeout_s": settings.start_seconds}
    pinned = settings.rendering == "pinned"
    match settings.server:
        case "":
            raise SettingsError(
                "--vnc-server must name a desktop, got ''. Give its address, such as --vnc-server=host::port, or "
                "start a desktop with --vnc-server=xvnc, --vnc-server=container:IMAGE, or --vnc-server=qt with "
                "--vnc-app"
            )
        case "qt":
            from pytest_vnc_use.desktops.qt import QtDesktop

            qt_open = settings.qt_open
            return QtDesktop(**started, is_open=qt_open == "always", may_be_open=qt_open != "false", pinned=pinned)
        case "xvnc":
            from pytest_vnc_use.desktops.xvnc import XvncDesktop

            return XvncDesktop(**started, pinned=pinned)
        case _:
            from pytest_vnc_use.desktops.container import ContainerDesktop

            return ContainerDesktop(
                settings.server.removeprefix("container:"),
                **started,
                environment=settings.container_env,
                volumes=settings.volumes,
                port=settings.container_port,
                network=settings.container_network,
                engine=settings.engine,
                password=given_password(settings),
                connect=connect_bare,
            )


def _given_desktop(settings: Settings, holder: str) -> Desktop:
    """Lease the first desktop that is free. Of several, skip one that does not answer, and warn of it."""
    from pytest_vnc_use.desktops.external import lease

    _withhold_keys(settings)
    servers = given_servers(settings)
    while True:
        leased = lease(servers, holder, timeout_s=settings.lease_seconds)
        try:
            return _leased_desktop(settings, leased, check=len(servers) > 1)
        except DesktopRefused as exc:
            leased.release()
            if len(servers) == 1:
                raise
            servers.remove(leased.server)
            warnings.warn(line(f"skipped this desktop: {exc}"), stacklevel=3)
        except BaseException:  # whatever it was, Ctrl-C too: the lease is given back
            leased.release()
            raise


def _leased_desktop(settings: Settings, leased: Lease, *, check: bool) -> Desktop:
    from pytest_vnc_use.desktops.external import ExternalDesktop
    from pytest_vnc_use.desktops.remote import remote_exec_of

    def look(server: str, _: str | None) -> Controller:
        return connect_to(settings, server, given_password(settings))

    if check:
        look(leased.server, None).close()
    remote_exec = remote_exec_of(settings.exec, leased.server) if settings.exec else None
    return ExternalDesktop(leased.server, remote_exec, look, leased)


def given_desktop(settings: Settings) -> Desktop:
    """Return the desktop at the settings' address, without a lease; with `exec` also its files and commands.

    Raises SettingsError.
    """
    from pytest_vnc_use.desktops.external import ExternalDesktop
    from pytest_vnc_use.desktops.remote import remote_exec_of

    _withhold_keys(settings)
    return ExternalDesktop(settings.server, remote_exec_of(settings.exec, settings.server) if settings.exec else None)


def given_password(settings: Settings) -> str | None:
    """Return the VNC password from the environment; None if there is none."""
    return VARIABLES.get(settings.password_env) or None


def browsable(settings: Settings, desktop: Desktop) -> Desktop:
    """Return the desktop with its `browser`, which raises SettingsError if `cdp` does not say where it is."""
    from pytest_vnc_use.backends.browser import with_browser

    return with_browser(desktop, _browser_of(settings, desktop.read_file))


def desktop_functions(settings: Settings, desktop: Desktop) -> Sequence[Callable[..., object]]:
    """Return the functions that a model may call: those of the module `functions`, and those that look at the desktop.

    The latter read the browser's page if `cdp` is set, programs if `elements` is on. Raises SettingsError.
    """
    own = named_functions(settings.functions)
    size = counted_in(settings, lambda: _screen_now(settings, desktop).png)
    if settings.cdp:
        from pytest_vnc_use.backends.browser import browser_functions

        return (*own, *browser_functions(_browser_of(settings, desktop.read_file), size))
    if settings.elements:
        from pytest_vnc_use.backends.accessibility import elements_function

        return (*own, elements_function(partial(_elements_in_view, settings, desktop), size))
    return own


def _elements_in_view(settings: Settings, desktop: Desktop) -> tuple[list[Element], tuple[int, int]]:
    from pytest_vnc_use.backends.accessibility import desktop_elements

    found, screen = desktop_elements(desktop.run), _screen_now(settings, desktop).ref
    return found, (screen.width, screen.height)


def elements_asker(settings: Settings, desktop: Desktop) -> Callable[[Action], Elements]:
    """Return the function that finds the elements of an action: in the browser (`cdp`), in programs (`elements`)."""
    if settings.cdp:
        from pytest_vnc_use.backends.browser import acted_on as on_page, browser_at

        return lambda action: on_page(browser_at(settings.cdp, desktop.read_file, timeout_s=ASK_S), action)
    if settings.elements:
        from pytest_vnc_use.backends.accessibility import acted_on as in_program

        return lambda action: in_program(partial(desktop.run, timeout_s=ASK_S), action)
    return lambda _: ()


def _screen_now(settings: Settings, desktop: Desktop) -> Frame:
    """Return the screen now, through a connection of its own."""
    there = settings_at(settings, desktop.server)
    with closing(connect_to(there, there.server, desktop.password or given_password(settings))) as eyes:
        return eyes.frame()


def _browser_of(settings: Settings, read_file: Callable[[str], str]) -> Callable[[], Browser]:
    from pytest_vnc_use.backends.browser import browser_at

    return partial(browser_at, settings.cdp, read_file)


def connect(
    settings: Settings,
    password: str | None = None,
    *,
    program_fault: Callable[[], str] = str,
    read_file: Callable[[str], str] | None = None,
    tap: MessageTap | None = None,
) -> Controller:
    """Return a controller for the desktop at `settings.server`, with a watchdog. Raises DesktopError.

    If `program_fault` says that the program ended, a lost connection is not replaced. With `cdp`, DevTools drive a
    browser; `read_file` reads a file of the desktop. `tap` gets each message that is sent.
    """
    from pytest_vnc_use.backends.vnc import Watch

    browser = _browser_of(settings, read_file or given_desktop(settings).read_file) if settings.cdp else None
    return connect_to(
        settings,
        settings.server,
        password or given_password(settings),
        settle_rules=settle_rules(settings),
        scroll_by=settings.scroll,
        show_pointer=settings.show_pointer,
        tap=tap,
        encoding="raw" if password else None,  # only a desktop that was started here tells its password
        watch=Watch(settings.blank_seconds, settings.frozen_seconds, program_fault=program_fault),
        browser=browser,
    )


def vnc_behind(controller: Controller) -> VNCController:
    """Return the VNC connection of this controller. Raises SettingsError if it has none."""
    from pytest_vnc_use.backends.redaction import RedactingController
    from pytest_vnc_use.backends.vnc import VNCController

    if isinstance(controller, RedactingController):
        return vnc_behind(controller.desktop)
    if isinstance(controller, VNCController):
        return controller
    raise SettingsError(
        f"--vnc-record=demonstrate needs the plugin's own controller, got a {type(controller).__name__!r}. Do not "
        "pass `controller`, or let a planner do the task"
    )


def settle_rules(settings: Settings) -> SettleRules:
    """Return how long to wait for the screen after an action."""
    from pytest_vnc_use.backends.settling import SettleRules

    return SettleRules(settings.settle_first_seconds, settings.settle_quiet_seconds)
