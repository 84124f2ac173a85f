"""Equivalent forms of a text, as a browser or a person understands them."""

from __future__ import annotations

import re
import socket
import unicodedata
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import unquote

from pytest_vnc_use.safety.patterns import JoinedText

_IDEOGRAPHIC_STOP = "\u3002"
_IGNORED = dict.fromkeys([0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10)])
_MAY_BE_ADDRESS = re.compile(r"(?<!\S)[^\s./:]*[./:]\S*")
_LINE_GOES_ON = re.compile(r"\\\r?\n")
_URL = re.compile(r"\b(https?|wss?|ftp):[/\\]*([^\s/\\?#]+)(\S*)")
_SCHEME = re.compile(
    r"(?:about|blob|chrome|data|file|filesystem|ftp|https?|javascript|mailto|tel|view-source|wss?):|[a-z][a-z0-9+-]*:[/\\]{2}",
    re.IGNORECASE,  # anything else before a colon is a host or a user: "shop:8080", "alice:secret@shop"
)
_SLASHES = "/\\"
_HOST = re.compile(r"[^\s/\\?#]*")
_NUMBER = re.compile(r"(?=[a-fx.]*\d)[0-9a-fx.]+")
_WRAPPED = re.compile(r"(?:(?:view-source|blob|filesystem):\s*)+", re.IGNORECASE)
"""Schemes with another address behind them."""
_CONTENT = re.compile(r"(data|javascript):", re.IGNORECASE)
"""Schemes with the content of a page, or a program, behind them."""
_BASE64 = re.compile(r"[^,]*;\s*base64\s*,(.*)", re.IGNORECASE | re.DOTALL)
_WITHIN = re.compile(r"(?:https?|file|wss?|ftp):[/\\]{2}[^\s'\"`<>]+", re.IGNORECASE)
_FILE = re.compile(r"(?i)file:(?:[/\\]{2}localhost(?=[/\\]))?[/\\]*|(?=[/\\](?![/\\]))[/\\]|(?=[a-z]:[/\\])|(?=~/)")
"""The beginning of a file's address, or of its path."""
_PATH = re.compile(r"[/\\](?![/\\])\S|[a-z]:[/\\]|~/", re.IGNORECASE)
_IN_IPV6 = re.compile(r"\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]")
_CONTROLS = dict.fromkeys(range(0x20))
_MOST_LABEL = 63
"""The most characters of a part of a host's name, by RFC 1035."""


def plain_form(text: str) -> str:
    """Return the text as hosts are read: full-width characters become plain ones, invisible ones are left out."""
    if text.isascii():
        return text
    unseen = {ord(c): None for c in set(text) if ord(c) in _IGNORED or unicodedata.category(c) == "Cf"}
    seen = text.translate(unseen) if unseen else text
    return unicodedata.normalize("NFKC", seen).replace(_IDEOGRAPHIC_STOP, ".")


def folded_form(text: str) -> str:
    """Return the plain form with its escapes decoded. Words that may be addresses are in lower case."""
    read = plain_form(unquote(text) if "%" in text else text)
    return read if read.islower() else _MAY_BE_ADDRESS.sub(lambda word: word[0].lower(), read)


def _forms(text: str) -> tuple[str, ...]:
    """Return a text's forms: plain, with lines joined as in a shell, folded, with addresses as a browser shows them."""
    plain, folded = plain_form(text), folded_form(text)
    in_browser = _in_browser(folded)
    return (plain, _LINE_GOES_ON.sub("", plain), folded, in_browser, _IN_IPV6.sub(_ipv4, in_browser))


def forms_of(text: str) -> tuple[str, ...]:
    """Return the forms of a text that differ from it."""
    return tuple(form for form in dict.fromkeys(_forms(text)) if form != text)


def forms_of_address(address: str) -> Iterator[str]:
    """Yield the forms of an address in a browser: without control characters, its escapes decoded, even twice.

    An address without a scheme gets each scheme that a browser tries. A path is the address of a file. An address
    behind another scheme, or in the content of a page or a program, counts too.
    """
    bare = address.translate(_CONTROLS).strip()
    yield from _plain_forms(bare)
    if wrapped := _WRAPPED.match(plain_form(bare)):
        yield from _plain_forms(plain_form(bare)[wrapped.end() :])
    for content in _contents(plain_form(bare)):
        for text in (content, *_WITHIN.findall(content)):
            yield from (text, *forms_of(text))


