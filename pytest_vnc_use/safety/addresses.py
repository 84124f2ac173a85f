"""A list of addresses that a browser may open, and the search for texts that lead elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ENTRY = re.compile(r"((?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(\d{1,5}|\*))?")
_ADDRESS = re.compile(
    r"(?:(https?)://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(\d{1,5}))?([/?#][^\s\x00-\x1f\x7f]*)?",
    re.IGNORECASE,
)
"""The one form of an address that can be in the list: no user, no escapes in its host, nothing that a browser drops."""
_USUAL_PORTS = ("80", "443")
_EMPTY_PAGES = frozenset(
    {"", "about:blank", "about:home", "about:newtab", "chrome://newtab/", "chrome://new-tab-page/"}
)
_LINE = re.compile(r"[^\n\r\t]+")
_SCHEME = re.compile(
    r"(?:about|blob|chrome|data|edge|file|filesystem|javascript|view-source):|[a-z][a-z0-9+.-]*:(?!\d+(?:\D|$))\S",
    re.IGNORECASE,
)
_WITH_SLASHES = re.compile(r"[a-z][a-z0-9+.-]*:[/\\]{2}", re.IGNORECASE)
_PLACE = re.compile(r"([^\s/\\?#]*)(.*)", re.DOTALL)
_MOST_DIGITS = 12
_MOST_SMALL = 1 << 24
"""A number below this is an address in 0.0.0.0/8, where nothing answers. So "1/2" is no address."""


@dataclass(frozen=True)
class Addresses:
    """A list of hosts, as `shop.example`, `*.shop.example`, `localhost:8080` or `localhost:*`.

    Without a port, a host stands for the ports 80 and 443. Raises ValueError for any other entry.
    """

    entries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for entry in self.entries:
            if not _ENTRY.fullmatch(entry):
                raise ValueError(
                    "must be hosts in lower-case ASCII, such as 'shop.example', '*.shop.example', 'localhost:8080' or "
                    f"'localhost:*' (not {entry!r})"
                )

    def __str__(self) -> str:
        return ", ".join(self.entries) or "none"

    def holds(self, address: str) -> bool:
        """Return whether the address is written plainly, and its host is in the list."""
        found = _ADDRESS.fullmatch(address)
        if not found:
            return False
        scheme, host, port, rest = found.groups()
        is_plain_word = not scheme and not port and not rest and "." not in host
        return not is_plain_word and self._lists(host.lower(), port)

    def holds_page(self, url: str) -> bool:
        """Return whether a browser may be at this address: an empty page, or one in the list."""
        return url in _EMPTY_PAGES or (url.startswith("http") and self.holds(url))

    def elsewhere(self, line: str) -> bool:
        """Return whether a browser may take the line for an address, and it is not in the list.

        A line of several words is none, unless it begins as an address does: a browser searches for it.
        """
        bare = line.strip()
        if not bare or self.holds(bare):
            return False
        if _SCHEME.match(bare):
            return True
        place, rest = _PLACE.fullmatch(bare.lstrip("/\\")).groups()  # type: ignore[union-attr]  # it matches every text
        user, at, host = place.rpartition("@")
        if at and not rest and user and ":" not in user and self._lists(host.lower(), None):
            return False
        if rest[:1].isspace():
            return False
        return bool(at and user and host) or _may_be_host(host, rest)

    def _lists(self, host: str, port: str | None) -> bool:
        return any(_fits(entry, host, port) for entry in self.entries)


@dataclass(frozen=True)
class Elsewhere:
    """A search for lines that lead out of a list of addresses; with `explicit`, only for those with a scheme."""

    addresses: Addresses
    explicit: bool = False

    def find(self, text: str, at: int = 0) -> re.Match[str] | None:
        """Return the place of the first such line that begins at `at` or after it."""
        return next((line for line in self._lines(text) if line.start() >= at), None)

    def _lines(self, text: str) -> Iterator[re.Match[str]]:
        for found in _LINE.finditer(text):
            bare = found[0].strip()
            if self.addresses.elsewhere(bare) and (not self.explicit or _WITH_SLASHES.match(bare)):
                yield found


def _fits(entry: str, host: str, port: str | None) -> bool:
    name, known = _ENTRY.fullmatch(entry).groups()  # type: ignore[union-attr]  # `Addresses` has checked it
    is_host = host.endswith(name[1:]) if name.startswith("*.") else host == name
    return is_host and (known == "*" or (port == known if known else port in (None, *_USUAL_PORTS)))


def _may_be_host(host: str, rest: str) -> bool:
    """Return whether the text is an address of a host, or a name that may be known in some network.

    A plain word, a price or a date is not one. "intranet/" and "orders.csv" may be: two words with a dot between them.
    """
    if host.startswith("["):
        return ":" in host
    name, colon, port = host.partition(":")
    parts = name.rstrip(".").split(".")
    if colon and port.isdecimal() and not name.replace(".", "").isdecimal():
        return True
    if (
        name.lower() == "localhost"
        or (rest == "/" and name[:1].isalpha())
        or any(part.lower().startswith("0x") and part[2:] for part in parts)
    ):
        return True
    if all(part.isdecimal() for part in parts):
        is_large = len(parts) > 1 or len(parts[0]) > _MOST_DIGITS or int(parts[0]) >= _MOST_SMALL
        return len(parts) == 4 or (bool(rest) and is_large)
    return len(parts) > 1 and len(parts[-1]) > 1 and parts[-1][0].isalpha() and bool(parts[-2])
