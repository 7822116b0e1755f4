"""Writes Events as `events.k8s.io/v1` spells them. What is told, when and how often is the recorder's business."""

from typing import Any

from ullage.kube.api import KubeApi, MergePatch
from ullage.kube.moment import write_micro_time
from ullage.kube.resource import JsonObject
from ullage.kube.resources import EVENTS
from ullage.observe.events import KINDS, Record, Subject

_LONGEST_NOTE = 1024
"""Bytes."""
_ELLIPSIS = "..."
_HOME_OF_THE_HOMELESS = "default"
"""Where Events about objects without a namespace are."""


class KubeEventWriter:
    """An `EventWriter`. `controller` says who tells (`ullage.dev/scheduler`), `instance` which replica of it."""

    def __init__(self, api: KubeApi, *, controller: str, instance: str) -> None:
        self._api = api
        self._controller = controller
        self._instance = instance[:128]

    async def create(self, record: Record) -> None:
        await self._api.create(EVENTS, self._event(record), _namespace(record))

    async def repeat(self, record: Record) -> None:
        await self._api.patch(EVENTS, record.name, MergePatch({"series": _series(record)}), _namespace(record))

    def _event(self, record: Record) -> JsonObject:
        told = record.announcement
        kind = KINDS[told.reason]
        event: JsonObject = {
            "metadata": {"name": record.name, "namespace": _namespace(record)},
            "eventTime": write_micro_time(record.first),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": kind.action,
            "reason": told.reason.value,
            "type": "Warning" if kind.warning else "Normal",
            "regarding": _reference(told.about),
            "note": shortened(told.note),
        }
        if told.related is not None:
            event["related"] = _reference(told.related)
        if record.count > 1:
            event["series"] = _series(record)
        return event


def shortened(note: str) -> str:
    """As much of a note as an Event may carry."""
    written = note.encode()
    if len(written) <= _LONGEST_NOTE:
        return note
    return written[: _LONGEST_NOTE - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def _namespace(record: Record) -> str:
    return record.announcement.about.key.namespace or _HOME_OF_THE_HOMELESS


def _series(record: Record) -> dict[str, Any]:
    return {"count": record.count, "lastObservedTime": write_micro_time(record.last)}


def _reference(subject: Subject) -> JsonObject:
    known = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "namespace": subject.key.namespace,
        "name": subject.key.name,
        "uid": subject.uid,
    }
    return {key: value for key, value in known.items() if value}
