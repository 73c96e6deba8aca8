"""The policy pack's program: serves the rules to the engine, each of them mandatory."""

from pulumi_policy import EnforcementLevel, PolicyPack

from policies.pack import POLICIES

if __name__ == "__main__":
    PolicyPack(name="holdfast", enforcement_level=EnforcementLevel.MANDATORY, policies=POLICIES)
