"""What figures and tables show, in words: a module per chapter, written from the same tables."""
