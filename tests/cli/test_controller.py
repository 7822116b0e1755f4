"""`ullage controller`: what it makes of its options."""

import pytest

from ullage.cli.controller import read_provider_settings
from ullage.cli.main import run
from ullage.errors import UserError


def test_settings_by_provider() -> None:
    texts = ("aws.cluster=prod", "aws.endpoint=http://x/?a=b", "kwok.namespace=books")
    assert read_provider_settings(texts) == {
        "aws": {"cluster": "prod", "endpoint": "http://x/?a=b"},
        "kwok": {"namespace": "books"},
    }


@pytest.mark.parametrize("text", ["aws", "aws.cluster", "=x", ".a=b", "aws.=x"])
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(UserError, match=r"is not PROVIDER\.KEY=VALUE"):
        read_provider_settings((text,))


@pytest.mark.parametrize(("price", "says"), [("much", "is not a price"), ("-1", "must not be negative")])
def test_what_is_no_price(price: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["controller", "--max-price-per-hour", price]) == 1
    assert says in capsys.readouterr().err
