"""Names and labels of installed objects."""

from ullage import __version__
from ullage.deploy.component import Component
from ullage.kube.client.resource import JsonObject

NAME_LABEL = "app.kubernetes.io/name"
COMPONENT_LABEL = "app.kubernetes.io/component"
VERSION_LABEL = "app.kubernetes.io/version"
PART = "ullage"


def is_our_definition(crd: JsonObject) -> bool:
    """True if we brought this CustomResourceDefinition."""
    return (crd["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of") == PART


def selector(component: Component) -> dict[str, str]:
    """Labels by which a component's pods are found."""
    return {NAME_LABEL: PART, COMPONENT_LABEL: str(component)}


def labels(component: Component | str) -> dict[str, str]:
    """Labels of an object."""
    return {NAME_LABEL: PART, COMPONENT_LABEL: str(component), VERSION_LABEL: __version__}


def metadata(name: str, component: Component | str, namespace: str = "") -> JsonObject:
    """Metadata of an object; cluster-scoped without a namespace."""
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels(component)}
