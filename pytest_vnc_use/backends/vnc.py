"""The way to a controller of a VNC desktop: `connect`."""

from __future__ import annotations

from pytest_vnc_use.backends.controller import VNCController as VNCController
from pytest_vnc_use.backends.screen.settle import SettleRules
from pytest_vnc_use.types import EncodingChoice, ScrollMeans, TypingMeans
from pytest_vnc_use.types.protocols import MessageTap
from pytest_vnc_use.types.wire import Wire


def connect(
    server: str,
    password: str | None = None,
    *,
    timeout_s: float = 10.0,
    settle_rules: SettleRules = SettleRules(),  # noqa: B008  # frozen
    scroll_by: ScrollMeans = "wheel",
    type_by: TypingMeans = "keys",
    encoding: EncodingChoice = "auto",
    show_pointer: bool = False,
    wire: Wire = Wire(),  # noqa: B008  # frozen
    tap: MessageTap | None = None,
) -> VNCController:
    """Connect to a VNC server and wait for its first whole frame.

    `server` is `host::port`, `host:display`, `[IPv6]::port`, `vnc://host:port`, `ws://…`, `wss://…`, or the path of a
    unix socket. As in TigerVNC's viewer, a number of 100 or more behind one colon is a port.

    `wire` says how the connection is protected. With `scroll_by="keys"` page and arrow keys do every scroll. With
    `type_by="clipboard"` all text is pasted; with `"keys"` only text that no key makes is pasted. `encoding` is how
    pixels travel; `auto` measures the link. With `show_pointer` the pointer is drawn into frames, at its last place, in
    the server's shape. `tap` gets each message that is sent.

    Raises DesktopRefused or AuthenticationFailed within `timeout_s`, SettingsError if an argument is invalid.
    """
    hands = VNCController(None, settle_rules, scroll_by, type_by, encoding=encoding, show_pointer=show_pointer)
    return hands.connect(server, password, timeout_s=timeout_s, wire=wire, tap=tap)
