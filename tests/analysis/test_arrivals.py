import pandas as pd

from factories import point, rows, write_run
from specbook.analysis import latency
from specbook.config.schema import Load


def test_saturation_is_the_highest_rate_without_a_queue():
    table = pd.DataFrame(
        {"arm": "baseline", "domain": ["json"] * 3 + ["code"], "rate_per_s": [2.0, 4.0, 8.0, 2.0],
         "queue_wait_s": [0.0, 0.01, 0.5, 0.3], "e2e_p50_s": [0.5, 0.5, 1.0, 0.5]}
    )  # fmt: skip
    found = latency.saturation(table).set_index("domain")["held_per_s"]
    assert found["json"] == 4.0
    assert pd.isna(found["code"])


def test_the_output_pace_excludes_the_last_answers_wait(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    load = Load(request_rate_per_s=1, num_requests=10, num_warmups=0)
    slow = rows(10).assign(e2e_s=5.0)  # one request a second, each answered after five
    behind = rows(10).assign(e2e_s=[5.0 + i for i in range(10)])  # each waits a second longer than the last
    for requests, served in ((slow, 1.0), (behind, 0.5)):
        run = write_run(point().model_copy(update={"load": load}), 2.0, requests=requests)
        table = latency.poisson([run])
        assert table["arrived_per_s"].tolist() == [1.0]
        assert table["served_per_s"].tolist() == [served]
