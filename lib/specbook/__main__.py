"""`python -m specbook`: the command line where nothing is installed and PYTHONPATH says where it lies."""

from specbook.cli.entry import main

main()
