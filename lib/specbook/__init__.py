"""Measure what speculative decoding does to LLM serving, and keep the records that prove it."""

import os
import resource
import sys

__version__ = "0.1.0"

if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
    # Under `ulimit -f` Python leaves half-written bytecode, on which every later import fails. That of this
    # file is smaller than the smallest limit that a shell can set.
    sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"
