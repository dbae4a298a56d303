"""Mistakes a user can fix: shown as one line, never as a traceback."""


class SpecbookError(Exception):
    """A problem whose message holds the offending value and what to do about it."""


class ConfigError(SpecbookError):
    """A plan, profile or parameter that cannot be used as it is written."""


class EngineError(SpecbookError):
    """A server that crashed, never became ready, or went away while it was measured."""


class RefusedError(EngineError):
    """A request that a server will not answer, such as a prompt longer than its context; others it may."""


class HangError(EngineError):
    """A server that runs, and does nothing: only a new one will."""


class RecordError(SpecbookError):
    """A record that cannot be read or written."""


class ClusterError(SpecbookError):
    """A Kubernetes cluster that cannot be reached, refuses, or does not get where it was told to go."""
