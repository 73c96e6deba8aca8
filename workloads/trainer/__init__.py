"""A small JAX trainer that can be killed at any moment and resumes exactly where it stopped.

Run it with `python -m workloads.trainer`. `--help` prints its contract; docs/decisions/0004-trainer-contract.md has the
reasons.
"""
