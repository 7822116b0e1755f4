"""A run without a browser says so; in CI it is no run."""

import pytest

from tests.web.chromium import found


@pytest.mark.parametrize(("ci", "ends"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_a_browser(ci: str, ends: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ends, match="is on PATH"):
        found()
