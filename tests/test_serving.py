import pandas as pd

from specbook import serving


def test_saturation_is_the_highest_rate_that_was_served():
    table = pd.DataFrame(
        {"arm": "baseline", "domain": ["json"] * 3 + ["code"], "rate_per_s": [2.0, 4.0, 8.0, 2.0],
         "served_per_s": [2.0, 3.9, 5.0, 1.0]}
    )  # fmt: skip
    found = serving.saturation(table).set_index("domain")["held_per_s"]
    assert found["json"] == 4.0
    assert pd.isna(found["code"])
