import pandas as pd

from factories import point, rows, write_run
from specbook import serving
from specbook.config import Load


def test_saturation_is_the_highest_rate_that_was_served():
    table = pd.DataFrame(
        {"arm": "baseline", "domain": ["json"] * 3 + ["code"], "rate_per_s": [2.0, 4.0, 8.0, 2.0],
         "arrived_per_s": [2.1, 4.0, 7.8, 2.0], "served_per_s": [2.0, 3.9, 5.0, 1.0]}
    )  # fmt: skip
    found = serving.saturation(table).set_index("domain")["held_per_s"]
    assert found["json"] == 4.0
    assert pd.isna(found["code"])


def test_a_server_that_keeps_up_is_not_blamed_for_the_wait_for_its_last_answers(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    load = Load(request_rate_per_s=1, num_requests=10, num_warmups=0)
    slow = rows(10).assign(e2e_s=5.0)  # one request a second, each answered after five
    behind = rows(10).assign(e2e_s=[5.0 + i for i in range(10)])  # each waits a second longer than the last
    for requests, held in ((slow, 1.0), (behind, None)):
        run = write_run(point().model_copy(update={"load": load}), 2.0, requests=requests)
        table = serving.poisson([run])
        assert table["arrived_per_s"].tolist() == [1.0]
        found = serving.saturation(table)["held_per_s"].iloc[0]
        assert found == held if held else pd.isna(found)
