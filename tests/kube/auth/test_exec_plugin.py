"""Credential plugins, with real small scripts that play them."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from ullage.clock import Instant
from ullage.errors import UserError
from ullage.kube.auth import exec_plugin, kubeconfig
from ullage.kube.auth.access import ClusterAccess, from_kubeconfig
from ullage.kube.auth.credentials import NoCredential
from ullage.model.units import Steady
from ullage.sim.virtual_time import EPOCH
from ullage.testing.controlplane.certificates import CertificateAuthority

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


class SetClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = float(EPOCH)

    def now(self) -> Instant:
        return Instant(self.at)

    def steady(self) -> Steady:
        return Steady(self.at)

    async def charge(self, cpu_seconds: float) -> None:
        raise AssertionError(f"nobody thinks here, but {cpu_seconds} s were charged")

    def moment(self, seconds: float) -> str:
        return (datetime.fromtimestamp(self.at, UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def script(path: Path, *lines: str) -> str:
    """A plugin that counts its calls in `calls` beside it."""
    head = ("#!/bin/sh", f'echo x >> "{path.parent}/calls"')
    path.write_text("\n".join([*head, *lines]) + "\n")
    path.chmod(0o755)
    return str(path)


def calls(folder: Path) -> int:
    path = folder / "calls"
    return len(path.read_text().split()) if path.exists() else 0


def prints(status: Any, version: str = V1, kind: str = "ExecCredential") -> str:
    return f"echo '{json.dumps({'apiVersion': version, 'kind': kind, 'status': status})}'"


def an_access(folder: Path, clock: SetClock, command: str, /, cluster: Any = None, **exec_: Any) -> ClusterAccess:
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": {"exec": {"apiVersion": V1, "command": command} | exec_}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return from_kubeconfig(kubeconfig.choose(kubeconfig.load([path]), None), clock)


async def test_a_token_is_asked_for_once_until_it_ends(tmp_path: Path) -> None:
    clock = SetClock()
    plugin = script(tmp_path / "plugin", prints({"token": "one", "expirationTimestamp": clock.moment(3600)}))
    credentials = an_access(tmp_path, clock, plugin).credentials
    assert calls(tmp_path) == 0
    found = await asyncio.gather(*(credentials.current() for _ in range(5)))
    assert {one.authorization for one in found} == {"Bearer one"}
    assert calls(tmp_path) == 1
    script(tmp_path / "plugin", prints({"token": "two", "expirationTimestamp": clock.moment(7200)}))
    clock.at += 3500
    assert (await credentials.current()).authorization == "Bearer one"
    clock.at += 95
    assert (await credentials.current()).authorization == "Bearer two"
    assert calls(tmp_path) == 2


async def test_a_refused_token_is_renewed_once_for_all_who_hold_it(tmp_path: Path) -> None:
    plugin = script(tmp_path / "plugin", prints({"token": "one"}))
    credentials = an_access(tmp_path, SetClock(), plugin).credentials
    refused = await credentials.current()
    script(tmp_path / "plugin", prints({"token": "two"}))
    renewed = await asyncio.gather(*(credentials.renewed(refused) for _ in range(5)))
    assert {one.authorization for one in renewed if one} == {"Bearer two"}
    assert calls(tmp_path) == 2


async def test_a_plugin_that_gives_the_refused_token_again_has_no_other(tmp_path: Path) -> None:
    credentials = an_access(tmp_path, SetClock(), script(tmp_path / "plugin", prints({"token": "one"}))).credentials
    assert await credentials.renewed(await credentials.current()) is None


async def test_a_client_certificate_may_be_given_instead(tmp_path: Path) -> None:
    pair = CertificateAuthority().client("jane")
    status = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
    (tmp_path / "answer").write_text(json.dumps({"apiVersion": V1BETA1, "kind": "ExecCredential", "status": status}))
    plugin = script(tmp_path / "plugin", f'cat "{tmp_path}/answer"')
    found = await an_access(tmp_path, SetClock(), plugin, apiVersion=V1BETA1).credentials.current()
    assert found.authorization == ""
    assert found.certificate is not None
    assert found.certificate.certificate.data == pair.certificate
    assert found.certificate.key.data == pair.key


async def test_what_the_plugin_is_told(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    (tmp_path / "bin").mkdir()
    script(
        tmp_path / "bin" / "plugin",
        f'echo "$KUBERNETES_EXEC_INFO" > "{tmp_path}/info"; echo "$1 $2 $EXTRA $HOME" > "{tmp_path}/words"',
        prints({"token": "t"}),
    )
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "inner",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    found = an_access(
        tmp_path,
        SetClock(),
        "bin/plugin",
        cluster=cluster,
        args=["get", "token"],
        env=[{"name": "EXTRA", "value": "more"}],
        provideClusterInfo=True,
        interactiveMode="Never",
    )
    await found.credentials.current()
    info = json.loads((tmp_path / "info").read_text())
    assert info["apiVersion"] == V1
    assert info["kind"] == "ExecCredential"
    assert info["spec"]["interactive"] is False
    cluster_info = info["spec"]["cluster"]
    assert cluster_info["server"] == "https://api:6443"
    assert cluster_info["tls-server-name"] == "inner"
    assert cluster_info["config"] == {"audience": "a"}
    assert cluster_info["certificate-authority-data"]
    assert (tmp_path / "words").read_text().split() == ["get", "token", "more", os.environ["HOME"]]


async def test_the_cluster_is_the_plugins_business_only_if_asked_for(tmp_path: Path) -> None:
    script(tmp_path / "plugin", f'echo "$KUBERNETES_EXEC_INFO" > "{tmp_path}/info"', prints({"token": "t"}))
    await an_access(tmp_path, SetClock(), str(tmp_path / "plugin")).credentials.current()
    assert "cluster" not in json.loads((tmp_path / "info").read_text())["spec"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param(["echo 'you must log in' >&2; exit 3"], "failed with exit code 3: you must log in", id="fails"),
        pytest.param(["exit 1"], "exit code 1: it said nothing", id="fails-silently"),
        pytest.param(["echo hello"], "did not print an ExecCredential", id="words"),
        pytest.param(["true"], "did not print an ExecCredential", id="nothing"),
        pytest.param([prints({"token": "t"}, V1BETA1)], f"printed {V1BETA1} ExecCredential, but", id="other-version"),
        pytest.param([prints({"token": "t"}, kind="Secret")], "printed .* Secret", id="other-kind"),
        pytest.param([prints({})], "neither a token nor a client certificate", id="empty-status"),
        pytest.param([prints(None)], "neither a token nor a client certificate", id="no-status"),
        pytest.param([prints({"clientCertificateData": "c"})], "without the other", id="certificate-without-key"),
        pytest.param([prints({"token": "t", "expirationTimestamp": "tomorrow"})], "ExecCredential", id="odd-expiry"),
    ],
)
async def test_a_plugin_that_fails_says_so_by_name(tmp_path: Path, lines: list[str], text: str) -> None:
    found = an_access(tmp_path, SetClock(), script(tmp_path / "plugin", *lines))
    with pytest.raises(NoCredential, match=text) as caught:
        await found.credentials.current()
    assert "user 'u'" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_plugin_that_is_not_waited_for_does_not_live_on(tmp_path: Path) -> None:
    script(tmp_path / "plugin", f'echo $$ > "{tmp_path}/pid"', "exec sleep 100")
    credentials = an_access(tmp_path, SetClock(), str(tmp_path / "plugin")).credentials
    waiting = asyncio.create_task(credentials.current())
    while not _written(tmp_path / "pid"):  # noqa: ASYNC110 - waits for another process
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_plugin_that_waits_for_a_child_of_its_own_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "_PLUGIN_SECONDS", 0.3)
    plugin = script(tmp_path / "plugin", "sleep 60 & sleep 60")
    credentials = an_access(tmp_path, SetClock(), plugin, interactiveMode="Never").credentials
    async with asyncio.timeout(10):
        with pytest.raises(NoCredential, match="gave nothing within"):
            await credentials.current()


def _written(path: Path) -> bool:
    return path.exists() and bool(path.read_text().strip())


@pytest.mark.parametrize(
    ("exec_", "text"),
    [
        pytest.param({"command": "no-such-plugin"}, "plugin 'no-such-plugin' is not there; install it", id="missing"),
        pytest.param(
            {"command": "no-such-plugin", "installHint": "brew install it"},
            "'no-such-plugin' is not there: brew install it",
            id="missing-with-a-hint",
        ),
        pytest.param({"command": "./nope"}, "'./nope' is not there", id="missing-beside-the-file"),
        pytest.param({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion", id="alpha"),
        pytest.param({"interactiveMode": "Sometimes"}, "exec.interactiveMode 'Sometimes' is not one of", id="mode"),
        pytest.param({"interactiveMode": "Always"}, "no terminal", id="wants-a-terminal"),
    ],
)
def test_what_can_be_known_beforehand_is_said_beforehand(tmp_path: Path, exec_: Any, text: str) -> None:
    with pytest.raises(UserError, match=text):
        an_access(tmp_path, SetClock(), exec_.pop("command", "true"), **exec_)
