"""The part of HTTP that the file server needs."""

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.teamwork.file_http import HEAD_BYTES_MAX, BadRequest, byte_range, head_of_answer, read_request


def test_a_request_is_read_when_it_is_whole() -> None:
    text = b"GET /x?y=z HTTP/1.1\r\nHost: a\r\nRANGE:  bytes=0-1 \r\n\r\nGET /next"
    end = text.index(b"GET /next")
    assert [read_request(text[:count]) for count in range(end)] == [None] * end
    found = read_request(text)
    assert found is not None
    request, rest = found
    assert (request.method, request.target, rest) == ("GET", "/x?y=z", b"GET /next")
    assert request.headers == {"host": "a", "range": "bytes=0-1"}
    assert request.stays_open


@pytest.mark.parametrize(
    ("minor", "wish", "stays_open"),
    [("1", "close", False), ("1", "Close", False), ("0", "", False), ("0", "keep-alive", True)],
)
def test_a_connection_stays_open_as_the_request_says(minor: str, wish: str, stays_open: bool) -> None:
    found = read_request(f"GET / HTTP/1.{minor}\r\nConnection: {wish}\r\n\r\n".encode())
    assert found is not None
    assert found[0].stays_open is stays_open


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 400),
        ("GET x HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nRange: a\r\nrange: b\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\n\r\n", 405),
        ("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
        ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nX: " + "x" * HEAD_BYTES_MAX, 431),
    ],
)
def test_what_is_not_understood_is_refused(text: str, status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        read_request(text.encode())
    assert refused.value.status == status


@given(st.binary(max_size=300))
def test_no_bytes_are_a_surprise(data: bytes) -> None:
    for text in (data + b"\r\n\r\n", b"GET / HTTP/1.1\r\n" + data + b"\r\n\r\n"):
        try:
            read_request(text)
        except BadRequest:
            continue


@pytest.mark.parametrize(
    ("header", "size", "asked"),
    [
        ("", 10, range(10)),
        ("bytes=0-3", 10, range(4)),
        ("bytes=3-", 10, range(3, 10)),
        ("bytes=-4", 10, range(6, 10)),
        ("bytes=-40", 10, range(10)),
        ("bytes=3-99", 10, range(3, 10)),
        ("bytes=10-12", 10, None),
        ("bytes=-0", 10, None),
        ("bytes=0-0", 0, None),
        ("bytes=-1", 0, None),
        ("", 0, range(0)),
        ("bytes=5-3", 10, range(10)),
        ("bytes=0-1,4-5", 10, range(10)),
        ("lines=0-1", 10, range(10)),
        ("bytes=-", 10, range(10)),
    ],
)
def test_ranges_are_those_of_the_standard(header: str, size: int, asked: range | None) -> None:
    assert byte_range(header, size) == asked


def test_an_answer_says_when_it_is_the_last() -> None:
    head = head_of_answer(HTTPStatus.NOT_FOUND, {"Content-Length": 0}, stays_open=False)
    assert head == b"HTTP/1.1 404 Not Found\r\nServer: godwit\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
