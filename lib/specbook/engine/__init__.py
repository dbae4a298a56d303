"""One module per engine: configuration -> command line and environment, and a server as a context manager."""
