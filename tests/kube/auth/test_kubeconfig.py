"""kubeconfig files: merging, choosing, and what is said of a bad one."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from ullage.errors import UserError
from ullage.kube.auth import kubeconfig
from ullage.testing.controlplane import GoProgram, binaries


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def a_config(*names: str, current: str = "", **cluster: Any) -> dict[str, Any]:
    """One context, cluster and user for each name, all called the same."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **cluster}} for name in names],
        "users": [{"name": name, "user": {"token": f"token-of-{name}"}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
    }


MERGES = pytest.mark.parametrize(
    ("first", "second", "context", "server"),
    [
        pytest.param(
            a_config("a", current="a"), a_config("b", current="b"), None, "https://a:6443", id="first-current"
        ),
        pytest.param(a_config("a"), a_config("b", current="b"), None, "https://b:6443", id="the-first-that-is-set"),
        pytest.param(a_config("a", current="a"), a_config("b"), "b", "https://b:6443", id="a-named-context-wins"),
        pytest.param(
            a_config("a", current="a"),
            a_config("a", **{"tls-server-name": "other", "certificate-authority": "x"}),
            None,
            "https://a:6443",
            id="an-entry-is-taken-whole-from-the-first-file-that-has-it",
        ),
    ],
)


@MERGES
def test_files_are_merged_and_the_official_client_reads_the_same(
    tmp_path: Path, first: Any, second: Any, context: str | None, server: str
) -> None:
    files = [write(tmp_path / "1", first), write(tmp_path / "2", second)]
    chosen = kubeconfig.choose(kubeconfig.load(files), context)
    assert chosen.cluster.value.server == server
    assert chosen.cluster.value.tls_server_name == ""
    assert chosen.cluster.value.certificate_authority == ""

    # The official client takes the last file's current-context, against kubectl: it gets ours.
    merged = KubeConfigMerger(os.pathsep.join(str(one) for one in files)).config  # type: ignore[no-untyped-call]
    official: Any = KubeConfigLoader(merged, active_context=chosen.context.name)  # type: ignore[no-untyped-call]
    assert official._cluster["server"] == server
    assert official._user["token"] == chosen.user.value.token


@MERGES
@pytest.mark.real
def test_kubectl_merges_them_so(tmp_path: Path, first: Any, second: Any, context: str | None, server: str) -> None:
    files = [write(tmp_path / "1", first), write(tmp_path / "2", second)]
    chosen = kubeconfig.choose(kubeconfig.load(files), context)
    try:
        kubectl = binaries.find(GoProgram.KUBECTL)
    except binaries.MissingProgram as missing:
        pytest.skip(str(missing))
    command = [str(kubectl), "config", "view", "--minify", "--raw", "-o", "json"]
    output = subprocess.run(
        [*command, "--context", context] if context else command,
        env={"KUBECONFIG": os.pathsep.join(str(one) for one in files), "HOME": str(tmp_path)},
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    seen = json.loads(output)
    assert seen["current-context"] == chosen.context.name
    assert seen["clusters"][0]["cluster"] == {"server": server}
    assert seen["users"][0]["user"]["token"] == chosen.user.value.token


def test_relative_paths_are_relative_to_the_file_they_stand_in(tmp_path: Path) -> None:
    content = a_config("a", current="a", **{"certificate-authority": "pki/ca.crt"})
    files = [write(tmp_path / "x" / "1", a_config("b")), write(tmp_path / "y" / "2", content)]
    chosen = kubeconfig.choose(kubeconfig.load(files), None)
    assert chosen.cluster.beside(chosen.cluster.value.certificate_authority) == tmp_path / "y" / "pki" / "ca.crt"
    assert chosen.cluster.beside("/abs/ca.crt") == Path("/abs/ca.crt")


def test_every_field_is_read(tmp_path: Path) -> None:
    user = {
        "client-certificate": "c",
        "client-certificate-data": "cd",
        "client-key": "k",
        "client-key-data": "kd",
        "token": "t",
        "tokenFile": "tf",
        "username": "u",
        "password": "p",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["g"],
        "as-user-extra": {"reason": ["test"]},
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "login",
            "args": ["-v"],
            "env": [{"name": "A", "value": "B"}],
            "installHint": "install it",
            "provideClusterInfo": True,
            "interactiveMode": "Never",
        },
    }
    content = a_config(
        "a", current="a", **{"insecure-skip-tls-verify": True, "proxy-url": "http://p", "tls-server-name": "n"}
    )
    content["users"] = [{"name": "a", "user": user}]
    content["contexts"][0]["context"]["namespace"] = "team"
    chosen = kubeconfig.choose(kubeconfig.load([write(tmp_path / "c", content)]), None)
    cluster, entry = chosen.cluster.value, chosen.user.value
    assert (cluster.insecure_skip_tls_verify, cluster.proxy_url, cluster.tls_server_name) == (True, "http://p", "n")
    assert (entry.client_certificate, entry.client_certificate_data) == ("c", "cd")
    assert (entry.client_key, entry.client_key_data) == ("k", "kd")
    assert (entry.token, entry.token_file, entry.username, entry.password) == ("t", "tf", "u", "p")
    assert (entry.as_user, entry.as_uid, entry.as_groups) == ("jane", "7", ["g"])
    assert entry.as_user_extra == {"reason": ["test"]}
    assert entry.exec_ == kubeconfig.ExecEntry(
        api_version="client.authentication.k8s.io/v1",
        command="login",
        args=["-v"],
        env=[kubeconfig.ExecEnv("A", "B")],
        install_hint="install it",
        provide_cluster_info=True,
        interactive_mode="Never",
    )
    assert chosen.context.value.namespace == "team"


def test_json_and_nulls_are_fine(tmp_path: Path) -> None:
    text = (
        '{"current-context":"a","preferences":null,"users":null,"contexts":[{"name":"a","context":{"cluster":"a",'
        '"user":null}}],"clusters":[{"name":"a","cluster":{"server":"https://a","certificate-authority":null}}]}'
    )
    chosen = kubeconfig.choose(kubeconfig.load([write(tmp_path / "c", text)]), None)
    assert chosen.user.value == kubeconfig.UserEntry()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("a: [", "is not YAML at line 1, column ", id="broken-yaml"),
        pytest.param("just words", "the file: expected `object`", id="not-a-mapping"),
        pytest.param(
            {"clusters": [{"name": "a", "cluster": {"server": 5}}]}, r"clusters\[0\].cluster.server", id="type"
        ),
        pytest.param({"clusters": [{"cluster": {}}]}, r"clusters\[0\].*missing required field `name`", id="no-name"),
        pytest.param({"clusters": {"a": {}}}, "clusters: expected `array`", id="not-a-list"),
        pytest.param(
            {"users": [{"name": "a", "user": {"exec": {"command": "x"}}}]}, r"users\[0\].user.exec", id="exec-version"
        ),
        pytest.param(
            {"users": [{"name": "a", "user": {}}, {"name": "a", "user": {}}]}, "two entries named 'a'", id="twice"
        ),
    ],
)
def test_a_bad_file_is_named_with_its_field(tmp_path: Path, content: Any, text: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(UserError, match=text) as caught:
        kubeconfig.load([path])
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere does not exist; give another with --kubeconfig"):
        kubeconfig.load([tmp_path / "nowhere"])
    with pytest.raises(UserError, match=r"cannot be read .*check the file"):
        kubeconfig.load([tmp_path])
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read"):
        kubeconfig.load([tmp_path / "binary"])


@pytest.mark.parametrize(
    ("change", "context", "text"),
    [
        pytest.param(
            {"current-context": ""}, None, r"current-context is not set; name one .*\(a, b\)", id="no-current"
        ),
        pytest.param({"current-context": "", "contexts": []}, None, "it has no contexts", id="no-contexts"),
        pytest.param({}, "c", "no context 'c'; it has a, b", id="unknown-context"),
        pytest.param({"clusters": []}, None, "names cluster 'a', which is not in clusters", id="unknown-cluster"),
        pytest.param({"users": []}, None, "names user 'a', which is not in users; it has none", id="unknown-user"),
    ],
)
def test_a_context_that_leads_nowhere_is_explained(tmp_path: Path, change: Any, context: str | None, text: str) -> None:
    path = write(tmp_path / "config", a_config("a", "b", current="a") | change)
    with pytest.raises(UserError, match=text) as caught:
        kubeconfig.choose(kubeconfig.load([path]), context)
    assert str(path) in str(caught.value)
