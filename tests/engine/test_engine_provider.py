"""The engine's protocol where the stacks do not reach: imports, replacements, several versions of the provider."""

import json

import pytest
from pulumi_rig import PROJECT, Rig

from mockgcp.cloud import DEFAULT_OWNER

pytestmark = pytest.mark.engine

PROGRAM = """
import pulumi
import pulumi_gcp as gcp

location = pulumi.Config().require("location")
labels = {"team": "ml"}
bucket = gcp.storage.Bucket("it", name="there-already", location=location, labels=labels, force_destroy=True)
newer = gcp.storage.Bucket("newer", location=location, opts=pulumi.ResourceOptions(version="10.5.0"))
reader = {"role": "roles/storage.objectViewer", "member": "user:a@example.com"}
gcp.storage.BucketIAMMember("reader", bucket=bucket.name, **reader)
pulumi.export("looked_up", gcp.storage.Bucket.get("seen", bucket.name).url)
pulumi.export("number", gcp.organizations.get_project().number)
"""


def test_import_replace_and_generated_names(fresh: Rig) -> None:
    cloud = fresh.cloud
    cloud.projects[0].services.update(("cloudresourcemanager.googleapis.com", "storage.googleapis.com"))
    body = {"name": "there-already", "location": "US-CENTRAL1", "labels": {"team": "ml"}}
    cloud.call("storage.buckets.insert", {"project": PROJECT}, body, DEFAULT_OWNER)
    pulumi = fresh.program("imported", PROGRAM, {"imported:location": "us-central1"})
    given = ("--yes", "--generate-code=false", "--protect=false", "--skip-preview")
    pulumi.run("import", "--stack", "dev", *given, "gcp:storage/bucket:Bucket", "it", "there-already")
    assert fresh.changed() == ["storage.buckets.insert"]

    made = pulumi.operate("up", "dev")
    # Only what no API keeps (forceDestroy) is new to the imported bucket.
    assert made.changes.get("replace", 0) == made.changes.get("delete", 0) == 0
    assert "warning" not in made.stdout
    outputs = pulumi.outputs("dev")
    assert outputs == {"looked_up": "gs://there-already", "number": str(cloud.projects[0].number)}
    pulumi.operate("refresh", "dev")
    assert pulumi.operate("up", "dev").changed == 0

    [generated] = cloud.table("storage.bucket").keys() - {"there-already"}
    assert generated.startswith("newer-")
    before = len(fresh.changed())
    pulumi.run("config", "set", "--stack", "dev", "imported:location", "europe-west4")
    pulumi.operate("up", "dev")
    calls = [
        (entry.method, entry.params.get("bucket") or entry.request["name"])
        for entry in cloud.audit.entries("storage.buckets.[di]*", ok=True)
    ][1:]
    fixed = [method for method, name in calls if name == "there-already"]
    assert fixed == ["storage.buckets.delete", "storage.buckets.insert"]
    assert len(fresh.changed()) > before
    assert {bucket["location"] for bucket in cloud.table("storage.bucket").values()} == {"EUROPE-WEST4"}
    # The other one's name was generated: its replacement has a new one and stands before the old one goes.
    [again] = cloud.table("storage.bucket").keys() - {"there-already"}
    assert again != generated
    assert calls.index(("storage.buckets.insert", again)) < calls.index(("storage.buckets.delete", generated))

    pulumi.operate("destroy", "dev")
    assert cloud.table("storage.bucket") == {}
    assert json.loads(pulumi.run("stack", "export", "--stack", "dev"))["deployment"].get("resources", []) == []


TWO_PROJECTS = """
import pulumi
import pulumi_gcp as gcp

own = gcp.Provider("own", project="other-project")
gcp.storage.Bucket("here", location="us-central1", name="here-bucket")
gcp.storage.Bucket("there", location="us-central1", name="there-bucket", opts=pulumi.ResourceOptions(provider=own))
gcp.storage.Bucket("again", location="us-central1", name="again-bucket")
"""


def test_a_provider_of_the_programs_own_has_its_own_project(fresh: Rig) -> None:
    cloud = fresh.cloud
    other = cloud.seed_project("other-project")
    for project in cloud.projects:
        project.services.add("storage.googleapis.com")
    pulumi = fresh.program("two", TWO_PROJECTS)
    pulumi.operate("up", "dev")
    owners = {name: bucket["projectNumber"] for name, bucket in cloud.table("storage.bucket").items()}
    mine = str(cloud.projects[0].number)
    assert owners == {"here-bucket": mine, "there-bucket": str(other.number), "again-bucket": mine}
    pulumi.operate("destroy", "dev")
    assert cloud.resources() == []
