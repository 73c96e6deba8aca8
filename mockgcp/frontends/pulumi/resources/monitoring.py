"""gcp:monitoring: alert policies, notification channels, dashboards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pulumi_gcp as gcp

from mockgcp.errors import invalid
from mockgcp.frontends.pulumi.resource import (
    Create,
    Props,
    Request,
    ResourceType,
    Session,
    created_by,
    deleted_by,
    id_parts,
    read_by,
    validated_by,
)
from mockgcp.frontends.pulumi.resources.masked import masked_update
from mockgcp.frontends.pulumi.translate import PROVISIONED, Table

_IN_PROJECT = {"name": "projects/{project}"}
_NAMED = {"name": "{name}"}


def _import(collection: str) -> Callable[[str], Props]:
    """Takes `projects/PROJECT/COLLECTION/ID` or `PROJECT/ID`. An id alone would leave its project open: refused."""

    def parse(identifier: str) -> Props:
        form = f"projects/{{project}}/{collection}/{{id}}"
        parts = id_parts(form if identifier.startswith("projects/") else "{project}/{id}")(identifier)
        return {"name": form.format_map(parts), "project": parts["project"]}

    return parse


def _derive(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
    return {"project": properties["project"]}


# -- alert policies ------------------------------------------------------------------------------------------------

_POLICIES = "monitoring.projects.alertPolicies"
_CREATE_POLICY = Request(f"{_POLICIES}.create", _IN_PROJECT)
_GET_POLICY = Request(f"{_POLICIES}.get", _NAMED)
# What changes in place; each is named whole.
_OF_POLICY = {
    name: (name,)
    for name in (
        *("alertStrategy", "combiner", "conditions", "displayName", "documentation", "enabled"),
        *("notificationChannels", "severity", "userLabels"),
    )
}

ALERT_POLICY = ResourceType(
    token="gcp:monitoring/alertPolicy:AlertPolicy",
    resource=gcp.monitoring.AlertPolicy,
    args=gcp.monitoring.AlertPolicyArgs,
    id="{name}",
    import_id=_import("alertPolicies"),
    create=created_by(_CREATE_POLICY),
    read=read_by(_GET_POLICY),
    update=masked_update(Request(f"{_POLICIES}.patch", _NAMED), _GET_POLICY, _OF_POLICY, frozenset()),
    delete=deleted_by(Request(f"{_POLICIES}.delete", _NAMED)),
    dry_run=validated_by(_CREATE_POLICY),
    defaults={"documentation.mimeType": "text/markdown", "enabled": True},
    replace_on=frozenset({"project"}),
    computed=frozenset({"conditions.name", "deletionPolicy", "project"}),
    table=Table(
        names={
            "alertStrategy.notificationChannelStrategies": "notificationChannelStrategy",
            "creationRecords": "creationRecord",
        },
        local=frozenset({"deletionPolicy", "project"}),
        sent_when_zero=frozenset({"enabled"}),
    ),
    derive=_derive,
)

# -- notification channels -----------------------------------------------------------------------------------------

_CREATE_CHANNEL = Request("monitoring.projects.notificationChannels.create", _IN_PROJECT)
_create_channel: Create = created_by(_CREATE_CHANNEL)
_validate_channel = validated_by(_CREATE_CHANNEL)


def _own_labels(body: Mapping[str, Any]) -> dict[str, Any]:
    """A channel's labels say where it leads to; they are none that the provider marks as its own."""
    return {**body, "labels": {k: v for k, v in body.get("labels", {}).items() if k != PROVISIONED}}


def _delete_channel(session: Session, properties: Props) -> None:
    force = {"force": "true"} if properties.get("forceDelete") else {}
    deleted_by(Request("monitoring.projects.notificationChannels.delete", {**_NAMED, **force}))(session, properties)


