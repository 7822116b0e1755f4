"""From a kubeconfig, or the pod we run in, to an endpoint and credentials."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from ullage.errors import UserError
from ullage.kube.auth import access
from ullage.kube.auth.connect import connect, find_access
from ullage.testing.controlplane.certificates import CertificateAuthority

TOKEN_AUTH = "Bearer secret"


@pytest.fixture(autouse=True)
def lonely(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig, no pod, no proxy of the machine that runs the tests."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def a_kubeconfig(path: Path, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    content = {
        "current-context": "ctx",
        "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"} | cluster}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_the_order_in_which_a_cluster_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_pod(tmp_path / "pod", monkeypatch)
    assert find_access().endpoint.server == "https://10.0.0.1:443"
    home = a_kubeconfig(tmp_path / "home" / ".kube" / "config", server="https://home")
    assert find_access().endpoint.server == "https://home"
    named = a_kubeconfig(tmp_path / "env", server="https://env")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}::{named}:{home}")
    assert find_access().endpoint.server == "https://env"
    given = a_kubeconfig(tmp_path / "given", server="https://given")
    assert find_access(given).endpoint.server == "https://given"
    assert find_access(str(given), "ctx").namespace == "team"


def test_without_any_cluster_it_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError) as caught:
        connect()
    for tried in ("--kubeconfig", "KUBECONFIG", str(tmp_path / "home/.kube/config"), "KUBERNETES_SERVICE_HOST"):
        assert tried in str(caught.value)
    with pytest.raises(UserError, match="context 'x' needs a kubeconfig"):
        connect(context="x")
    with pytest.raises(UserError, match=r"nowhere does not exist"):
        connect(tmp_path / "nowhere")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "gone"))
    with pytest.raises(UserError, match=r"KUBECONFIG names .*gone, which does not exist; correct or unset it"):
        connect()


async def test_tokens_and_passwords_become_a_header(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    for user, header in (
        ({"token": "secret"}, TOKEN_AUTH),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({"tokenFile": "token", "token": "secret"}, "Bearer from-file"),
        ({"tokenFile": "missing", "token": "secret"}, TOKEN_AUTH),
        ({"username": "me", "password": "pw"}, "Basic " + b64(b"me:pw")),
        ({}, ""),
    ):
        found = find_access(a_kubeconfig(tmp_path / "config", user))
        assert (await found.credentials.current()).authorization == header


async def test_certificates_may_be_in_place_or_in_files(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    pair = authority.client("jane")
    pair.write(tmp_path / "c.crt", tmp_path / "c.key")
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    inline = {"client-certificate-data": b64(pair.certificate), "client-key-data": b64(pair.key)}
    files = {"client-certificate": "c.crt", "client-key": "c.key"}
    for user, cluster in (
        (inline, {"certificate-authority-data": b64(authority.certificate)}),
        (files, {"certificate-authority": "ca.crt"}),
        (inline | {"client-certificate": "missing", "client-key": "missing"}, {"certificate-authority": "ca.crt"}),
    ):
        found = find_access(a_kubeconfig(tmp_path / "config", user, **cluster))
        shown = (await found.credentials.current()).certificate
        assert shown is not None
        assert (shown.certificate.data, shown.key.data) == (pair.certificate, pair.key)
        assert found.endpoint.trust.authority is not None
        assert found.endpoint.trust.authority.data == authority.certificate


def test_whom_to_impersonate_goes_into_headers(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"why": ["x", "y"], "and": ["z"]}}
    found = find_access(a_kubeconfig(tmp_path / "config", user))
    assert found.endpoint.headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-and", "z"),
        ("Impersonate-Extra-why", "x"),
        ("Impersonate-Extra-why", "y"),
    )


@pytest.mark.parametrize(
    ("user", "cluster", "text"),
    [
        pytest.param({}, {"server": ""}, "cluster 'c' in .*: server is not set", id="no-server"),
        pytest.param({}, {"server": "ftp://x"}, "server 'ftp://x' is not an address", id="not-an-address"),
        pytest.param({}, {"server": "https://x:port"}, "is not an address like", id="bad-port"),
        pytest.param({}, {"certificate-authority": "nope"}, "nope cannot be read .*check the path", id="ca-missing"),
        pytest.param(
            {}, {"certificate-authority-data": "%%%"}, "certificate-authority-data of 'c'.*base64", id="base64"
        ),
        pytest.param({}, {"certificate-authority-data": b64(b"x")}, "not a PEM certificate", id="ca-not-pem"),
        pytest.param(
            {}, {"insecure-skip-tls-verify": True, "certificate-authority-data": "AAAA"}, "contradict", id="two-minds"
        ),
        pytest.param({}, {"proxy-url": "socks5://x"}, "proxy-url 'socks5://x' is not supported", id="socks"),
        pytest.param({"client-key-data": b64(b"k")}, {}, "client-certificate is not set", id="key-alone"),
        pytest.param({"client-certificate-data": b64(b"c")}, {}, "client-key is not set", id="certificate-alone"),
        pytest.param(
            {"client-certificate-data": b64(b"c"), "client-key-data": b64(b"k")},
            {},
            "not a certificate and its key in PEM",
            id="not-pem",
        ),
        pytest.param({"tokenFile": "nope"}, {}, "tokenFile: cannot read the token file", id="token-file-missing"),
        pytest.param(
            {"auth-provider": {"name": "gcp"}}, {}, "auth-provider 'gcp' no longer exists .*exec", id="auth-provider"
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, user: Any, cluster: Any, text: str) -> None:
    path = a_kubeconfig(tmp_path / "config", user, **cluster)
    with pytest.raises(UserError, match=text) as caught:
        find_access(path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    user = {
        "client-certificate-data": b64(authority.client("a").certificate),
        "client-key-data": b64(authority.client("b").key),
    }
    with pytest.raises(UserError, match="check that they belong together"):
        find_access(a_kubeconfig(tmp_path / "config", user))


def test_an_encrypted_key_is_refused_without_a_prompt(tmp_path: Path) -> None:
    pair = CertificateAuthority().client("a")
    locked = serialization.load_pem_private_key(pair.key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"passphrase"),
    )
    user = {"client-certificate-data": b64(pair.certificate), "client-key-data": b64(locked)}
    with pytest.raises(UserError, match=r"client-key-data of 'u' .*the key is encrypted"):
        find_access(a_kubeconfig(tmp_path / "config", user))


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        pytest.param("https://api:6443", {}, "", id="none"),
        pytest.param("https://api:6443", {"https_proxy": "http://p:1"}, "http://p:1", id="for-https"),
        pytest.param("http://api", {"https_proxy": "http://p:1"}, "", id="not-for-http"),
        pytest.param("https://api.corp:6443", {"https_proxy": "http://p:1", "no_proxy": ".corp"}, "", id="not-for-us"),
        pytest.param("https://127.0.0.1:6443", {"https_proxy": "http://p:1"}, "", id="never-to-ourselves"),
        pytest.param("https://[::1]:6443", {"https_proxy": "http://p:1"}, "", id="never-to-ourselves-v6"),
        pytest.param("https://localhost", {"https_proxy": "http://p:1"}, "", id="never-to-localhost"),
    ],
)
def test_the_environment_may_name_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, environment: dict[str, str], proxy: str
) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    assert find_access(a_kubeconfig(tmp_path / "config", server=server)).endpoint.proxy == proxy


def test_the_kubeconfig_has_the_last_word_on_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://other")
    found = find_access(a_kubeconfig(tmp_path / "config", None, **{"proxy-url": "http://mine:8080"}))
    assert found.endpoint.proxy == "http://mine:8080"


def a_pod(directory: Path, monkeypatch: pytest.MonkeyPatch, host: str = "10.0.0.1") -> Path:
    """A service account's folder and the environment of a pod that has it."""
    directory.mkdir(exist_ok=True)
    (directory / "token").write_text("secret\n")
    (directory / "ca.crt").write_bytes(CertificateAuthority().certificate)
    (directory / "namespace").write_text("team\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", directory)
    return directory


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("10.0.0.1", "https://10.0.0.1:443", id="v4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="v6"),
    ],
)
async def test_a_pod_uses_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, server: str
) -> None:
    found = access.in_cluster(a_pod(tmp_path, monkeypatch, host))
    assert found.endpoint.server == server
    assert found.namespace == "team"
    assert (await found.credentials.current()).authorization == TOKEN_AUTH


@pytest.mark.parametrize("name", ["token", "ca.crt", "namespace"])
def test_a_pod_without_its_files_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (a_pod(tmp_path, monkeypatch) / name).unlink()
    with pytest.raises(UserError, match=name):
        access.in_cluster(tmp_path)
