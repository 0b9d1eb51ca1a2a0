"""Classes of a user's own, written from the published contracts alone; nothing here imports from inside the package."""
