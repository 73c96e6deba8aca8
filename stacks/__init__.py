"""What is deployed: one thin module a stack. A module loads its configuration, builds components, exports outputs."""
