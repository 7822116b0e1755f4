"""The Dockerfile, without an engine: its words are checked, its commands are run as a script in an empty folder."""

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.deploy.component import Component
from ullage.deploy.workloads import RESTRICTED

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}


def lines() -> Iterator[tuple[str, str]]:
    """Instructions and their arguments."""
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def test_only_instructions_we_know() -> None:
    assert {word for word, _ in lines()} <= INSTRUCTIONS


def test_it_runs_as_the_user_of_the_manifests() -> None:
    users = [rest for word, rest in lines() if word == "USER"]
    assert users == [f"{RESTRICTED['runAsUser']}:{RESTRICTED['runAsUser']}"]
    words = [word for word, _ in lines()]
    assert words.index("USER") > len(words) - words[::-1].index("FROM") - 1, "in the last stage"


def test_the_last_stage_runs_nothing() -> None:
    """What it has comes from the first stage: no shell command leaves caches or compilers behind."""
    words = [word for word, _ in lines()]
    last = len(words) - words[::-1].index("FROM")
    assert "RUN" not in words[last:]


def test_what_is_copied_exists() -> None:
    for word, rest in lines():
        if word == "COPY" and "--from" not in rest:
            *sources, _ = shlex.split(rest)
            assert all((ROOT / one).exists() for one in sources), rest


def test_every_package_has_a_hash_and_no_address() -> None:
    text = (ROOT / "requirements" / "image.lock").read_text()
    assert "--require-hashes" in (ROOT / "Dockerfile").read_text()
    assert not re.search(r"^\s*(--index-url|--extra-index-url|--find-links)|://", text, re.M)
    packages = re.findall(r"^[a-z0-9][\w.-]*==[^\n]*\\\n    --hash=sha256:", text, re.M)
    assert len(packages) == len(re.findall(r"^[a-z0-9][\w.-]*==", text, re.M)) > 20


@pytest.mark.full
@pytest.mark.timeout(900)
def test_its_commands_make_every_component(tmp_path: Path) -> None:
    """The first stage as a script, with its absolute folders below an empty one; then every verb is asked for help."""
    here = tmp_path / "src"
    environment = {name: os.environ[name] for name in os.environ if name.startswith("PIP_") or name.endswith("_proxy")}
    environment |= {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for word, rest in list(lines())[1:]:
        if word == "FROM":
            break
        if word == "WORKDIR":
            here.mkdir(parents=True)
        elif word == "COPY":
            *sources, target = shlex.split(rest)
            for one in sources:
                _copy(ROOT / one, here / target if len(sources) == 1 and target != "./" else here / one)
        elif word == "RUN":
            command = rest.replace("/opt/ullage", str(tmp_path / "opt")).replace("python ", f"{sys.executable} ", 1)
            subprocess.run(shlex.split(command), cwd=here, env=environment, check=True)
    _make_read_only(tmp_path / "opt")
    program = tmp_path / "opt" / "bin" / "ullage"
    for name in Component:
        done = subprocess.run((program, name, "--help"), env={}, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    size = sum(
        path.stat().st_size for path in (tmp_path / "opt").rglob("*") if path.is_file() and not path.is_symlink()
    )
    assert size < 400 * 2**20, f"{size / 2**20:.0f} MiB"


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


def _make_read_only(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