def _contents(bare: str) -> Iterator[str]:
    """Yield the content of an address that is a page or a program: as it is, and decoded."""
    if not (found := _CONTENT.match(bare)):
        return
    content = bare[found.end() :]
    yield from dict.fromkeys([content, unquote(content), unquote(unquote(content))])
    if coded := _BASE64.match(content):
        with suppress(ValueError):  # nothing that a browser would read either
            yield b64decode(unquote(coded[1])).decode("utf-8", "replace")


def _plain_forms(bare: str) -> Iterator[str]:
    read = dict.fromkeys([bare, unquote(bare), unquote(unquote(bare))])
    for each in read:
        yield from (each, each.lower(), *forms_of(each))
        if path := _FILE.match(plain_form(each)):
            file = f"file:///{plain_form(each)[path.end() :].replace(chr(92), '/')}"
            yield from (file, file.lower())
    if _SCHEME.match(plain_form(bare)):
        return
    for each in read:
        for scheme in ("http", "https"):
            whole = f"{scheme}://{each.lstrip(_SLASHES)}"
            yield from (_in_browser(plain_form(whole)), _in_browser(folded_form(whole)))


def forms_of_entered(text: str) -> tuple[str, ...]:
    """Return the forms of a text that is entered in a browser's address bar; none for words to search for."""
    whole = folded_form(text).strip()
    place = whole.lstrip(_SLASHES)
    host = _HOST.match(place)[0]  # type: ignore[index]  # a pattern that is found in every text
    rest = place[len(host) :]
    has_host = not {".", ":"}.isdisjoint(host) or host == "localhost" or rest.startswith(tuple(_SLASHES))
    is_host = has_host and (host[0].isalnum() or host[0] == "[") and not rest[:1].isspace()
    is_address = is_host or bool(_SCHEME.match(whole) or _PATH.match(whole))
    return (text, *forms_of_address(text)) if is_address else ()


def forms_of_joined(joined: JoinedText) -> Iterator[JoinedText]:
    """Yield the other forms of a text that typing added up to, each with its new part."""
    text, start, end = joined
    for form, before, after in zip(_forms(text), _forms(text[:start]), _forms(text[end:]), strict=True):
        if form != text:
            low = _common(form, before)
            high = len(form) - _common(form[::-1], after[::-1])
            yield JoinedText(form, min(low, high), max(low, high))


def _common(one: str, other: str) -> int:
    """Return the number of characters that are the same at the start of both."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _in_browser(plain: str) -> str:
    return _URL.sub(_canonical, plain)


def _canonical(url: re.Match[str]) -> str:
    scheme, authority, rest = url.groups()
    host = authority.rpartition("@")[2].lower()
    return f"{scheme}://{_host(host)}{rest.replace(chr(92), '/')}"


def _host(host: str) -> str:
    """Return a host as a browser shows it.

    A number becomes an address in four parts, "xn--…" its letters, an IPv6 address its shortest form; a dot at the end
    is removed.
    """
    if host.startswith("["):
        return _ipv6(host)
    name, colon, port = host.partition(":")
    name = ".".join(map(_label, name.rstrip(".").split(".")))
    if _NUMBER.fullmatch(name):
        with suppress(OSError):  # a name that only looks like a number
            name = socket.inet_ntoa(socket.inet_aton(name))
    return f"{name}{colon}{port}"


def _ipv6(host: str) -> str:
    address, bracket, port = host[1:].partition("]")
    try:
        known = IPv6Address(address)
    except ValueError:
        return host
    shortest = known.compressed
    if known.ipv4_mapped:  # some versions of Python write it with dots, browsers never do
        number = int(known.ipv4_mapped)
        shortest = f"::ffff:{number >> 16:x}:{number & 0xFFFF:x}"
    return f"[{shortest}{bracket}{port}"


def _ipv4(found: re.Match[str]) -> str:
    """Return the IPv4 address in an IPv6 address: a connection goes to the same machine."""
    return str(IPv4Address(int(found[1], 16) << 16 | int(found[2], 16)))


def _label(label: str) -> str:
    if not label.startswith("xn--") or len(label) > _MOST_LABEL:
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label
