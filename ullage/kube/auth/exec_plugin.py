"""Credential plugins: a command from the kubeconfig that prints a credential (client.authentication.k8s.io)."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from ullage.clock import Clock, Instant
from ullage.errors import UserError
from ullage.kube.auth import tls
from ullage.kube.auth.credentials import Credential, NoCredential, bearer
from ullage.kube.auth.kubeconfig import ChosenContext, ExecEntry

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")
_PLUGIN_SECONDS, _PARTING_SECONDS = 60.0, 1.0
_RENEW_BEFORE = 10.0
_CLUSTER_EXTENSION = f"{_GROUP}/exec"


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


_decode = msgspec.json.Decoder(_ExecCredential).decode


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """Credential plugin: its kubeconfig entry, the resolved command, and the cluster info passed to it."""

    entry: ExecEntry
    command: str
    origin: str
    """User and kubeconfig, for messages."""
    cluster: dict[str, Any] | None


def prepare(chosen: ChosenContext, authority: tls.Pem | None) -> ExecPlugin:
    """Check a plugin's entry and resolve its command, before the first run. Raises UserError."""
    entry, user = chosen.user.value.exec_, chosen.user
    origin = f"user {user.name!r} in {user.file}"
    if entry is None:
        raise UserError(f"{origin}: exec is missing")
    if entry.api_version not in _VERSIONS:
        raise UserError(f"{origin}: exec.apiVersion {entry.api_version!r} is not one of {', '.join(_VERSIONS)}")
    if entry.interactive_mode not in _MODES:
        raise UserError(f"{origin}: exec.interactiveMode {entry.interactive_mode!r} is not one of {', '.join(_MODES)}")
    if entry.interactive_mode == "Always" and not sys.stdin.isatty():
        raise UserError(f"{origin}: exec.interactiveMode is Always, but there is no terminal; run it in one")
    # As kubectl does: a bare name is looked up in PATH, anything with a slash is relative to the file it stands in.
    wanted = str(user.beside(entry.command)) if os.sep in entry.command else entry.command
    found = shutil.which(wanted)
    if found is None:
        hint = f": {entry.install_hint.strip()}" if entry.install_hint else "; install it or correct exec.command"
        raise UserError(f"{origin}: the credential plugin {entry.command!r} is not there{hint}")
    return ExecPlugin(entry, found, origin, _cluster_info(chosen, authority) if entry.provide_cluster_info else None)


def _cluster_info(chosen: ChosenContext, authority: tls.Pem | None) -> dict[str, Any]:
    cluster = chosen.cluster.value
    extension = next((one for one in cluster.extensions if one.get("name") == _CLUSTER_EXTENSION), {})
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority.data if authority else b"",  # msgspec writes bytes as base64
        "proxy-url": cluster.proxy_url,
        "config": extension.get("extension"),
    }
    return {key: value for key, value in info.items() if value}


class PluginCredentials:
    """Runs the plugin if there is no credential yet, if it has expired, and if the server refuses it."""

    def __init__(self, plugin: ExecPlugin, clock: Clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._last: Credential | None = None
        self._ends = Instant(float("inf"))
        self._one_at_a_time = asyncio.Lock()

    async def current(self) -> Credential:
        if self._last is not None and self._clock.now() < self._ends - _RENEW_BEFORE:
            return self._last
        return await self._renew(self._last)

    async def renewed(self, refused: Credential) -> Credential | None:
        latest = await self._renew(refused)
        return latest if latest != refused else None

    def describe(self) -> str:
        return f"what the credential plugin {self._plugin.entry.command!r} of {self._plugin.origin} gives"

    async def _renew(self, stale: Credential | None) -> Credential:
        async with self._one_at_a_time:
            if self._last is not None and self._last is not stale:
                return self._last  # another call has renewed it while this one waited
            status = _understand(await _run(self._plugin), self._plugin)
            origin = self.describe()
            certificate = None
            if status.client_certificate_data:
                certificate = tls.ClientCertificate(
                    tls.Pem(status.client_certificate_data.encode(), origin),
                    tls.Pem(status.client_key_data.encode(), origin),
                )
            self._last = Credential(bearer(status.token) if status.token else "", certificate)
            ends = status.expiration_timestamp
            self._ends = Instant(ends.timestamp() if ends else float("inf"))
            return self._last


async def _run(plugin: ExecPlugin) -> bytes:
    interactive = plugin.entry.interactive_mode != "Never" and sys.stdin.isatty()
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.entry.api_version, "kind": "ExecCredential", "spec": spec}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.entry.args,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,  # its questions are for the person at the terminal
            start_new_session=not interactive,  # so that what it started ends with it
            env={
                **os.environ,
                **{one.name: one.value for one in plugin.entry.env},
                "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
            },
        )
    except OSError as error:
        raise NoCredential(f"{_name(plugin)} cannot be run ({error}); check exec.command") from error
    try:
        async with asyncio.timeout(_PLUGIN_SECONDS):
            output, complaints = await process.communicate()
    except TimeoutError as error:
        raise NoCredential(f"{_name(plugin)} gave nothing within {_PLUGIN_SECONDS:.0f} s; run it by hand") from error
    finally:
        await _end(process, with_its_session=not interactive)
    if process.returncode != 0:
        said = " ".join((complaints or b"").decode("utf-8", "replace").split())[-300:] or "it said nothing"
        raise NoCredential(f"{_name(plugin)} failed with exit code {process.returncode}: {said}")
    return output


async def _end(process: asyncio.subprocess.Process, *, with_its_session: bool) -> None:
    """Kill it if it still runs. A wrapper's own child holds the pipes, and `wait` waits for those too: so it goes as
    well, and where it cannot, we do not wait for it."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        if with_its_session:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_PARTING_SECONDS):
            await process.wait()


def _understand(output: bytes, plugin: ExecPlugin) -> _Status:
    try:
        answer = _decode(output)
    except msgspec.DecodeError as error:
        raise NoCredential(f"{_name(plugin)} did not print an ExecCredential: {error}") from error
    if answer.kind != "ExecCredential" or answer.api_version != plugin.entry.api_version:
        raise NoCredential(
            f"{_name(plugin)} printed {answer.api_version} {answer.kind}, "
            f"but exec.apiVersion asks for {plugin.entry.api_version} ExecCredential"
        )
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data):
        raise NoCredential(f"{_name(plugin)} printed neither a token nor a client certificate; log in with it first")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise NoCredential(f"{_name(plugin)} printed a client certificate or a key without the other")
    return status


def _name(plugin: ExecPlugin) -> str:
    return f"the credential plugin {plugin.entry.command!r} ({Path(plugin.command)}) of {plugin.origin}"
