"""What the providers' tests have in common: a template, and requests made of it."""

from collections.abc import Mapping

from ullage.cloud.api import CreateRequest, PoolRef
from ullage.model.provisioner import PROVISIONER_LABEL, GpuTemplate, NodeTemplate
from ullage.model.units import Bytes

H100S = NodeTemplate(
    gpus=GpuTemplate(model="H100", count=8, memory=Bytes(80 << 30), islands=1, bandwidth=450),
    resources={"cpu": 96_000, "memory": 10**15},
    labels={"tier": "gold"},
)


class Requests:
    """Pools by name, each with the parameters of its provider."""

    def __init__(self, parameters: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._parameters = parameters or {}

    def pool(self, name: str) -> PoolRef:
        return PoolRef(name=name, parameters=self._parameters.get(name, {}))

    def request(self, pool: PoolRef, count: int, token: str, *, least: int = 1) -> CreateRequest:
        labels = H100S.labels | {PROVISIONER_LABEL: pool.name}
        return CreateRequest(pool=pool, count=count, token=token, template=H100S, labels=labels, least=least)
