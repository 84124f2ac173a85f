"""One error text for an invalid certificate, for both HTTP libraries."""

from __future__ import annotations

import ssl

from pytest_vnc_use.errors import ModelUnavailable
from pytest_vnc_use.planners.common.retry import Failure


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
