"""The certificates that services are trusted by, and one error text for an invalid one, for both HTTP libraries."""

from __future__ import annotations

import ssl
from functools import cache

import httpx2

from pytest_vnc_use.errors import ModelUnavailable
from pytest_vnc_use.planners.common.retry import Failure


@cache
def load_certificates() -> ssl.SSLContext:
    """Return httpx2's certificates. They are kept, because reading them takes longer than a request on this machine."""
    return httpx2.create_ssl_context()


def certificate_failure(error: BaseException) -> Failure | None:
    """Return the failure if a certificate was refused; None for another error. Nothing was sent then."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    why = cause.verify_message
    message = (
        f"the certificate of the model's service does not fit: {why}; if you trust its issuer, name it in SSL_CERT_FILE"
    )
    return Failure(ModelUnavailable(message), unbilled=True)
