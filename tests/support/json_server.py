"""A local HTTP server that answers each POST of JSON with a function: the base of the
fake servers for services.
"""

from __future__ import annotations

import base64
import io
import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Union

from PIL import Image
from typing_extensions import Self

JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class Posted:
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass(frozen=True)
class Reply:
    """One answer, perhaps late (`hang_s`), or with `drip_s` between two bytes."""

    body: JsonObject | bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_s: float = 0.0
    drip_s: float = 0.0


Script = Union[Iterable[Reply], Callable[[Any], Reply]]
"""The replies of a service in order, or a function from a request to its reply."""
NO_GET = Reply({"error": "this service answers no GET"}, 404)


class JsonServer:
    """A server on a free port of this machine; `posted` and `requests` hold its
    requests in order.
    """

    path = ""

    def __init__(
        self,
        answer: Callable[[Posted], Reply],
        answer_get: Callable[[Posted], Reply] = lambda _: NO_GET,
    ) -> None:
        self.answer = answer
        self.answer_get = answer_get
        self.posted: list[Posted] = []
        self.requests: list[Any] = self.posted
        self.closing = threading.Event()
        self._turn = threading.Condition()

    def __enter__(self) -> Self:
        server: JsonServer = self

        class Handler(_Handler):
            json_server = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}{self.path}"

    def wait_for_requests(self, count: int) -> None:
        """Return once so many requests have come in. Raises AssertionError."""
        with self._turn:
            have_come = self._turn.wait_for(lambda: len(self.posted) >= count, 60.0)
        assert have_come, f"{len(self.posted)} requests came, not {count}"

    def reply_to(self, posted: Posted) -> Reply:
        with self._turn:
            self.posted.append(posted)
            self._turn.notify_all()
            return self.answer(posted)


@dataclass
class Service(JsonServer):
    """A fake service: it gives its replies in order, and refuses what the real one
    would, which uses up no reply.

    Refusals have the service's own text where one is documented; a rule marked (ours)
    has none, or is a demand of ours. `requests` are what it received, as `_read` has
    them, `said` what its models said. `refusals` are the messages for malformed
    requests, not for a wrong key or path.
    """

    script: Script = ()
    api_key: str = ""

    def __post_init__(self) -> None:
        super().__init__(self._answer)
        self.requests: list[Any] = []
        self.refusals: list[str] = []
        self.said: list[Any] = []
        self._replies = iter(()) if callable(self.script) else iter(self.script)

    def _answer(self, posted: Posted) -> Reply:
        request = self._read(posted)
        self.requests.append(request)
        if denial := self._denial_of(posted, request):
            return denial
        if problem := next(iter(self._problems_of(request)), ""):
            self.refusals.append(problem)
            return self._error(problem)
        if callable(self.script):
            reply = self.script(request)
        else:
            used_up = self._error("the test's script has no reply left")
            reply = next(self._replies, used_up)
        if isinstance(reply.body, bytes):
            return reply
        body = json.loads(json.dumps(reply.body))
        self._keep(body, request)
        return replace(reply, body=body)

    def _read(self, posted: Posted) -> Any:
        return posted.body

    def _denial_of(self, posted: Posted, request: Any) -> Reply | None:
        """Return how this key, path or model is refused, whatever is asked."""
        raise NotImplementedError

    def _problems_of(self, request: Any) -> Iterable[str]:
        raise NotImplementedError

    def _error(self, message: str) -> Reply:
        return openai_error(400, "invalid_request_error", message)

    def _keep(self, body: dict[str, Any], request: Any) -> None:
        """Put ids into an answer, and remember it for the check of the next request."""


def openai_error(
    status: int, kind: str, explanation: str, code: str | None = None
) -> Reply:
    error = {"message": explanation, "type": kind, "param": None, "code": code}
    return Reply({"error": error}, status)


def size_of(data: str, media_type: str = "image/png") -> tuple[int, int] | None:
    """Return an image's size; None if it is none, or of another type."""
    try:
        with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as image:
            image.load()
    except (OSError, ValueError):
        return None
    return image.size if Image.MIME.get(image.format or "") == media_type else None


def is_scaled(size: tuple[int, int], side: int, tokens: int, patch: int) -> bool:
    """Return whether a model sees less of an image: it has a longest side, and visual
    tokens of a patch each.
    """
    patches = math.ceil(size[0] / patch) * math.ceil(size[1] / patch)
    return max(size) > side or patches > tokens


KEYWORDS = frozenset(
    "type properties required additionalProperties enum const anyOf $ref $defs items"
    " format description title".split()
)
"""The keywords of schemas for answers that all services take."""
STRICT_KEYWORDS = KEYWORDS.union(
    "minItems maxItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"
    " pattern".split()
)
"""The keywords of strict JSON schemas for answers; others are refused
(developers.openai.com, "Structured outputs").
"""


def problems_of_format(described: JsonObject, field: str) -> Iterator[str]:
    """Yield the faults; `described` holds the name, whether it is strict, and the
    schema of `field`.
    """
    if not described.get("name"):
        yield f"Missing required parameter: '{field}.name'."
    schema = described.get("schema")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        yield (
            f"Invalid schema for {field}: schema must be a JSON Schema of 'type:"
            ' "object"\'.'
        )
    elif described.get("strict"):
        for problem in problems_of_schema(schema, STRICT_KEYWORDS, all_required=True):
            yield f"Invalid schema for {field}: {problem}"


def problems_of_schema(
    schema: JsonObject,
    keywords: Set[str] = KEYWORDS,
    *,
    all_required: bool = False,
    where: str = "the schema",
) -> Iterator[str]:
    """Yield the faults of a schema whose every object is closed, and with
    `all_required` has no optional property.
    """
    properties = schema.get("properties", {})
    for name in sorted(set(schema) - keywords):
        yield f"In {where}, '{name}' is not permitted."
    is_open = schema.get("additionalProperties") is not False
    if schema.get("type") == "object" and is_open:
        yield (
            f"In {where}, 'additionalProperties' is required to be supplied and to be"
            " false."
        )
    optional = set(properties) - set(schema.get("required", ()))
    if all_required and optional:
        yield (
            f"In {where}, 'required' is required to be an array including every key in"
            f" properties. Missing {sorted(optional)}."
        )
    inner = {**properties, **schema.get("$defs", {})}
    inner |= dict(enumerate(schema.get("anyOf", ())))
    if "items" in schema:
        inner["items"] = schema["items"]
    for name, part in inner.items():
        yield from problems_of_schema(
            part, keywords, all_required=all_required, where=f"{where}.{name}"
        )


class _Handler(BaseHTTPRequestHandler):
    json_server: JsonServer
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        # The client has stopped waiting, as some tests want it to.
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        self._send(self.json_server.answer_get(self._posted(b"")))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        reply = self.json_server.reply_to(self._posted(raw))
        self.json_server.closing.wait(reply.hang_s)
        self._send(reply)

    def _posted(self, raw: bytes) -> Posted:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Posted(self.path, headers, raw)

    def _send(self, reply: Reply) -> None:
        data = reply.body
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **reply.headers,
        }
        self.send_response(reply.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if not reply.drip_s:
            self.wfile.write(data)
            return
        for byte in data:
            self.wfile.write(bytes([byte]))
            if self.json_server.closing.wait(reply.drip_s):
                self.close_connection = True
                return

    def log_message(self, *_: object) -> None:
        """Print nothing."""
