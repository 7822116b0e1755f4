"""Fields of custom resources that share their default with a setting: declared once, in the setting."""

from typing import Any

import yaml

from tests.kube.crds.test_files import COMMITTED
from ullage.kube.crds.setting_defaults import shared_settings
from ullage.model.duration import PATTERN


def field(path: str) -> dict[str, Any]:
    definition = yaml.safe_load((COMMITTED / "nodeprovisioners.gpu.scheduling.yaml").read_text())
    found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path.split("."):
        found = found["properties"][name]
    return found


def test_the_definition_has_the_defaults_of_the_settings() -> None:
    assert len(shared_settings()) == 3
    for path, spec in shared_settings().items():
        written = spec.values.write(spec.default)
        percent = path.endswith("Percent")
        assert field(path)["default"] == (round(100 * written) if percent else written), path
        assert percent or field(path)["pattern"] == PATTERN, path
