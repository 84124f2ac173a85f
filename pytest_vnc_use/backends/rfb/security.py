"""The choice of a security type: from the server's offer and the rules, with an error if nothing fits.

Numbers: RFC 6143, 8.1.2, and rfbproto, "Security Types" and "VeNCrypt".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_vnc_use.types.wire import Wire

NONE, VNC_AUTH, VENCRYPT = 1, 2, 19
NAMES = {
    1: "None",
    2: "VncAuth",
    5: "RA2",
    6: "RA2ne",
    16: "Tight",
    17: "Ultra",
    18: "TLS",
    19: "VeNCrypt",
    20: "SASL",
    30: "Apple",
    113: "MSLogonII",
    129: "RA2_256",
    130: "RA2ne_256",
    256: "Plain",
    257: "TLSNone",
    258: "TLSVnc",
    259: "TLSPlain",
    260: "X509None",
    261: "X509Vnc",
    262: "X509Plain",
    263: "TLSSASL",
    264: "X509SASL",
}
"""Security types and VeNCrypt's sub-types, as servers' options spell them."""
_ANONYMOUS, _CERTIFIED = ("TLSNone", "TLSVnc", "TLSPlain"), ("X509None", "X509Vnc", "X509Plain")
_NUMBERS = {name: number for number, name in NAMES.items()}


class Unfit(Exception):  # handshake.py adds the server's name and makes it an error of the package
    """The error that no offered type fits the rules; the message says what was offered, and what would be right."""


class OnlyAnonymous(Unfit):
    """The error that the server has TLS without a certificate only, and the rules do not allow that."""


@dataclass(frozen=True)
class Situation:
    """The facts that count for the choice, beside the rules.

    `is_private` says that nobody can read along: a unix socket, loopback, a tunnel, wss. `has_tls` says that a lower
    layer has TLS already. `can_start_tls` says that TLS can be started within the connection.
    """

    is_private: bool
    has_tls: bool = False
    can_start_tls: bool = True


def names(types: Iterable[int]) -> str:
    """Return the types in words."""
    return ", ".join(NAMES.get(number, f"type {number}") for number in types) or "nothing"


def choose(offered: bytes, wire: Wire, situation: Situation, *, has_password: bool) -> int:
    """Return the security type to use. Raises Unfit."""
    plain = (VNC_AUTH, NONE) if has_password else (NONE, VNC_AUTH)
    order: Sequence[int] = plain
    if wire.requires_tls and not situation.has_tls:
        order = (VENCRYPT,)
    elif wire.tls != "off" and situation.can_start_tls:
        order = (*plain, VENCRYPT) if situation.is_private else (VENCRYPT, *plain)
    found = next((number for number in order if number in offered), None)
    if found is not None:
        return found
    if order == (VENCRYPT,):
        raise Unfit(
            f"offers {names(offered)}, but {wire.demand} requires TLS. Nothing was sent. Someone on the network "
            "may have removed the offer of TLS. If not, make the server offer VeNCrypt with X509Vnc or X509Plain"
        )
    raise Unfit(f"offers {names(offered)}: {_remedy(offered, wire, situation)}")


def _remedy(offered: bytes, wire: Wire, situation: Situation) -> str:
    if VENCRYPT in offered and not situation.can_start_tls:
        return (
            "VeNCrypt does not work through a WebSocket. Make the server offer VncAuth or None, and use wss:// for TLS"
        )
    if VENCRYPT in offered and wire.tls == "off":
        return "vnc_tls=off allows no TLS. Set vnc_tls=auto, or make the server offer VncAuth or None"
    return "make the server offer VncAuth, None or VeNCrypt"


def choose_subtype(offered: Sequence[int], wire: Wire, *, has_password: bool) -> int:
    """Return the sub-type of VeNCrypt to use. Raises OnlyAnonymous, Unfit."""
    acceptable = _by_credentials(_CERTIFIED, wire.user, has_password)
    if wire.tls == "anonymous":
        acceptable = (*acceptable, *_by_credentials(_ANONYMOUS, wire.user, has_password))
    for name in acceptable:
        if _NUMBERS[name] in offered:
            return _NUMBERS[name]
    offer = f"offers VeNCrypt with {names(offered)}"
    if any(_NUMBERS[name] in offered for name in _ANONYMOUS):
        raise OnlyAnonymous(
            f"{offer}, all without a certificate. Someone on the network can read and change such a connection. "
            "Make the server offer X509Vnc or X509Plain, or set vnc_tls=anonymous to accept it"
        )
    raise Unfit(f"{offer}: make the server offer X509Vnc, X509Plain or X509None")


def _by_credentials(kinds: tuple[str, str, str], user: str, has_password: bool) -> tuple[str, ...]:
    """Return one of three kinds: without a password, with one, or with a user name too.

    The kind that fits the given credentials comes first.
    """
    none, password, name_too = kinds
    if user:
        return name_too, password, none
    return (password, none, name_too) if has_password else (none, password, name_too)


def is_anonymous(subtype: int) -> bool:
    """Return whether a sub-type has no certificate."""
    return NAMES[subtype] in _ANONYMOUS
