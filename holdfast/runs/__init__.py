"""Runs of a training job, whichever service runs it: submitted, followed, read, cancelled."""
