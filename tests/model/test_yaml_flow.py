"""Values in sentences are spelt as YAML, not as Python."""

import pytest
import yaml

from ullage.model.yaml_flow import yaml_flow


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"H100": 20}, "{H100: 20}", id="a-map"),
        pytest.param({"a": {"b": None}, "c": [True, 1.5]}, "{a: {b: null}, c: [true, 1.5]}", id="nested"),
        pytest.param(("a", "b"), "[a, b]", id="a-tuple"),
        pytest.param((), "[]", id="nothing"),
        pytest.param("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", id="a-model"),
        pytest.param("5m", "5m", id="a-duration"),
        pytest.param("", "''", id="empty-text"),
        pytest.param("no", "'no'", id="a-word-with-another-meaning"),
        pytest.param("1e3", "'1e3'", id="text-that-looks-like-a-number"),
        pytest.param("it's: {x}", "'it''s: {x}'", id="text-with-marks"),
    ],
)
def test_a_value_is_spelt_as_yaml_and_read_back(value: object, text: str) -> None:
    assert yaml_flow(value) == text
    assert yaml.safe_load(text) == (list(value) if isinstance(value, tuple) else value)
