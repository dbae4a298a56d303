"""`trtllm-serve` with its options from the command line: it takes those of speculation from a file only.

    python -P with_options.py JSON ARGUMENT ...

JSON is the options, which are YAML too; the arguments are those of `trtllm-serve`.
"""

import os
import sys
import tempfile


def main(options: str, *arguments: str) -> None:
    """Become `trtllm-serve`; the file stays for the processes that it starts."""
    with tempfile.NamedTemporaryFile("w", prefix="trtllm-", suffix=".yaml", delete=False) as file:
        file.write(options)
    os.execvp("trtllm-serve", ["trtllm-serve", *arguments, "--config", file.name])


if __name__ == "__main__":
    main(*sys.argv[1:])
