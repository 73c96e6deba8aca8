"""How Holdfast is built: component resources, the names they use, and the catalog of the platform's limits."""
