"""What a text comes to in other words: the forms that a browser, or a person, takes for the same."""

from __future__ import annotations

import re
import socket
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import unquote

from pytest_vnc_use.patterns import Joined

_IDEOGRAPHIC_STOP = "\u3002"
_IGNORED = dict.fromkeys([0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10)])
_MAY_BE_ADDRESS = re.compile(r"[^\s./:]*[./:]\S*")
_URL = re.compile(r"\b(https?|wss?|ftp):[/\\]*([^\s/\\?#]+)(\S*)")
_SCHEME = re.compile(
    r"(?:about|blob|chrome|data|file|ftp|https?|javascript|mailto|tel|view-source|wss?):|[a-z][a-z0-9+-]*:[/\\]{2}",
    re.IGNORECASE,  # what else stands before a colon is a host or a user: "shop:8080", "alice:secret@shop"
)
_HOST = re.compile(r"[^\s/\\?#]*")
_CONTROLS = dict.fromkeys(range(0x20))


def plain_form(text: str) -> str:
    """Return the text as hosts are read: full-width characters as plain ones, what nobody sees left out."""
    if text.isascii():
        return text
    seen = "".join(c for c in text.translate(_IGNORED) if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", seen).replace(_IDEOGRAPHIC_STOP, ".")


def folded_form(text: str) -> str:
    """Return the plain form, its escapes read; words that may be addresses are in lower case."""
    read = plain_form(unquote(text) if "%" in text else text)
    return read if read.islower() else _MAY_BE_ADDRESS.sub(lambda word: word[0].lower(), read)


def browser_form(text: str) -> str:
    """Return the folded form, each address in it as a browser would show it."""
    return _as_shown(folded_form(text))


_FORMS = (plain_form, folded_form, browser_form)


def forms_of(text: str) -> tuple[str, ...]:
    """Return the forms of a text that are other than it is."""
    return tuple(form for form in dict.fromkeys(make(text) for make in _FORMS) if form != text)


def forms_of_address(address: str) -> tuple[str, ...]:
    """Return what an address comes to for a browser: without control characters, its escapes read, even twice.

    One without a scheme has those that a browser tries.
    """
    bare = address.translate(_CONTROLS).strip()
    read = [bare, unquote(bare), unquote(unquote(bare))]
    forms = [*read, *map(str.lower, read), *(form for each in read for form in forms_of(each))]
    if not _SCHEME.match(plain_form(bare)):
        hosts = [each.lstrip("/\\") for each in read]
        whole = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
        forms += [form for each in whole for form in (_as_shown(each), browser_form(each))]
    return tuple(dict.fromkeys(forms))


def forms_of_entered(text: str) -> tuple[str, ...]:
    """Return what a text comes to that is entered where a browser shows its address; nothing of words to search for."""
    place = folded_form(text).strip().lstrip("/\\")
    host = _HOST.match(place)[0]  # type: ignore[index]  # a pattern that is found in every text
    rest = place[len(host) :]
    has_host = not {".", ":"}.isdisjoint(host) or host == "localhost" or rest.startswith(("/", "\\"))
    is_address = has_host and (host[0].isalnum() or host[0] == "[") and not rest[:1].isspace()
    return (text, *forms_of_address(text)) if is_address else ()


def forms_of_joined(joined: Joined) -> Iterator[Joined]:
    """Yield the other forms of a text that typing added up to, each with the part of it that is new."""
    text, start, end = joined
    for make in _FORMS:
        form = make(text)
        if form != text:
            low = _common(form, make(text[:start]))
            high = len(form) - _common(form[::-1], make(text[end:])[::-1])
            yield Joined(form, min(low, high), max(low, high))


def _common(one: str, other: str) -> int:
    """How many characters the two begin with that are the same."""
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


def _as_shown(text: str) -> str:
    return _URL.sub(_canonical, plain_form(text))


def _canonical(url: re.Match[str]) -> str:
    scheme, authority, rest = url.groups()
    host = authority.rpartition("@")[2].lower()
    return f"{scheme}://{_host(host)}{rest.replace(chr(92), '/')}"


def _host(host: str) -> str:
    """A host as a browser shows it: a number is an address in four parts, "xn--…" its letters, no dot at its end."""
    name, colon, port = host.partition(":") if not host.startswith("[") else (host, "", "")
    name = ".".join(map(_label, name.rstrip(".").split(".")))
    if re.fullmatch(r"[0-9a-fx.]*\d[0-9a-fx.]*", name):
        with suppress(OSError):  # a name that only looks like a number
            name = socket.inet_ntoa(socket.inet_aton(name))
    return f"{name}{colon}{port}"


def _label(label: str) -> str:
    try:
        return label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
    except UnicodeError:
        return label
