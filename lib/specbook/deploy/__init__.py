"""Kubernetes. In: overlays of `deploy/`. Out: objects on a cluster, and a report of what happened to them.

Nothing here knows an engine or a record: manifests are plain YAML, and numbers come from their annotations.
"""
