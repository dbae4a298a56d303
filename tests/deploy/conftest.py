"""Makes the fixtures of this folder known to pytest."""

from deploy_fixtures import promtool, with_component

__all__ = ["promtool", "with_component"]
