"""Cluster access: endpoint and credentials, from a kubeconfig or from the pod's service account."""

import base64
import binascii
import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ullage.clock import Clock
from ullage.errors import UserError
from ullage.kube.auth import exec_plugin, tls
from ullage.kube.auth.credentials import (
    Credential,
    Credentials,
    FileCredentials,
    FixedCredentials,
    basic,
    bearer,
    read_token,
)
from ullage.kube.auth.kubeconfig import ChosenContext, NamedEntry, UserEntry
from ullage.kube.http.http import Endpoint

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder in which the kubelet mounts a pod's service account."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Everything needed to connect."""

    endpoint: Endpoint
    credentials: Credentials
    namespace: str
    """Namespace used where none is named."""
    origin: str
    """Source of this configuration, for messages."""


def from_kubeconfig(chosen: ChosenContext, clock: Clock) -> ClusterAccess:
    """Access by a context of a kubeconfig. Raises UserError."""
    cluster, where = chosen.cluster.value, f"cluster {chosen.cluster.name!r} in {chosen.cluster.file}"
    if not cluster.server:
        raise UserError(f"{where}: server is not set; give the address of the API server")
    server = _checked_address(cluster.server, where)
    authority = _pem(
        chosen.cluster, "certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority
    )
    if cluster.insecure_skip_tls_verify and authority is not None:
        raise UserError(f"{where}: insecure-skip-tls-verify and certificate-authority contradict; remove one")
    trust = tls.ServerTrust(authority, cluster.insecure_skip_tls_verify, cluster.tls_server_name)
    endpoint = Endpoint(
        server,
        trust,
        _checked_proxy(cluster.proxy_url, where) if cluster.proxy_url else proxy_from_environment(server),
        _impersonation(chosen.user.value),
    )
    credentials = _credentials(chosen, authority, clock)
    if server.startswith("https:"):
        tls.make_context(trust, None)  # complain now, not in the middle of the first call
    return ClusterAccess(
        endpoint, credentials, chosen.context.value.namespace or "default", f"context {chosen.context.name!r}"
    )


def in_cluster(directory: Path | None = None) -> ClusterAccess:
    """Access by the service account of the pod that runs this process. Raises UserError."""
    directory = directory or SERVICE_ACCOUNT
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise UserError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is not a pod")
    origin = f"the service account in {directory}"

    def read() -> Credential:
        return Credential(bearer(read_token(directory / "token", origin)))

    read()  # complain now
    authority = _read_file(directory / "ca.crt", origin)
    namespace = _read_file(directory / "namespace", origin).data.decode().strip()
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    endpoint = Endpoint(server, tls.ServerTrust(authority), proxy_from_environment(server))
    return ClusterAccess(endpoint, FileCredentials(read, origin), namespace or "default", origin)


def _credentials(chosen: ChosenContext, authority: tls.Pem | None, clock: Clock) -> Credentials:
    user, entry = chosen.user, chosen.user.value
    origin = f"the credentials of user {user.name!r} in {user.file}" if user.name else "requests without credentials"
    if entry.auth_provider is not None:
        kind = entry.auth_provider.get("name", "")
        raise UserError(
            f"user {user.name!r} in {user.file}: auth-provider {kind!r} no longer exists in Kubernetes; "
            "use an exec credential plugin instead"
        )
    if entry.exec_ is not None:
        return exec_plugin.PluginCredentials(exec_plugin.prepare(chosen, authority), clock)

    def read() -> Credential:
        return Credential(_authorization(user), _certificate(user))

    first = read()
    if first.certificate is not None:
        tls.make_context(tls.ServerTrust(), first.certificate)  # complain now, not in the middle of the first call
    if entry.token_file or (entry.client_certificate and not entry.client_certificate_data):
        return FileCredentials(read, origin)
    return FixedCredentials(first, origin)


def _authorization(user: NamedEntry[UserEntry]) -> str:
    entry = user.value
    if entry.token_file:
        path = user.beside(entry.token_file)
        # As in client-go, the file wins, and the token is what was written there before the file existed.
        if path.exists() or not entry.token:
            return bearer(read_token(path, f"user {user.name!r} in {user.file}, tokenFile"))
    if entry.token:
        return bearer(entry.token)
    return basic(entry.username, entry.password) if entry.username else ""


def _certificate(user: NamedEntry[UserEntry]) -> tls.ClientCertificate | None:
    entry = user.value
    certificate = _pem(user, "client-certificate", entry.client_certificate_data, entry.client_certificate)
    key = _pem(user, "client-key", entry.client_key_data, entry.client_key)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "client-certificate" if certificate is None else "client-key"
        raise UserError(f"user {user.name!r} in {user.file}: {missing} is not set, but its counterpart is; add it")
    return tls.ClientCertificate(certificate, key)


def _pem(entry: NamedEntry[Any], field: str, data: str, path: str) -> tls.Pem | None:
    """PEM text given inline or in a file; inline wins, as in kubectl."""
    origin = f"{entry.name!r} in {entry.file}"
    if data:
        try:
            return tls.Pem(base64.b64decode(data, validate=True), f"{field}-data of {origin}")
        except binascii.Error as error:
            raise UserError(f"{field}-data of {origin} is not base64 ({error}); correct the file") from error
    return _read_file(entry.beside(path), f"{field} of {origin}") if path else None


def _read_file(path: Path, origin: str) -> tls.Pem:
    try:
        return tls.Pem(path.read_bytes(), f"{path} ({origin})")
    except OSError as error:
        raise UserError(f"{origin}: {path} cannot be read ({error.strerror}); check the path") from error


def _impersonation(user: UserEntry) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.as_user)] if user.as_user else []
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    headers += [("Impersonate-Group", group) for group in user.as_groups]
    for key, values in sorted(user.as_user_extra.items()):
        headers += [(f"Impersonate-Extra-{key}", value) for value in values]
    return tuple(headers)


def _checked_address(server: str, where: str) -> str:
    """Normalise an address as kubectl does: without a scheme, it is http."""
    address = server if "://" in server else f"http://{server}"
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise UserError(f"{where}: server {server!r} is not an address like https://host:6443; correct it")
    return address.rstrip("/")


def _checked_proxy(proxy: str, where: str) -> str:
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise UserError(f"{where}: proxy-url {proxy!r} is not supported; use an http:// or https:// proxy")
    return proxy


def proxy_from_environment(server: str) -> str:
    """Return the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY give for this server, else "". Loopback gets none."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if _is_loopback(host) or proxy_bypass(host):
        return ""
    return getproxies().get(parts.scheme, "")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
