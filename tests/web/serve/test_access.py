"""Who may look."""

import pytest

from ullage.errors import UserError
from ullage.web.serve.access import COOKIE, TokenGate, check_may_listen, host_is_meant

TOKEN = "correct-horse-battery"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    check_may_listen(host, "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "dashboard.example"])
def test_every_other_address_needs_one(host: str) -> None:
    check_may_listen(host, TOKEN)
    with pytest.raises(UserError, match="a token is needed"):
        check_may_listen(host, "")


@pytest.mark.parametrize("token", ["short", "has a blank in the middle", "não-é-simples-assim"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(UserError, match="at least 16 printable characters"):
        check_may_listen("0.0.0.0", token)


HEADERS: list[tuple[str, dict[str, str], dict[str, str], bool]] = [
    ("nothing", {}, {}, False),
    ("the token", {"Authorization": f"Bearer {TOKEN}"}, {}, True),
    ("the token, another spelling", {"Authorization": f"bearer  {TOKEN} "}, {}, True),
    ("another token", {"Authorization": f"Bearer {TOKEN}x"}, {}, False),
    ("an empty token", {"Authorization": "Bearer "}, {}, False),
    ("another scheme", {"Authorization": f"Basic {TOKEN}"}, {}, False),
    ("the cookie", {}, {COOKIE: TokenGate(TOKEN).cookie}, True),
    ("the token as a cookie", {}, {COOKIE: TOKEN}, False),
    ("a cookie that is not ASCII", {}, {COOKIE: "é"}, False),
    ("a good cookie and a bad token", {"Authorization": "Bearer x"}, {COOKIE: TokenGate(TOKEN).cookie}, False),
]


@pytest.mark.parametrize(("headers", "cookies", "may"), [case[1:] for case in HEADERS], ids=[one[0] for one in HEADERS])
def test_who_comes_in(headers: dict[str, str], cookies: dict[str, str], may: bool) -> None:
    assert TokenGate(TOKEN).admits(headers, cookies) is may


def test_the_cookie_does_not_tell_the_token() -> None:
    assert TOKEN not in TokenGate(TOKEN).cookie
    assert TokenGate(TOKEN).cookie != TokenGate(f"{TOKEN}2").cookie


@pytest.mark.parametrize(
    ("header", "meant"),
    [
        ("127.0.0.1:8300", True),
        ("localhost:8300", True),
        ("localhost", True),
        ("[::1]:8300", True),
        ("[::1]", True),
        ("evil.example:8300", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_on_loopback_only_names_of_this_machine_count(header: str, meant: bool) -> None:
    assert host_is_meant(header, "127.0.0.1") is meant


def test_elsewhere_any_name_may_be_ours() -> None:
    assert host_is_meant("gpu.example", "0.0.0.0")
