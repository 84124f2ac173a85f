"""The connection to a model's service: direct to this machine, else through the proxy that the environment names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from pytest_vnc_use.errors import ModelUnavailable, SettingsError
from pytest_vnc_use.planners.common.retry import Failure
from pytest_vnc_use.types import JsonObject

_SOCKS = ("socks5", "socks5h")
_REFUSAL = re.compile(r"refused(?: the request)?: (.*)", re.DOTALL)
_PORTS = {"http": 80, "https": 443}


def is_loopback(url: str) -> bool:
    """Return whether the URL names this machine. No proxy can reach what is meant by that."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):
            return True
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def check_proxies(url: str) -> None:
    """Raise SettingsError if a proxy of the environment cannot be used. For one URL all of them must be usable."""
    proxies = getproxies()
    if is_loopback(url) or "*" in map(str.strip, proxies.get("no", "").split(",")):
        return
    for name in ("http", "https", "all"):
        scheme, found, _ = proxies.get(name, "").partition("://")
        if found and scheme not in ("http", "https", *_SOCKS):
            known = ", ".join(f"{each}://" for each in ("http", "https", *_SOCKS))
            raise SettingsError(f"{name.upper()}_PROXY must begin with one of {known}, got {scheme}://")
        if scheme in _SOCKS and find_spec("socksio") is None:
            raise SettingsError(
                f"{name.upper()}_PROXY names a SOCKS proxy, which needs a library: pip install socksio; "
                "without proxies: NO_PROXY='*'"
            )


class Route:
    """The proxy, if any, of a client's newest request. `follow` is its hook; `sent` are the request's bytes."""

    def __init__(self) -> None:
        self.sent = b""
        self._target = self._peer = ("", 0)

    def follow(self, request: Any) -> None:
        """Note the request, and let the HTTP library report where it connects to."""
        self.sent, url = request.content, request.url
        self._target = self._peer = url.raw_host.decode(), url.port or _PORTS.get(url.scheme, 0)
        request.extensions = {**request.extensions, "trace": self._note}

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith("connect_tcp.started"):
            self._peer = info["host"], info["port"]

    def explain(self, failure: Failure, body: JsonObject) -> Failure:
        """Return the failure with the proxy's name. A refusal whose `body` is no service's error may be the proxy's."""
        if self._peer == self._target:
            return failure
        (host, port), error = self._peer, failure.error
        refusal = None if "error" in body or failure.again else _REFUSAL.search(str(error))
        told, kind = str(error), type(error)
        if refusal:
            told, kind = f"the proxy, or the model's service, refused the request: {refusal[1]}", ModelUnavailable
        proxy = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        told += (
            f"; it was asked through the proxy {proxy} (of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY); "
            f"to ask {self._target[0]} directly, add it to NO_PROXY"
        )
        return replace(failure, error=kind(told))