NOTIFICATION_CHANNEL = ResourceType(
    token="gcp:monitoring/notificationChannel:NotificationChannel",
    resource=gcp.monitoring.NotificationChannel,
    args=gcp.monitoring.NotificationChannelArgs,
    id="{name}",
    import_id=_import("notificationChannels"),
    create=lambda session, properties, body: _create_channel(session, properties, _own_labels(body)),
    read=read_by(Request("monitoring.projects.notificationChannels.get", _NAMED)),
    update=lambda session, old, new, body: session.call(
        "monitoring.projects.notificationChannels.patch", {"name": old["name"]}, _own_labels(body)
    ),
    delete=_delete_channel,
    dry_run=lambda session, properties, body: _validate_channel(session, properties, _own_labels(body)),
    defaults={"enabled": True, "forceDelete": False},
    replace_on=frozenset({"project"}),
    computed=frozenset({"deletionPolicy", "project"}),
    table=Table(
        local=frozenset({"deletionPolicy", "forceDelete", "project"}),
        sent_when_zero=frozenset({"enabled"}),
    ),
    derive=_derive,
)

# -- dashboards ----------------------------------------------------------------------------------------------------

_CREATE_DASHBOARD = Request("monitoring.projects.dashboards.create", {"parent": "projects/{project}"})
# The dashboard's name stands in no property but the id.
_DASHBOARD = {"name": "{id}"}
_OF_THE_SERVER = ("etag", "name")


def _parsed(properties: Props) -> dict[str, Any]:
    try:
        parsed = json.loads(properties["dashboardJson"])
    except ValueError as error:
        raise invalid(f"dashboardJson is no JSON: {error}", ("dashboardJson", "malformed")) from None
    if not isinstance(parsed, dict):
        raise invalid("dashboardJson is no JSON object", ("dashboardJson", "malformed"))
    return parsed


def _normal(text: str) -> str:
    """A dashboard's JSON without what makes no difference: white space, order, and what the server says of it."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return text
    return json.dumps({k: v for k, v in parsed.items() if k not in _OF_THE_SERVER}, sort_keys=True)


def _within(program: Any, live: Any) -> bool:
    """Whether the live value has all that the program's has: what the server added is no difference."""
    if isinstance(program, Mapping) and isinstance(live, Mapping):
        return all(_within(value, live.get(key)) for key, value in program.items())
    if isinstance(program, list) and isinstance(live, list):
        return len(program) == len(live) and all(map(_within, program, live))
    # A zero is not sent back.
    return bool(program == live or (live is None and program in (False, 0, "", [], {})))


def _derive_dashboard(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
    live = {key: value for key, value in rest.items() if key not in _OF_THE_SERVER}
    text = properties.get("dashboardJson")
    sent = {key: value for key, value in json.loads(text or "{}").items() if key not in _OF_THE_SERVER}
    shown = text if text and _within(sent, live) else json.dumps(live, sort_keys=True)
    return {"id": rest["name"], "dashboardJson": shown, "project": properties["project"]}


def _update_dashboard(session: Session, old: Props, new: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
    return session.call(
        "monitoring.projects.dashboards.patch", {"name": old["id"]}, {**_parsed(new), "name": old["id"]}
    )


DASHBOARD = ResourceType(
    token="gcp:monitoring/dashboard:Dashboard",
    resource=gcp.monitoring.Dashboard,
    args=gcp.monitoring.DashboardArgs,
    id="{id}",
    import_id=lambda identifier: {
        "id": "projects/{project}/dashboards/{dashboard}".format_map(
            id_parts("projects/{project}/dashboards/{dashboard}")(identifier)
        )
    },
    create=lambda session, properties, body: session.call(
        _CREATE_DASHBOARD.method, _CREATE_DASHBOARD.fill(properties), _parsed(properties)
    ),
    read=read_by(Request("monitoring.projects.dashboards.get", _DASHBOARD)),
    update=_update_dashboard,
    delete=deleted_by(Request("monitoring.projects.dashboards.delete", _DASHBOARD)),
    dry_run=lambda session, properties, body: session.validate(_CREATE_DASHBOARD, properties, _parsed(properties)),
    replace_on=frozenset({"project"}),
    computed=frozenset({"deletionPolicy", "project"}),
    table=Table(local=frozenset({"dashboardJson", "deletionPolicy", "project"}), spelling={"dashboardJson": _normal}),
    derive=_derive_dashboard,
)
