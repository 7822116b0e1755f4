"""A blocking look at the control plane's own servers: is it ready, and the few requests that set it up.

Not a Kubernetes client: tests use `ullage.kube`.
"""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ullage.errors import UllageError
from ullage.testing.controlplane.certificates import KeyPair

TIMEOUT_SECONDS = 5.0
CRDS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Probe:
    """Asks servers that show a certificate of one authority, as one user."""

    def __init__(self, ca: Path, pair: KeyPair, folder: Path) -> None:
        context = ssl.create_default_context(cafile=str(ca))
        # The ssl module reads a client certificate from files only.
        certificate, key = folder / "probe.crt", folder / "probe.key"
        pair.write(certificate, key)
        context.load_cert_chain(certificate, key)
        # Straight to loopback, whatever proxy the environment names.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def is_ready(self, url: str) -> bool:
        """True if the server answers 200 at this URL."""
        return self.request("GET", url)[0] == http.client.OK

    def get(self, url: str) -> Any:
        """The JSON found there."""
        status, body = self.request("GET", url)
        if status != http.client.OK:
            raise UllageError(f"GET {url} answered {status}: {body.decode(errors='replace')[:300]}")
        return json.loads(body)

    def request(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        """Status and body; status 0 where there was no answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, http.client.HTTPException):
            return 0, b""


def create_crds(probe: Probe, server: str, files: Iterable[Path]) -> list[str]:
    """Create the CustomResourceDefinitions in the files, if they are not there, and return their names."""
    names = []
    for path in files:
        crd = yaml.safe_load(path.read_text())
        status, body = probe.request("POST", server + CRDS_PATH, crd)
        if status not in (http.client.CREATED, http.client.CONFLICT):
            raise UllageError(f"{path.name} was refused with {status}: {body.decode(errors='replace')[:300]}")
        names.append(str(crd["metadata"]["name"]))
    return names


def crd_is_served(probe: Probe, server: str, name: str) -> bool:
    """True if objects of this kind can be read now."""
    crd = probe.get(f"{server}{CRDS_PATH}/{name}")
    conditions = crd.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def account_token(probe: Probe, server: str, account: tuple[str, str], node: str = "") -> str:
    """A token of a service account (namespace, name) by the TokenRequest API, bound to a Node if one is named."""
    namespace, name = account
    spec: dict[str, Any] = {"expirationSeconds": 7200}
    if node:
        uid = probe.get(f"{server}/api/v1/nodes/{node}")["metadata"]["uid"]
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    url = f"{server}/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    status, answer = probe.request("POST", url, body)
    if status != http.client.CREATED:
        raise UllageError(f"no token for {namespace}/{name}: {status} {answer.decode(errors='replace')[:300]}")
    return str(json.loads(answer)["status"]["token"])
