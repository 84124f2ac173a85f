"""Services that mean harm, for each provider: where the key goes, and what their answers may cost."""

from __future__ import annotations

import gzip
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pytest_vnc_use.errors import ModelUnavailable, PlannerError
from pytest_vnc_use.planners.common.http import Backoff, load_certificates
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
from support.certificates import Authority, Certificate
from support.gemini_conversations import History
from support.json_server import JsonServer, Posted, Reply

KEY = "a-secret-key"
ONCE = Backoff(attempts=1)
PATIENT = Backoff(attempts=3, first_wait_s=0.01)


def ask(url: str, backoff: Backoff = ONCE) -> object:
    """Ask as every planner does: all of them have the same client."""
    planner = GeminiComputerUse(api_key=KEY, base_url=url, backoff=backoff)
    return planner.decide(History().observation(), timeout_s=20.0)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_not_followed(status: int) -> None:
    """It would take the key along."""
    heard: list[Posted] = []

    def note(posted: Posted) -> Reply:
        heard.append(posted)
        return Reply({})

    with JsonServer(note, note) as elsewhere:
        to = Reply(b"", status, {"Location": f"{elsewhere.url}/x"})
        with JsonServer(lambda posted: to) as server, pytest.raises(PlannerError, match=f"{status}"):
            ask(server.url)
        assert heard == []


LARGE: dict[str, Callable[[], Reply]] = {
    "an answer": lambda: Reply(b" " * 5_000_000),
    "an error": lambda: Reply(b" " * 5_000_000, 429),
    "a bomb": lambda: Reply(gzip.compress(bytes(100_000_000)), 429, {"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("what", LARGE)
def test_large_answer_is_not_read(what: str) -> None:
    with JsonServer(lambda posted: LARGE[what]()) as server:
        with pytest.raises(ModelUnavailable, match="more than 4 MiB"):
            ask(server.url)
        assert server.requests[0].headers["accept-encoding"] == "identity"


@contextmanager
def tls_server(certificate: Certificate) -> Iterator[tuple[str, list[bytes], list[object]]]:
    """A server over TLS: its address, what it hears, and its connections. It says nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    heard: list[bytes] = []
    came: list[object] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            came.append(self.client_address)
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as connection:
                heard.append(connection.recv(1 << 16))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}", heard, came
        server.shutdown()
        thread.join()


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """An authority that is trusted in this test."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    load_certificates.cache_clear()
    yield authority
    load_certificates.cache_clear()


UNFIT: dict[str, tuple[Callable[[Authority, Path], Certificate], str]] = {
    "another's name": (lambda known, _: known.certificate("elsewhere.example"), "127.0.0.1"),
    "expired": (lambda known, _: known.certificate("127.0.0.1", days=-1), "expired"),
    "unknown": (lambda _, directory: Authority(directory).certificate("127.0.0.1"), ""),
}


@pytest.mark.parametrize("why", UNFIT)
def test_certificate_that_does_not_fit(why: str, authority: Authority, tmp_path: Path) -> None:
    """One clear error, no second attempt, and nothing is sent."""
    (tmp_path / "other").mkdir()
    make, told = UNFIT[why]
    server, refusing = tls_server(make(authority, tmp_path / "other")), pytest.raises(ModelUnavailable)
    with server as (url, heard, came), refusing as refused:
        ask(url, PATIENT)
    message = str(refused.value)
    assert message.startswith("the certificate of the model's service does not fit: ")
    assert told in message
    assert "SSL_CERT_FILE" in message
    assert "Error(" not in message
    assert not any(heard)
    assert len(came) == 1


def test_key_goes_to_certificate_that_fits(authority: Authority) -> None:
    """Without this, the test above would show nothing."""
    with tls_server(authority.certificate("127.0.0.1")) as (url, heard, _), pytest.raises(PlannerError):
        ask(url)
    assert KEY.encode() in b"".join(heard)
