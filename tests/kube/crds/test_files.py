"""The committed definitions are those the structs make."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ullage.kube.crds.__main__ import main
from ullage.kube.crds.catalog import FILES, GPU_CLAIM

COMMITTED = Path(__file__).parents[3] / "deploy" / "crds"


def test_committed_files_are_up_to_date() -> None:
    assert main(["--check", str(COMMITTED)]) == 0


def test_written_files_are_up_to_date_and_read_back(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    for name, definition in FILES.items():
        assert yaml.safe_load((tmp_path / name).read_text()) == definition.written()


def test_changed_missing_and_left_over_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(tmp_path)])
    (tmp_path / GPU_CLAIM.file_name).write_text("{}")
    (tmp_path / "gpuquotas.gpu.scheduling.yaml").unlink()
    (tmp_path / "of-a-kind-that-is-no-more.yaml").write_text("{}")
    assert main(["--check", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    for name in (GPU_CLAIM.file_name, "gpuquotas.gpu.scheduling.yaml", "of-a-kind-that-is-no-more.yaml", "make format"):
        assert name in said
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0


def test_without_a_folder_it_says_how_to_call_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 2
    assert "usage:" in capsys.readouterr().err


def test_text_does_not_depend_on_hash_seeds(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "ullage.kube.crds", str(tmp_path / seed)]
        subprocess.run(command, env={"PYTHONHASHSEED": seed}, check=True, cwd=COMMITTED.parents[1], timeout=60)
    for name in FILES:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
