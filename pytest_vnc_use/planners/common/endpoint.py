"""Where a model is asked, as whom, how patiently, and who is told of it."""

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
"""Errors of the HTTP library with which no request went out."""
URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"


@dataclass(frozen=True)
class Endpoint:
    """Without `base_url`, Google itself."""

    api_key: str = field(repr=False)
    base_url: str | None = None
    backoff: Backoff = field(default_factory=Backoff)

    def within(self, request_s: float | None) -> Endpoint:
        """The same, where given with another time for each request."""
        return replace(self, backoff=self.backoff.within(request_s))


def found_key(api_key: str | None, variables: Sequence[str] = KEY_VARIABLES) -> str:
    """The key given, or else the one in the environment. Raises KeyMissing, KeyRejected where it cannot be sent."""
    keys = [api_key, *(os.environ.get(name) for name in variables)]
    key = next((key.strip() for key in keys if key and key.strip()), "")
    if not key:
        raise KeyMissing(f"no API key is set; set {variables[0]}, or pass api_key")
    if not (key.isascii() and key.isprintable()):
        raise KeyRejected("the API key must be of printable ASCII characters, and has others")
    return key


def found_url(base_url: str | None, variable: str = URL_VARIABLE) -> str | None:
    """The address given, or else the one in the environment, if any. Raises SettingsError where it is not http(s)."""
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
    """What Google's SDK lets through of its HTTP library: httpx below its version 3, httpx2 from there on."""
    libraries = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return tuple(getattr(library, name) for library in libraries for name in names)
