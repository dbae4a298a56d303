"""Makes the fixtures of this folder known to pytest."""

from deploy_fixtures import control_plane, kubelet, oldest_kubectl, on_top, promtool, with_component

__all__ = ["control_plane", "kubelet", "oldest_kubectl", "on_top", "promtool", "with_component"]
