"""The trainer's image: its source as an archive, its build on Cloud Build, and the same build on this machine."""
