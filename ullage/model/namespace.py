"""Namespace as decisions see it: rules about other pods may select namespaces by label."""

import msgspec

NAME_LABEL = "kubernetes.io/metadata.name"
"""Label the API server gives to every namespace."""


class Namespace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one namespace."""

    name: str
    labels: dict[str, str]


def labels_of_unheard(name: str) -> dict[str, str]:
    """Labels that every namespace of this name has at least."""
    return {NAME_LABEL: name}
