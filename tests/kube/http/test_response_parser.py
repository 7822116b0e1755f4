"""Whole answers out of a connection's bytes, however they are torn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.kube.http.answer import HttpResponse, HttpResponseReader, NotHttp

LENGTH = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n,\r\n6\r\n world\r\n0\r\n\r\n"
TRAILERS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"

WHOLE = [
    pytest.param(LENGTH, HttpResponse(201, b"hello"), id="length"),
    pytest.param(CHUNKED, HttpResponse(200, b"hello, world"), id="chunks"),
    pytest.param(TRAILERS, HttpResponse(200, b"ok"), id="trailers"),
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", HttpResponse(200, b""), id="empty"),
    pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", HttpResponse(204, b""), id="no-content"),
    pytest.param(
        b"HTTP/1.1 429 Too Many Requests\r\nRETRY-AFTER: 7\r\nContent-Length: 1\r\n\r\n.",
        HttpResponse(429, b".", "7"),
        id="busy",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\n.",
        HttpResponse(200, b".", reusable=False),
        id="last-one-on-this-connection",
    ),
    pytest.param(
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n.", HttpResponse(200, b".", reusable=False), id="an-old-server"
    ),
    pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH, HttpResponse(201, b"hello"), id="announced"),
    pytest.param(LENGTH + b"HTTP/1.1 200", HttpResponse(201, b"hello", reusable=False), id="more-than-was-asked-for"),
    pytest.param(TRAILERS + b"x", HttpResponse(200, b"ok", reusable=False), id="more-after-chunks"),
]


@pytest.mark.parametrize(("sent", "answer"), WHOLE)
def test_an_answer_in_one_piece(sent: bytes, answer: HttpResponse) -> None:
    assert HttpResponseReader().feed(sent) == answer


@pytest.mark.parametrize("sent", [LENGTH, CHUNKED, TRAILERS])
@given(data=st.data())
def test_however_it_is_torn(sent: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1))))
    reader, expected = HttpResponseReader(), HttpResponseReader().feed(sent)
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert [reader.feed(piece) for piece in pieces] == [*[None] * len(cuts), expected]


def test_a_body_that_ends_with_the_connection() -> None:
    reader = HttpResponseReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nhel") is None
    assert reader.feed(b"lo") is None
    assert reader.end() == HttpResponse(200, b"hello", reusable=False)


@pytest.mark.parametrize("sent", [b"", LENGTH[:30], LENGTH[:-1], CHUNKED[:-1]])
def test_a_connection_closed_in_the_middle_of_an_answer_gives_none(sent: bytes) -> None:
    reader = HttpResponseReader()
    assert reader.feed(sent) is None
    assert reader.end() is None


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"220 mail.example ESMTP\r\n", id="mail"),
        pytest.param(b"\x15\x03\x01\x00\x02\x02\x16", id="tls"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="another-version"),
        pytest.param(b"HTTP/1.1 OK\r\n\r\n", id="no-status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", id="no-header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", id="no-length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", id="no-chunk-length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", id="negative-chunk-length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000, id="endless-chunk-length"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, id="endless-head"),
    ],
)
def test_what_is_not_http(sent: bytes) -> None:
    with pytest.raises(NotHttp):
        HttpResponseReader().feed(sent)
