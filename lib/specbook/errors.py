"""Mistakes a user can mend: shown as one line, never as a traceback."""


class SpecbookError(Exception):
    """A problem whose message holds the offending value and what to do about it."""


class ConfigError(SpecbookError):
    """A plan, profile or parameter that cannot be used as it is written."""


class EngineError(SpecbookError):
    """A server that crashed, never became ready, or went away while it was measured."""


class RecordError(SpecbookError):
    """A record that cannot be read or written."""
