"""The service behind chat completions."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.chat.answers import usage_of
from pytest_vnc_use.planners.common.endpoint import found_key, found_url
from pytest_vnc_use.planners.common.http_json import Service


def chat_service(base_url: str, model: str, api_key: str = "") -> Service:
    """Return the service at `base_url`, such as `http://localhost:1234/v1`. The default path is `/v1`.

    Raises SettingsError, and KeyRejected if the key cannot be sent.
    """
    for name, text in (("base_url", base_url), ("model", model)):
        if not text:
            raise SettingsError(f"{name} must not be empty, got {text!r}")
    key = found_key(api_key, ()) if api_key.strip() else ""
    parts = urlsplit(found_url(base_url) or "")
    if parts.username is not None:
        raise SettingsError("base_url must be without a user and a password; pass the key as api_key")
    path = parts.path.rstrip("/") or "/v1"
    url = urlunsplit(parts._replace(path=f"{path}/chat/completions"))
    return Service(url, model, key, {"Authorization": f"Bearer {key}"} if key else {}, usage_of)
