"""The endpoint of a model's service: its address, its key, its retries."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from pytest_vnc_use.errors import KeyMissing, KeyRejected, SettingsError
from pytest_vnc_use.planners.common.json_answers import MOST_BYTES, MOST_VALUES, NotJson
from pytest_vnc_use.planners.common.proxies import check_proxies
from pytest_vnc_use.planners.common.retry import Backoff
from pytest_vnc_use.runs.json_lines import values_in
from pytest_vnc_use.settings.variables import VARIABLES

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
UNSENT = ("ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL")
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
    keys = [api_key, *(VARIABLES.get(name) for name in variables)]
    key = next((key.strip() for key in keys if key and key.strip()), "")
    if not key:
        raise KeyMissing(f"no API key is set; set {variables[0]}. In Python a planner or judge also takes api_key=…")
    if not (key.isascii() and key.isprintable()):
        raise KeyRejected("the API key must contain only printable ASCII characters")
    return key


def found_url(base_url: str | None, variable: str = URL_VARIABLE) -> str | None:
    """Return the given address, or the one in the environment, if any.

    Raises SettingsError if it is not http(s), or if the proxy to it cannot be used.
    """
    url = base_url or VARIABLES.get(variable) or None
    if url is not None and not _is_http(url):
        raise SettingsError(f"base_url must be an address such as https://host/path, got {url!r}")
    check_proxies(url or "")
    return url


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def limit_stream(response: Any) -> Any:
    """Return the stream of a response of the SDK's HTTP library; it raises NotJson if it is too large for an answer.

    The SDK reads a whole response, and parses an error's. If a proxy compressed it, it is unpacked here within the same
    limits, because few bytes can become a thousand times as many.
    """
    stream, packing = response.stream, response.headers.pop("content-encoding", "identity").lower()
    if packing not in ("identity", "gzip"):
        raise NotJson(f"the model's service must send its answer without compression or as gzip, got {packing!r:.100}")
    (base,) = (kind for kind in type(stream).__mro__ if kind.__name__ == "SyncByteStream")

    class LimitedStream(base):  # type: ignore[misc, valid-type]
        def __iter__(self) -> Iterator[bytes]:
            return _within_limits(_unpack(stream) if packing == "gzip" else stream)

        def close(self) -> None:
            stream.close()

    return LimitedStream()


def _unpack(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the unpacked data; of a decompression bomb only enough to exceed the limit. Raises NotJson."""
    packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        yield from (packed.decompress(chunk, MOST_BYTES + 1) for chunk in chunks)
    except zlib.error as exc:
        raise NotJson(f"the model's service announced gzip, but sent other data: {exc}") from exc


def _within_limits(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks of an answer. Raises NotJson if it has more bytes or values than any real answer."""
    size = values = 0
    for chunk in chunks:
        size, values = size + len(chunk), values + values_in(chunk)
        if size > MOST_BYTES:
            raise NotJson(f"the model's service sent more than {MOST_BYTES // 2**20} MiB")
        if values > MOST_VALUES:
            raise NotJson(f"the model's service sent more than {MOST_VALUES} values")
        yield chunk


def http_errors(names: Sequence[str] = ("HTTPError", "InvalidURL")) -> tuple[type[Exception], ...]:
    """Return the errors that Google's SDK lets through from its HTTP library.

    The library is httpx in the SDK's versions below 3, and httpx2 from version 3 on.
    """
    libraries = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return tuple(getattr(library, name) for library in libraries for name in names)
