"""A namespace as decisions see it: rules about other pods may select namespaces by label."""

import msgspec

NAME_LABEL = "kubernetes.io/metadata.name"
"""The API server gives it to every namespace."""


class Namespace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one namespace."""

    name: str
    labels: dict[str, str]


def labels_of_unheard(name: str) -> dict[str, str]:
    """What any namespace of this name has at least."""
    return {NAME_LABEL: name}
