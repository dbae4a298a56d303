"""What several tests of the pocket models share."""

import pytest

from specbook.pocket.corpus import DOMAINS, train_examples
from specbook.pocket.tokenizer import train_tokenizer


@pytest.fixture(scope="session")
def pocket_tokenizer():
    """Learnt from less text than the shipped one, with the same special tokens."""
    return train_tokenizer(e for domain in DOMAINS for e in train_examples(domain, 1200, seed=0))
