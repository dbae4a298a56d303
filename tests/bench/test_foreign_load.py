"""What else was busy while a window was open."""

import os
import subprocess
import sys
import time

import psutil

from specbook.bench.utilisation import Sampler

SPIN = "import time; end = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
WORKS_S = 0.5
"""Of processor time, however long that takes where others are busy too."""


def sampled(engine_pids, spinning):
    with Sampler(lambda: engine_pids, os.getpid()) as sampler:
        until = cpu_s(spinning) + WORKS_S
        while cpu_s(spinning) < until and spinning.poll() is None:
            time.sleep(0.1)
    return sampler.result(), sampler._seconds


def cpu_s(process):
    return sum(psutil.Process(process.pid).cpu_times()[:2])


def test_a_program_that_is_not_the_engine_is_foreign_and_the_engine_is_not():
    spinning = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        (foreign, first_s), (own, second_s) = sampled([], spinning), sampled([spinning.pid], spinning)
    finally:
        spinning.kill()
        spinning.wait()
    assert foreign.engine_cpu_cores is None
    assert foreign.foreign_cpu_cores * first_s > 0.8 * WORKS_S
    assert own.engine_cpu_cores * second_s > 0.8 * WORKS_S
    assert own.foreign_cpu_cores <= os.cpu_count() - own.engine_cpu_cores + 0.1
