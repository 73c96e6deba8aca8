"""The policy pack's program: serves the rules to the engine, each with its own enforcement level."""

from pulumi_policy import PolicyPack

from policies.pack import POLICIES

if __name__ == "__main__":
    PolicyPack(name="holdfast", policies=POLICIES)
