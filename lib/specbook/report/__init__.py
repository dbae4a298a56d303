"""The book. In: records and tables. Out: figures, sentences, executed notebooks and HTML."""
