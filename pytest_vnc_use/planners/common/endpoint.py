"""The endpoint of a model's service: its address, its key, and how patiently it is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from pytest_vnc_use.errors import KeyMissing, KeyRejected, SettingsError
from pytest_vnc_use.planners.common.retry import Backoff

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
UNSENT = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "InvalidURL")
"""Errors of the HTTP library after which no request was sent."""
URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"


@dataclass(frozen=True)
class Endpoint:
    """The endpoint of Gemini's service. Without `base_url` it is Google's own."""

    api_key: str = field(repr=False)
    base_url: str | None = None
    backoff: Backoff = field(default_factory=Backoff)

    def within(self, request_s: float | None) -> Endpoint:
        """Return the same endpoint with this time limit for each request, if one is given."""
        return replace(self, backoff=self.backoff.within(request_s))


def found_key(api_key: str | None, variables: Sequence[str] = KEY_VARIABLES) -> str:
    """Return the given key, or the key in the environment. Raises KeyMissing, or KeyRejected if it cannot be sent."""
    keys = [api_key, *(os.environ.get(name) for name in variables)]
    key = next((key.strip() for key in keys if key and key.strip()), "")
    if not key:
        raise KeyMissing(f"no API key is set; set {variables[0]}, or pass api_key")
    if not (key.isascii() and key.isprintable()):
        raise KeyRejected("the API key must be of printable ASCII characters, and has others")
    return key


def found_url(base_url: str | None, variable: str = URL_VARIABLE) -> str | None:
    """Return the given address, or the one in the environment, if any. Raises SettingsError if it is not http(s)."""
    url = base_url or os.environ.get(variable) or None
    if url is not None and not _is_http(url):
        raise SettingsError(f"base_url must be an address such as https://host/path, got {url!r}")
    return url


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def http_errors(names: Sequence[str] = ("HTTPError", "InvalidURL")) -> tuple[type[Exception], ...]:
    """Return the errors that Google's SDK lets through from its HTTP library.

    The library is httpx in the SDK's versions below 3, and httpx2 from version 3 on.
    """
    libraries = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return tuple(getattr(library, name) for library in libraries for name in names)
