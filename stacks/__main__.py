"""The Pulumi program: finds the module of the stack that is being deployed, and runs it."""

import pulumi

from stacks.choose import choose

if __name__ == "__main__":
    choose(pulumi.get_stack(), pulumi.Config("holdfast").get("stack"))()
