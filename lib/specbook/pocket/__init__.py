"""Pocket models: corpus, tokenizer and checkers small enough to train target and drafts on a CPU."""
