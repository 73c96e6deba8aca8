"""Cloud Monitoring: time series, notification channels (v3) and dashboards (v1). Alert policies: monitoring_alerts.py.

Sources: https://docs.cloud.google.com/monitoring/api/ref_v3/rest, read 2026-11-29, and the discovery documents.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from infra import catalog
from mockgcp import masks
from mockgcp.errors import ApiError, already_exists, failed_precondition, invalid, not_found
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service, canonical
from mockgcp.services.logging_filter import Predicate, instant, parse_filter
from mockgcp.services.monitoring_series import BUILT_IN, all_series

service = Service("monitoring", host="monitoring.googleapis.com")

_METRIC_TYPE = re.compile(r'\bmetric\.type\s*=\s*"([^"]+)"')
_LAYOUTS = ("columnLayout", "gridLayout", "mosaicLayout", "rowLayout")


def project(call: Call) -> str:
    """The project of a call, by its id."""
    return call.cloud.project((call.params.get("parent") or call.params["name"]).split("/")[1]).name


def name(call: Call) -> str:
    """The full name of what a call is about, with the project's id."""
    return canonical(call, call.params["name"])


def stored(call: Call, kind: str) -> dict[str, Any]:
    """The resource of that kind that the call names.

    Raises:
        ApiError: NOT_FOUND.
    """
    found = call.cloud.table(kind).get(name(call))
    if found is None:
        raise not_found(f"Could not find {name(call)}.")
    return found


def serve_reads(collection: str, kind: str) -> None:
    """Registers get and list of a project's resources of that kind."""
    method, permission = f"monitoring.projects.{collection}", f"monitoring.{collection}"

    @service.method(f"{method}.get", permission=f"{permission}.get", on=project)
    def get(call: Call) -> Mapping[str, Any]:
        return stored(call, kind)

    @service.method(f"{method}.list", permission=f"{permission}.list", on=project, reads=PARAMS)
    def list_(call: Call) -> Mapping[str, Any]:
        found = [each for key, each in call.cloud.table(kind).items() if key.startswith(project(call) + "/")]
        shown, more = page(call, found)
        return {collection: shown, **more}


def new_id(call: Call) -> str:
    """An id as Monitoring makes them: a large number."""
    return str(call.cloud.random.randrange(10**17, 10**19))


def mutation(call: Call) -> dict[str, str]:
    return {"mutateTime": call.cloud.clock.timestamp(), "mutatedBy": call.principal.partition(":")[2]}


def patched(call: Call, old: Mapping[str, Any]) -> dict[str, Any]:
    """What a patch writes: the body, or the old resource with what updateMask names."""
    mask = call.params.get("updateMask", "")
    return masks.merged(old, call.body, masks.paths(mask)) if mask else dict(call.body)


def check_user_labels(labels: Mapping[str, str]) -> None:
    limits = catalog.monitoring()
    bad = [text for pair in labels.items() for text in pair if not re.fullmatch(r"[a-z0-9_-]{0,63}", text)]
    bad += [key for key in labels if not re.fullmatch(limits.user_label_pattern, key)]
    if bad or len(labels) > limits.user_labels_max:
        raise invalid(
            f"userLabels: at most {limits.user_labels_max} of lower-case letters, digits, _ and -, 63 characters long, "
            f"keys with a letter first; got {bad or len(labels)}",
            ("userLabels", "malformed"),
        )


# -- time series ---------------------------------------------------------------------------------------------------


def metric_type(filter_: str, field: str) -> str:
    """The one metric type of a filter on time series.

    Raises:
        ApiError: INVALID_ARGUMENT, naming `field`, for none or several.
    """
    found = _METRIC_TYPE.findall(filter_)
    if len(found) != 1:
        raise invalid(
            f'Field {field} had an invalid value of "{filter_}": The filter must specify a single metric type '
            '(metric.type = "..."), which mockgcp takes by = only.',
            (field, "malformed"),
        )
    return str(found[0])


def series_filter(filter_: str) -> Predicate:
    """A filter on time series, which has the grammar of logging's as far as it goes here."""
    return parse_filter(filter_)


