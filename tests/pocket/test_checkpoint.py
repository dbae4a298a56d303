"""A checkpoint is read as numbers: a file that holds code is refused, and the code is not run."""

import pickle

import pytest

from pocket import checkpoint
from pocket.study import BASE
from specbook.errors import ConfigError


class Code:
    """Unpickled, it makes the file that it was given."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_checkpoint_that_is_code_is_not_run(tmp_path):
    (tmp_path / checkpoint.FILE).write_bytes(pickle.dumps(Code(tmp_path / "ran"), protocol=2))
    with pytest.raises(ConfigError, match="is no checkpoint: remove it to start anew"):
        checkpoint.resume(tmp_path, None, (), BASE)
    assert not (tmp_path / "ran").exists()
