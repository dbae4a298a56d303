"""The command line. In: arguments. Out: text, files and an exit status."""