@service.method(
    "monitoring.projects.timeSeries.list",
    permission="monitoring.timeSeries.list",
    on=project,
    reads=("filter", "interval.startTime", "interval.endTime", "view", *PARAMS),
)
def list_series(call: Call) -> Mapping[str, Any]:
    sent, headers = call.params, call.params.get("view") == "HEADERS"
    if "filter" not in sent or "interval.endTime" not in sent:
        raise invalid("timeSeries.list needs filter and interval.endTime.", ("interval.endTime", "required"))
    end = instant(sent["interval.endTime"])
    start = instant(sent.get("interval.startTime", sent["interval.endTime"]))
    if start > end:
        raise invalid("The interval's start is after its end.", ("interval", "out of range"))
    wanted = metric_type(sent["filter"], "filter")
    if not wanted.startswith("logging.googleapis.com/user/") and wanted not in BUILT_IN:
        raise ApiError(
            "UNIMPLEMENTED", f"mockgcp has no metric {wanted}; it has {', '.join(BUILT_IN)} and log-based ones"
        )
    keep = series_filter(sent["filter"])
    owner = call.cloud.project(project(call).split("/")[1])
    found = [s.to_dict(start, end, headers=headers) for s in all_series(call.cloud, owner) if keep(s.described)]
    series, more = page(call, [each for each in found if each is not None])
    return {"timeSeries": series, **more}


# -- notification channels -----------------------------------------------------------------------------------------

CHANNEL = "monitoring.notificationChannel"
serve_reads("notificationChannels", CHANNEL)


def _check_channel(call: Call) -> None:
    body = call.body
    if body.get("type") != "email":
        raise ApiError(
            "UNIMPLEMENTED", f"mockgcp emulates notification channels of type email, not {body.get('type')!r}"
        )
    labels = body.get("labels", {})
    if set(labels) != {"email_address"} or not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", labels["email_address"]):
        raise invalid(
            f"Field notification_channel.labels had an invalid value: an email channel has the one label "
            f"email_address, an address; got {sorted(labels)}",
            ("notificationChannel.labels", "malformed"),
        )
    if len(body.get("displayName", "")) > catalog.monitoring().display_name_max:
        raise invalid(
            f"displayName has at most {catalog.monitoring().display_name_max} characters.", ("displayName", "")
        )
    check_user_labels(body.get("userLabels", {}))


@service.method(
    "monitoring.projects.notificationChannels.create",
    permission="monitoring.notificationChannels.create",
    on=project,
    rules=_check_channel,
)
def create_channel(call: Call) -> Mapping[str, Any]:
    full = f"{project(call)}/notificationChannels/{new_id(call)}"
    made = {"enabled": True, **call.body, "name": full, "creationRecord": mutation(call), "mutationRecords": []}
    call.cloud.table(CHANNEL)[full] = made
    return made


@service.method(
    "monitoring.projects.notificationChannels.patch",
    permission="monitoring.notificationChannels.update",
    on=project,
    reads=("updateMask",),
)
def patch_channel(call: Call) -> Mapping[str, Any]:
    old = stored(call, CHANNEL)
    new = patched(call, old)
    if new.get("type") != old["type"]:
        raise invalid("The type of a notification channel cannot be changed.", ("type", "immutable"))
    _check_channel(Call(call.cloud, call.method, call.params, new, call.principal))
    kept = {key: old[key] for key in ("name", "creationRecord")}
    changed = {"enabled": True, **new, **kept, "mutationRecords": [*old["mutationRecords"], mutation(call)]}
    call.cloud.table(CHANNEL)[old["name"]] = changed
    return changed


@service.method(
    "monitoring.projects.notificationChannels.delete",
    permission="monitoring.notificationChannels.delete",
    on=project,
    reads=("force",),
)
def delete_channel(call: Call) -> Mapping[str, Any]:
    full = stored(call, CHANNEL)["name"]
    users = [
        p for p in call.cloud.table("monitoring.alertPolicy").values() if full in p.get("notificationChannels", [])
    ]
    if users and not call.params.get("force"):
        raise failed_precondition(
            f"Cannot delete {full}: it is used by {', '.join(policy['name'] for policy in users)}. "
            "Take it out there first, or set force."
        )
    for policy in users:
        policy["notificationChannels"].remove(full)
    del call.cloud.table(CHANNEL)[full]
    return {}


# -- dashboards ----------------------------------------------------------------------------------------------------

DASHBOARD = "monitoring.dashboard"
serve_reads("dashboards", DASHBOARD)


