"""Kubernetes objects as we read them: only the fields this project uses, named as Python names things.

Structs are frozen and lean (no managedFields, no garbage-collector tracking). They are for reading; to write an object
back without losing the fields left out here, go through `ullage.kube.client.edit`. No behaviour lives here.
"""

import msgspec


class KubeStruct(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all structs here: camelCase on the wire, defaults left out, unknown fields skipped."""
