"""The files and addresses of one control plane: folders, certificates, kubeconfigs, ports."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ullage.testing.controlplane.certificates import (
    CertificateAuthority,
    KeyPair,
    service_account_key,
    write_secret,
)
from ullage.testing.controlplane.spec import StaticToken

LOOPBACK = "127.0.0.1"
ADMIN, ADMIN_GROUP = "ullage-test-admin", "system:masters"


@dataclass(frozen=True, slots=True)
class Ports:
    """One loopback port for each thing that listens."""

    etcd_client: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int
    karpenter_health: int
    karpenter_metrics: int


@dataclass(frozen=True, slots=True)
class ControlPlaneSite:
    """Paths and addresses of one control plane. Written once, before the first program starts."""

    folder: Path
    ports: Ports

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.ports.apiserver}"

    @property
    def etcd(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.etcd_client}"

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"

    @property
    def service_account_key(self) -> Path:
        return self.folder / "service-accounts.key"

    @property
    def token_file(self) -> Path:
        return self.folder / "tokens.csv"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.jsonl"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def furnish(site: ControlPlaneSite, authority: CertificateAuthority, tokens: Sequence[StaticToken]) -> None:
    """Write the certificates, keys, tokens and the admin's kubeconfig."""
    site.ca.write_bytes(authority.certificate)
    authority.server().write(site.server_certificate, site.server_key)
    write_secret(site.service_account_key, service_account_key())
    write_secret(site.token_file, "".join(map(_token_line, tokens)).encode())
    admin = authority.client(ADMIN, [ADMIN_GROUP])
    write_kubeconfig(site.admin_kubeconfig, site, certificate_credentials(admin))


def certificate_credentials(pair: KeyPair) -> dict[str, str]:
    """The user entry of a kubeconfig that shows a client certificate."""
    return {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}


def write_kubeconfig(path: Path, site: ControlPlaneSite, credentials: Mapping[str, object]) -> None:
    """A kubeconfig with one context; JSON, which every reader of YAML reads."""
    cluster = {"server": site.server, "certificate-authority-data": _base64(site.ca.read_bytes())}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "user", "user": dict(credentials)}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": "default"}}],
        "current-context": "test",
    }
    write_secret(path, json.dumps(config, indent=1).encode())


def _token_line(token: StaticToken) -> str:
    # token,user,uid,"group,group": the user's name serves as uid, tests tell users apart by name.
    return f'{token.token},{token.user},{token.user},"{",".join(token.groups)}"\n'


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