def _widgets(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every widget by its path."""
    for index, tile in enumerate(body.get("mosaicLayout", {}).get("tiles", [])):
        yield f"mosaicLayout.tiles[{index}].widget", tile.get("widget", {})
    for index, widget in enumerate(body.get("gridLayout", {}).get("widgets", [])):
        yield f"gridLayout.widgets[{index}]", widget
    for layout, part in (("rowLayout", "rows"), ("columnLayout", "columns")):
        for at, line in enumerate(body.get(layout, {}).get(part, [])):
            for index, widget in enumerate(line.get("widgets", [])):
                yield f"{layout}.{part}[{at}].widgets[{index}]", widget


def _check_dashboard(call: Call) -> None:
    body = call.body
    if not body.get("displayName"):
        raise invalid("Field displayName is required.", ("displayName", "required"))
    layouts = [layout for layout in _LAYOUTS if layout in body]
    if len(layouts) != 1:
        raise invalid(f"A dashboard has one of {', '.join(_LAYOUTS)}; got {layouts}", ("layout", "oneof"))
    for path, widget in _widgets(body):
        content = [key for key in widget if key not in ("id", "title", "timeRange", "visibilityCondition")]
        if len(content) != 1:
            raise invalid(f"Field {path} has one kind of content, got {content}.", (path, "oneof"))
        if "xyChart" in widget and not widget["xyChart"].get("dataSets"):
            raise invalid(f"Field {path}.xyChart.dataSets is required.", (f"{path}.xyChart.dataSets", "required"))
    if "mosaicLayout" in body:
        _check_mosaic(body["mosaicLayout"])


def _check_mosaic(layout: Mapping[str, Any]) -> None:
    columns, most = layout.get("columns", 0), catalog.monitoring().mosaic_columns_max
    if not 1 <= columns <= most:
        raise invalid(f"mosaicLayout.columns is 1 to {most}, got {columns}.", ("mosaicLayout.columns", "out of range"))
    for index, tile in enumerate(layout.get("tiles", [])):
        field, right = f"mosaicLayout.tiles[{index}]", tile.get("xPos", 0) + tile.get("width", 0)
        if tile.get("width", 0) < 1 or tile.get("height", 0) < 1 or right > columns:
            raise invalid(
                f"Field {field}: it is 1 block or more, and within {columns} columns.", (field, "out of range")
            )


def _etag(body: Mapping[str, Any]) -> str:
    text = json.dumps({k: v for k, v in body.items() if k != "etag"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@service.method(
    "monitoring.projects.dashboards.create",
    permission="monitoring.dashboards.create",
    on=project,
    rules=_check_dashboard,
    reads=("validateOnly",),
)
def create_dashboard(call: Call) -> Mapping[str, Any]:
    number = call.cloud.project(project(call).split("/")[1]).number
    short = call.body.get("name", "").split("/")[-1] or call.cloud.uid()
    full = f"{project(call)}/dashboards/{short}"
    if full in call.cloud.table(DASHBOARD):
        raise already_exists(f"Dashboard {full} already exists.")
    # The API names it by the project's number.
    made = {**call.body, "name": f"projects/{number}/dashboards/{short}"}
    made["etag"] = _etag(made)
    if not call.params.get("validateOnly"):
        call.cloud.table(DASHBOARD)[full] = made
    return made


@service.method(
    "monitoring.projects.dashboards.patch",
    permission="monitoring.dashboards.update",
    on=project,
    rules=_check_dashboard,
    reads=("validateOnly",),
)
def patch_dashboard(call: Call) -> Mapping[str, Any]:
    old = stored(call, DASHBOARD)
    if call.body.get("etag") not in (None, "", old["etag"]):
        raise ApiError("ABORTED", "The dashboard has changed since it was read (etag). Read it again and retry.")
    changed = {**call.body, "name": old["name"]}
    changed["etag"] = _etag(changed)
    if not call.params.get("validateOnly"):
        call.cloud.table(DASHBOARD)[name(call)] = changed
    return changed


@service.method("monitoring.projects.dashboards.delete", permission="monitoring.dashboards.delete", on=project)
def delete_dashboard(call: Call) -> Mapping[str, Any]:
    stored(call, DASHBOARD)
    del call.cloud.table(DASHBOARD)[name(call)]
    return {}
