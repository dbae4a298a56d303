"""What else was busy while a window was open."""

import os
import subprocess
import sys
import time

from specbook.measure.utilisation import Sampler

SPIN = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: pass"


def sampled(engine_pids, seconds=1.5):
    with Sampler(lambda: engine_pids, os.getpid()) as sampler:
        time.sleep(seconds)
    return sampler.result()


def test_a_program_that_is_not_the_engine_is_foreign_and_the_engine_is_not():
    spinning = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        time.sleep(0.5)
        foreign, own = sampled([]), sampled([spinning.pid])
    finally:
        spinning.kill()
        spinning.wait()
    assert own.engine_cpu_cores > 0.1
    assert foreign.engine_cpu_cores is None
    assert foreign.foreign_cpu_cores > 0.1
    assert own.foreign_cpu_cores <= os.cpu_count() - own.engine_cpu_cores + 0.1
