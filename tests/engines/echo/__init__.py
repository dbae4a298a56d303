"""A second engine in one folder: it says again what it was told, a few words at a time."""

import json
import sys
from pathlib import Path

from specbook.engine.base import Build, Check, Counters, Pulse, register
from specbook.records.run import ServerCounters, SpecDecodeCounters


class Echo:
    name, title, packages = "echo", "Echo", ()
    key_variable, health_path, counters_path = "ECHO_KEY", "/up", "/counts"
    lock_arguments, load_tool, profiler = (), None, None

    def build(self):
        return Build("echo", "1", "cpu")

    def knows(self, method):
        return method.name == "ngram"

    def refusal(self, target, speculation):
        if speculation and not self.knows(speculation.drafting):
            return f"Echo cannot draft by {speculation.method!r}: use ngram"
        return None

    def command(self, target, speculation, port):
        k = speculation.num_speculative_tokens if speculation else 0
        script = str(Path(__file__).with_name("serve.py"))
        return [sys.executable, "-IS", script, str(port), str(k), *target.extra_args]

    def environment(self, target, speculation):
        return {"ECHO_LOUD": "0"}

    def counters(self, text):
        said = json.loads(text)
        server = ServerCounters(
            prompt_tokens=said["heard"], generation_tokens=said["said"], requests_finished=said["answers"],
            prefix_cache_hits=0, preemptions=0, queue_time_s=0.0,
        )  # fmt: skip
        places = said["guessed_right_by_place"]
        return Counters(
            server,
            SpecDecodeCounters(
                num_drafts=said["guesses"], num_draft_tokens=said["guesses"] * len(places),
                num_accepted_tokens=sum(places), num_accepted_tokens_per_pos=tuple(places),
            ) if places else None,
        )  # fmt: skip

    def page_counters(self, text, model):
        return self.counters(text) if '"guessed_right_by_place"' in text else None

    def pulse(self, text):
        return Pulse((text,), requests=0, mean_prefill_s=0)

    def last_words(self, log):
        return log.read_text().strip().rpartition("\n")[2]

    def checks(self):
        return [Check.optional("voice", "loud", "speak up")]


register(Echo())
