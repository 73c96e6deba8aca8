"""Addresses of pages in a universe's console: what an operator opens next."""

from urllib.parse import quote

from infra.catalog import Universe


def job_url(universe: Universe, project: str, location: str, job_name: str) -> str:
    """A job's executions."""
    return _page(universe, f"run/jobs/details/{location}/{job_name}/executions", project)


def execution_url(universe: Universe, project: str, location: str, execution_name: str) -> str:
    """An execution's tasks, by the execution's short name."""
    return _page(universe, f"run/jobs/executions/details/{location}/{execution_name}/tasks", project)


def logs_url(universe: Universe, project: str, log_filter: str) -> str:
    """The log entries that a filter lets through."""
    return _page(universe, f"logs/query;query={quote(log_filter, safe='')}", project)


def dashboard_url(universe: Universe, project: str, dashboard_id: str) -> str:
    """A dashboard, by its full name or its last part."""
    return _page(universe, f"monitoring/dashboards/builder/{dashboard_id.rpartition('/')[2]}", project)


def bucket_url(universe: Universe, project: str, bucket: str) -> str:
    """A bucket's objects."""
    return _page(universe, f"storage/browser/{bucket}", project)


def cluster_url(universe: Universe, project: str, location: str, cluster_name: str) -> str:
    """A GKE cluster's details."""
    return _page(universe, f"kubernetes/clusters/details/{location}/{cluster_name}/details", project)


def training_clusters_url(universe: Universe, project: str) -> str:
    """The training clusters of a project (unchecked: the documentation names the page, not its address)."""
    return _page(universe, "vertex-ai/training/training-clusters", project)


def _page(universe: Universe, path: str, project: str) -> str:
    return f"https://{universe.console_domain}/{path}?project={quote(project, safe='')}"
