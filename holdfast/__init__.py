"""The operator's command: long training jobs on scarce accelerators, and their rehearsal before money is spent."""
