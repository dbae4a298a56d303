"""Measuring. In: a plan and a server. Out: records, each on disk before the next point starts."""
