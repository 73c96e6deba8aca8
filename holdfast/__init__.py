"""Holdfast: long training jobs on scarce Google Cloud accelerators, and the rehearsal of them. The operator's command."""
