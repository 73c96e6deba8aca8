"""The slurm stack on the real engine: no change the second time, updates in place, what replaces, import, destroy."""

from __future__ import annotations

import pytest
import yaml
from pulumi_rig import PROJECT, REPOSITORY, Rig, refusal

pytestmark = pytest.mark.engine

STACK = "dev-slurm"
SHIPPED = yaml.safe_load((REPOSITORY / "stacks" / f"Pulumi.{STACK}.yaml").read_text(encoding="utf-8"))["config"]
POOLS, CONFIG = SHIPPED["holdfast:pools"], SHIPPED["holdfast:config"]
TOKEN = "gcp:vertex/aiModelDevelopmentCluster:AiModelDevelopmentCluster"
CLUSTERS = "aiplatform.projects.locations.modelDevelopmentClusters"


def test_the_life_of_the_stack(fresh: Rig) -> None:
    pulumi, cloud = fresh.pulumi, fresh.cloud
    fresh.stack(STACK)
    fresh.init(STACK)
    made = pulumi.operate("up", STACK)
    assert "warning" not in made.stdout
    everything = made.changes["create"]
    assert pulumi.operate("up", STACK).changes == {"same": everything}

    # On a running cluster: another partition, a pool that grows, a key changed and one removed, a script.
    partitions = [{"id": "a3u", "pools": ["a3u"]}, {"id": "urgent", "pools": ["a3u"], "config": {"PriorityTier": "10"}}]
    config = {key: value for key, value in CONFIG.items() if key != "PreemptExemptTime"} | {"PriorityWeightAge": "5"}
    prolog = fresh.sealed.root / "prolog.sh"
    prolog.write_text("#!/bin/bash\ntrue\n", encoding="utf-8")
    fresh.stack(
        STACK,
        partitions=partitions,
        config=config,
        pools=[POOLS[0], {**POOLS[1], "maxNodes": 4}],
        prologScripts=[str(prolog)],
        defaultPartition="urgent",
    )
    before = len(fresh.changed())
    assert pulumi.operate("up", STACK).changes == {"same": everything - 1, "update": 1}
    assert fresh.changed()[before:] == [f"{CLUSTERS}.patch"]
    slurm = pulumi.run("stack", "export", "--stack", STACK)
    assert '"PriorityWeightAge": "5"' in slurm
    assert "PreemptExemptTime" not in slurm
    assert pulumi.operate("refresh", STACK).changed == 0
    assert pulumi.operate("up", STACK).changed == 0

    # What is decided for good replaces the cluster, and the preview says so.
    fresh.stack(STACK, pools=[POOLS[0], {**POOLS[1], "machine": "a4-highgpu-8g"}])
    assert pulumi.operate("preview", STACK).changes.get("replace", 0) == 1
    fresh.stack(STACK, config={**CONFIG, "PriorityType": "multifactor"})
    assert "did you mean priority/multifactor?" in refusal(pulumi, "preview", STACK)

    # Forgotten by the state, and imported again: nothing is made anew.
    fresh.stack(STACK)
    pulumi.operate("up", STACK)
    urn = f"urn:pulumi:{STACK}::holdfast::holdfast:slurm:TrainingCluster${TOKEN}::cluster"
    parent = f"urn:pulumi:{STACK}::holdfast::holdfast:slurm:TrainingCluster::cluster"
    pulumi.run("state", "delete", "--stack", STACK, "--yes", urn)
    given = ("--yes", "--generate-code=false", "--protect=false", "--skip-preview", "--parent", f"owner={parent}")
    cluster = f"projects/{PROJECT}/locations/us-central1/modelDevelopmentClusters/flexvm"
    pulumi.run("import", "--stack", STACK, *given, TOKEN, "cluster", cluster)
    again = pulumi.operate("up", STACK)
    assert again.changes.get("create", 0) == again.changes.get("replace", 0) == 0

    pulumi.operate("destroy", STACK)
    assert cloud.resources() == []
