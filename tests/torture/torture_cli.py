"""`python torture_cli.py ARGUMENTS`: `specbook` with the echo engine beside vLLM's.

A campaign on it takes seconds, since no model is loaded. Its lock lies in the project, so that
it neither waits for a real campaign nor holds one up.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent


class Shout:
    """A load generator that is ready at once; see `engine.base.LoadTool`."""

    worker = HERE / "torture_load.py"
    environment = {}  # noqa: RUF012
    reads_counters_of = "nothing"

    def arguments(self, point, url, dataset, num_requests, result):
        return [url, point.target.name, str(dataset), str(result), str(point.load.concurrency)]

    def last_words(self, log):
        return "it ended"  # all that it could say it answers


def prepare() -> None:
    """Make the echo engine and its load generator known, and the machine small."""
    from specbook import engine, paths
    from specbook.engine import base

    engine.__path__.append(str(HERE.parent / "engines"))
    engine.import_all()
    base._REGISTRY["echo"].load_tool = Shout()  # "echo" < "vllm": the first tool is taken
    paths.machine_lock = lambda: paths.root() / "measure.lock"

    from specbook.bench import campaign

    campaign.with_peaks = lambda hardware: hardware


if __name__ == "__main__":
    import os

    from specbook.cli import entry

    command = entry._command

    def prepared() -> None:
        try:
            Path(os.environ["TORTURE_BEGUN"]).touch()
            prepare()
        except KeyboardInterrupt:
            entry._end("interrupted.", 130)
        command()

    entry._command = prepared  # so that its handler of Ctrl-C is there before the engine is
    entry.main()
