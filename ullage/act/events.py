"""Write Events of `events.k8s.io/v1`. Contents, time and repetition are decided by the EventRecorder."""

from typing import Any

from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import EVENTS
from ullage.kube.timestamps import write_micro_time
from ullage.observe.events import KINDS, EventSeries, ObjectReference

_LONGEST_NOTE = 1024
"""Bytes."""
_ELLIPSIS = "..."
_HOME_OF_THE_HOMELESS = "default"
"""Namespace of Events about objects without a namespace."""


class KubeEventWriter:
    """An `EventWriter`. `controller` is the reporting controller (`ullage.dev/scheduler`), `instance` its replica."""

    def __init__(self, api: KubeApi, *, controller: str, instance: str) -> None:
        self._api = api
        self._controller = controller
        self._instance = instance[:128]

    async def create(self, record: EventSeries) -> None:
        await self._api.create(EVENTS, self._event(record), _namespace(record))

    async def repeat(self, record: EventSeries) -> None:
        await self._api.patch(EVENTS, record.name, MergePatch({"series": _series(record)}), _namespace(record))

    def _event(self, record: EventSeries) -> JsonObject:
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
    """The note, cut to the 1024 bytes an Event may have."""
    written = note.encode()
    if len(written) <= _LONGEST_NOTE:
        return note
    return written[: _LONGEST_NOTE - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def _namespace(record: EventSeries) -> str:
    return record.announcement.about.key.namespace or _HOME_OF_THE_HOMELESS


def _series(record: EventSeries) -> dict[str, Any]:
    return {"count": record.count, "lastObservedTime": write_micro_time(record.last)}


def _reference(subject: ObjectReference) -> JsonObject:
    known = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "namespace": subject.key.namespace,
        "name": subject.key.name,
        "uid": subject.uid,
    }
    return {key: value for key, value in known.items() if value}
