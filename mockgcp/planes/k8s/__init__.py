"""The parts of the Kubernetes plane: a real control plane, and stand-ins for what GKE keeps outside of it."""
