"""HTTP/1.1 as bytes: the requests that a client sends, and the answers that it reads. No sockets.

Both clients share it, so they accept the same answers. `http.client` reads from blocking sockets only, and takes most
of its time for headers that a client of the service does not need.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator, Mapping
from functools import cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from equipoise.errors import InvalidArgument

MAX_HEAD_BYTES = 1 << 16  # of an answer: its status line and headers
MAX_BODY_BYTES = 1 << 26
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?")
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
TOKEN = re.compile(r"[!-~]+")
END_OF_LINE, END_OF_HEAD = b"\r\n", b"\r\n\r\n"


class MalformedAnswer(Exception):  # noqa: N818
    """An answer that is not HTTP/1.1, ends too early, or is too large."""


class Address(NamedTuple):
    """Where a service listens."""

    host: str
    port: int
    is_secure: bool


@cache
def secure_context() -> ssl.SSLContext:
    """Return how to check the certificate of a service; reading the system's certificates takes long."""
    return ssl.create_default_context()


class Target:
    """The requests to the paths below an address, as bytes.

    Parameters
    ----------
    url
        Such as "https://decisions.example.com" or "http://10.0.0.5:8000/decisions".
    token
        The secret that each request carries; None if the service has no tokens.
    """

    def __init__(self, url: str, token: str | None) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        host = parts.hostname
        if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or parts.query or parts.fragment:
            raise InvalidArgument(
                f"url is {url!r:.80}, but must begin with http:// or https:// and a host, and have no user, query or "
                "fragment"
            )
        if token is not None and not TOKEN.fullmatch(token):
            raise InvalidArgument("token has spaces or other characters that a header cannot have")
        is_secure = parts.scheme == "https"
        self.address = Address(_ascii(host, url), port or (443 if is_secure else 80), is_secure)
        self._path = quote(parts.path.rstrip("/"), safe="/%")
        name = f"[{self.address.host}]" if ":" in host else self.address.host
        headers = [f"Host: {name}" if port is None else f"Host: {name}:{port}", "Accept: application/json"]
        if token is not None:
            headers.append(f"Authorization: Bearer {token}")
        self._headers = "\r\n".join(headers)

    def request(self, method: str, path: str, body: bytes | None, media_type: str) -> bytes:
        """Return a request as bytes; `path` follows the path of the address."""
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._headers}\r\n"
        if body is None:
            return f"{head}\r\n".encode("ascii")
        return f"{head}Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode("ascii") + body


def _ascii(host: str, url: str) -> str:
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    if not TOKEN.fullmatch(name):
        raise InvalidArgument(f"url is {url!r:.80}, but its host is not the name of a machine")
    return name


class Answer(NamedTuple):
    """An answer as a whole; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_last: bool  # whether the connection cannot be used again


class AnswerReader:
    """Reads one answer, in any pieces.

    >>> reader = AnswerReader()
    >>> reader.feed(b"HTTP/1.1 200 OK\\r\\nContent-Le")
    >>> reader.feed(b"ngth: 2\\r\\n\\r\\n{}").body
    b'{}'
    """

    def __init__(self) -> None:
        self._data, self._has_ended, self._steps = bytearray(), False, self._read()

    def feed(self, data: bytes) -> Answer | None:
        """Take the next bytes; return the answer once it is whole."""
        self._data += data
        try:
            next(self._steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        return None

    def end(self) -> Answer:
        """Return the answer that the end of the connection completes; raise an error if it cuts the answer."""
        self._has_ended = True
        answer = self.feed(b"")
        assert answer is not None
        return answer

    def _read(self) -> Generator[None, None, Answer]:
        status = 100
        while status < 200:  # interim answers
            status, headers, is_last = _head((yield from self._until(END_OF_HEAD)))
        length = headers.get("content-length", "")
        if status in (204, 304):
            body = b""
        elif "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked":
                raise MalformedAnswer(f"Transfer-Encoding of the answer is {headers['transfer-encoding']!r:.40}")
            body = yield from self._chunks()
        elif length:
            if not (length.isascii() and length.isdecimal()):
                raise MalformedAnswer(f"Content-Length of the answer is {length!r:.40}")
            body = yield from self._take(int(length))
        else:
            body, is_last = (yield from self._rest()), True
        return Answer(status, headers, body, is_last or len(self._data) > 0)

    def _chunks(self) -> Generator[None, None, bytes]:
        body = bytearray()
        while True:
            line = yield from self._until(END_OF_LINE)
            found = CHUNK_SIZE.fullmatch(line)
            if found is None:
                raise MalformedAnswer(f"the answer has a chunk of size {line[:40]!r}")
            size = int(found[1], 16)
            if not size:
                break
            body += yield from self._take(size, len(body))
            if (yield from self._take(2)) != END_OF_LINE:
                raise MalformedAnswer("the answer has a chunk that is longer than its size")
        while (yield from self._until(END_OF_LINE)):  # trailers
            pass
        return bytes(body)

    def _until(self, mark: bytes) -> Generator[None, None, bytes]:
        """Wait for a mark; return what precedes it."""
        while (end := self._data.find(mark)) < 0:
            if len(self._data) > MAX_HEAD_BYTES:
                raise MalformedAnswer(f"the headers of the answer have more than {MAX_HEAD_BYTES} bytes")
            yield from self._more()
        taken = bytes(self._data[:end])
        del self._data[: end + len(mark)]
        return taken

    def _take(self, size: int, earlier: int = 0) -> Generator[None, None, bytes]:
        if size + earlier > MAX_BODY_BYTES:
            raise MalformedAnswer(f"the answer has more than {MAX_BODY_BYTES} bytes")
        while len(self._data) < size:
            yield from self._more()
        taken = bytes(self._data[:size])
        del self._data[:size]
        return taken

    def _rest(self) -> Generator[None, None, bytes]:
        while not self._has_ended:
            if len(self._data) > MAX_BODY_BYTES:
                raise MalformedAnswer(f"the answer has more than {MAX_BODY_BYTES} bytes")
            yield
        return (yield from self._take(len(self._data)))

    def _more(self) -> Generator[None, None, None]:
        if self._has_ended:
            raise MalformedAnswer("the connection ended before the answer did")
        yield


def _head(head: bytes) -> tuple[int, dict[str, str], bool]:
    """Return status and headers, and whether the connection ends after the answer."""
    first, *lines = head.split(END_OF_LINE)
    found = STATUS_LINE.fullmatch(first)
    if found is None:
        raise MalformedAnswer(f"the answer begins with {first[:40]!r}, which is not HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        key, text = name.lower(), value.strip()
        if not colon or name != name.strip() or (key == "content-length" and headers.get(key, text) != text):
            raise MalformedAnswer(f"the answer has the header {line[:40]!r}")
        headers[key] = text
    options = headers.get("connection", "").lower()
    return int(found[2]), headers, "close" in options if found[1] == b"1" else "keep-alive" not in options
