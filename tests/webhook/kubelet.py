"""What kubelet makes of a container's env: references to the pod's own fields, and `$(NAME)` in values.

Written after kubelet's rules: a reference to an annotation that is not there is an empty text; `$(NAME)` is replaced by
what stands before it in the list, `$$(NAME)` is a plain `$(NAME)`; where a name is there twice, the later one counts.
"""

import re

from ullage.kube.client.resource import JsonObject

_ANNOTATION = re.compile(r"metadata\.annotations\['(.+)'\]")
_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


def env_of(pod: JsonObject, container: JsonObject) -> dict[str, str]:
    """The variables the container is started with."""
    env: dict[str, str] = {}
    for entry in container.get("env", []):
        source = entry.get("valueFrom")
        env[entry["name"]] = _expanded(entry.get("value", ""), env) if source is None else _field(pod, source)
    return env


def _field(pod: JsonObject, source: JsonObject) -> str:
    found = _ANNOTATION.fullmatch(source["fieldRef"]["fieldPath"])
    assert found is not None, source
    return str(pod["metadata"].get("annotations", {}).get(found[1], ""))


def _expanded(text: str, env: dict[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        return "$" if found[1] is None else env.get(found[1], found[0])

    return _REFERENCE.sub(one, text)


def containers_of(pod: JsonObject) -> list[JsonObject]:
    """All of them, of every kind."""
    spec = pod["spec"]
    return [*spec.get("initContainers", []), *spec["containers"], *spec.get("ephemeralContainers", [])]
