"""gcp:logging: log-based metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pulumi_gcp as gcp

from infra import catalog
from mockgcp.frontends.pulumi.resource import (
    AutoName,
    Props,
    Request,
    ResourceType,
    Session,
    created_by,
    deleted_by,
    read_by,
    updated_by,
    validated_by,
)
from mockgcp.frontends.pulumi.translate import Table

_METRICS = "logging.projects.metrics"
_CREATE = Request(f"{_METRICS}.create", {"parent": "projects/{project}"})
_NAMED = {"metricName": "projects/{project}/metrics/{quoted}"}
_read = read_by(Request(f"{_METRICS}.get", _NAMED))
# Under another name it makes another metric and leaves the old one, as the official provider does: `name` does not
# replace there.
_update = updated_by(Request(f"{_METRICS}.update", _NAMED))
_delete = deleted_by(Request(f"{_METRICS}.delete", _NAMED))


def _quoted(properties: Props) -> Props:
    """With the name as it stands in a path, where a slash of its own is no separator."""
    return {**properties, "quoted": quote(properties["name"], safe="")}


def _import(identifier: str) -> Props:
    """`PROJECT NAME`, or `NAME` in the provider's project."""
    project, _, name = identifier.rpartition(" ")
    return {"name": name, **({"project": project} if project else {})}


def _derive(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
    return {"project": properties["project"]}


METRIC = ResourceType(
    token="gcp:logging/metric:Metric",
    resource=gcp.logging.Metric,
    args=gcp.logging.MetricArgs,
    id="{name}",
    import_id=_import,
    create=created_by(_CREATE),
    read=lambda session, properties: _read(session, _quoted(properties)),
    update=lambda session, old, new, body: _update(session, old, _quoted(new), body),
    delete=lambda session, properties: _delete(session, _quoted(properties)),
    auto_name=AutoName(max_length=catalog.monitoring().metric_name_max),
    dry_run=validated_by(_CREATE),
    defaults={"metricDescriptor.labels.valueType": "STRING", "metricDescriptor.unit": "1"},
    replace_on=frozenset({"metricDescriptor.labels.key", "metricDescriptor.labels.valueType", "project"}),
    computed=frozenset({"deletionPolicy", "metricDescriptor", "project"}),
    table=Table(local=frozenset({"deletionPolicy", "project"})),
    derive=_derive,
)
