"""HTTP/1.1 as the clients write and read it, piece by piece."""

from __future__ import annotations

import http.client
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.serve.client import wire
from equipoise.serve.client.wire import Answer, AnswerReader, MalformedAnswer, Target

BODY = b'{"id": "visit-1"}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n" + BODY
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'9;name=value\r\n{"id": "v\r\n8\r\nisit-1"}\r\n0\r\nX-Trailer: 1\r\n\r\n'
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + WHOLE
LAST = WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
UNTIL_THE_END = b"HTTP/1.0 200 OK\r\n\r\n" + BODY
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
FORMS = {"whole": WHOLE, "chunked": CHUNKED, "interim": INTERIM, "last": LAST, "until the end": UNTIL_THE_END}


def read(data: bytes, cuts: list[int]) -> Answer:
    """Feed an answer in pieces; the connection ends after them."""
    reader = AnswerReader()
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        answer = reader.feed(data[start:end])
        if answer is not None:
            assert end == len(data), "an answer came before its end"
            return answer
    return reader.end()


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40)
@given(data=st.data())
def test_an_answer_is_the_same_in_any_pieces(form: str, data: Any) -> None:
    raw = FORMS[form]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=6)))
    answer = read(raw, cuts)
    assert (answer.status, answer.body) == (200, BODY)
    assert answer.is_last == (form in ("last", "until the end"))


@pytest.mark.parametrize("form", ["whole", "chunked", "last", "until the end"])  # it knows one interim answer only
def test_the_standard_library_reads_the_same(form: str) -> None:
    class Socket:
        def makefile(self, mode: str) -> io.BytesIO:
            return io.BytesIO(FORMS[form])

    reference = http.client.HTTPResponse(Socket(), method="POST")  # type: ignore[arg-type]
    reference.begin()
    answer = read(FORMS[form], [])
    assert (answer.status, answer.body) == (reference.status, reference.read())


def test_every_cut_answer_is_an_error() -> None:
    for raw in (WHOLE, CHUNKED, INTERIM, LAST):
        for size in range(len(raw)):
            with pytest.raises(MalformedAnswer, match="ended before the answer did"):
                read(raw[:size], [])


def test_an_answer_without_a_body() -> None:
    assert read(EMPTY, []) == Answer(204, {}, b"", False)


def test_bytes_after_an_answer_end_its_connection() -> None:
    answer = AnswerReader().feed(WHOLE + b"HTTP/1.1 500")
    assert answer is not None and answer.body == BODY and answer.is_last


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"SSH-2.0-x\r\n\r\n", "is not HTTP/1.1"),
        (b"HTTP/2 200\r\n\r\n", "is not HTTP/1.1"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "has the header"),
        (b"HTTP/1.1 200 OK\r\nName : space\r\n\r\n", "has the header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "has the header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length of the answer is '-1'"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding of the answer is 'gzip'"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "a chunk of size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "longer than its size"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "more than 67108864 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", "more than 67108864 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000, "headers of the answer have more than 65536 bytes"),
    ],
)
def test_malformed_answers(raw: bytes, message: str) -> None:
    with pytest.raises(MalformedAnswer, match=message):
        AnswerReader().feed(raw)


def test_an_endless_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BODY_BYTES", 10)
    with pytest.raises(MalformedAnswer, match="more than 10 bytes"):
        AnswerReader().feed(UNTIL_THE_END)


@pytest.mark.parametrize(
    ("url", "address", "host", "path"),
    [
        ("http://localhost:8000", ("localhost", 8000, False), "localhost:8000", "/v1"),
        ("https://decisions.example.com/", ("decisions.example.com", 443, True), "decisions.example.com", "/v1"),
        ("http://[::1]:81/a b/", ("::1", 81, False), "[::1]:81", "/a%20b/v1"),
        ("http://bücher.example", ("xn--bcher-kva.example", 80, False), "xn--bcher-kva.example", "/v1"),
    ],
)
def test_requests(url: str, address: tuple[str, int, bool], host: str, path: str) -> None:
    target = Target(url, "secret")
    assert target.address == address
    assert target.request("POST", "/v1", b"{}", "application/json").split(b"\r\n") == [
        f"POST {path} HTTP/1.1".encode(),
        f"Host: {host}".encode(),
        *(b"Accept: application/json", b"Authorization: Bearer secret"),
        *(b"Content-Type: application/json", b"Content-Length: 2", b"", b"{}"),
    ]
    assert Target(url, None).request("GET", "", None, "x").endswith(b"Accept: application/json\r\n\r\n")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://a:b@c", "http://a?b", "http://a:x"])
def test_wrong_addresses(url: str) -> None:
    with pytest.raises(InvalidArgument, match="url is"):
        Target(url, None)


def test_nothing_can_be_smuggled_into_a_request() -> None:
    for token in ("a\r\nX-Other: b", "a b", "", "ü"):
        with pytest.raises(InvalidArgument, match="token has spaces"):
            Target("http://x", token)
    for url in ("http://x/a\r\nX-Other: b", "http://x\r\nX-Other: b", "http://x y"):
        try:
            data = Target(url, None).request("GET", "", None, "x")
        except InvalidArgument:
            continue
        assert data.count(b"\r\n") == 4 and b"\r\nX-Other" not in data
