"""What a stage of training takes: the time of each step, memory and disk."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from specbook import paths
from specbook.bench.experiments import register
from specbook.config.schema import Frozen, Name
from specbook.errors import ConfigError
from specbook.records.experiment_results import TrainingStep, TrainingTimes

REPORT = re.compile(r"[\w.-]+: ")
"""What a line begins with that a stage reports; the trainer's own output goes among them."""


class Training(Frozen):
    """A stage of `specbook train`, run where nothing of it was made before."""

    stage: Name


@register("training", Training, TrainingTimes)
def time_training(asked: Training) -> TrainingTimes:
    """Run the stage in a copy of the project that has no `build/`: all of it is fetched and made anew.

    Raises:
        ConfigError: if the stage is unknown or fails, with what it said last.
    """
    with tempfile.TemporaryDirectory(prefix="training-", dir=paths.scratch("logs")) as scratch:
        root = _without_build(Path(scratch))
        command = [sys.executable, "-u", "-m", "specbook", "train", asked.stage]
        environment = os.environ | {"SPECBOOK_ROOT": scratch}
        with (root / "stderr").open("w+") as log:
            began = time.monotonic()
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
            assert process.stdout is not None
            reports = [(line.strip(), time.monotonic()) for line in process.stdout if REPORT.match(line)]
            _, status, usage = os.wait4(process.pid, 0)  # of this process and its servers alone
            ended = time.monotonic()
            if status:
                log.seek(0)
                errors = [line.strip() for line in log if line.strip()]
                raise ConfigError(f"`specbook train {asked.stage}` failed: {' '.join(errors[-3:])}")
        disk = sum(path.lstat().st_size for path in (root / "build").rglob("*"))
    starts = [began, *(at for _, at in reports[1:]), ended]
    steps = [
        TrainingStep(name=line.replace(f"{root}/", ""), seconds=round(end - start, 1))
        for (line, _), start, end in zip(reports, starts, starts[1:], strict=False)
    ]
    return TrainingTimes(steps=tuple(steps), peak_rss_bytes=usage.ru_maxrss * 1024, disk_bytes=disk)


def _without_build(root: Path) -> Path:
    """The project in another folder: links to all that a stage reads, and a copy of `models/`, where it may
    write."""
    for entry in paths.root().iterdir():
        if entry.name not in ("build", "models"):
            (root / entry.name).symlink_to(entry)
    shutil.copytree(paths.models_dir(), root / "models")
    return root
