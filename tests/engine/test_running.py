"""A server that others started: its address, its models, its release of counters, as the world has them."""

import json
import re

import httpx
import pytest
from test_client import METRICS, MODELS, serving

from specbook.engine import counters
from specbook.engine.connection import address, failure, read_api_key, refusal
from specbook.engine.running import Running
from specbook.engine.vllm import telemetry
from specbook.errors import ConfigError, EngineError

TWO = {"/v1/models": json.dumps({"data": [{"id": "small"}, {"id": "large"}]})}


@pytest.mark.parametrize("tail", ["/v1/chat/completions", "/v1/completions", "/v1/models", "/v1/"])
def test_an_endpoint_in_place_of_an_address(tail):
    with serving(MODELS) as url:
        assert Running(url + tail).client.url == url


@pytest.mark.parametrize("tail", ["", "/v1"])
def test_a_prefix_of_the_path(tail):
    with serving({"/gate/v1/models": MODELS["/v1/models"], "/gate/metrics": METRICS}) as url:
        running = Running(f"{url}/gate{tail}")
        assert (running.client.base_url, running.client.model) == (f"{url}/gate/v1", "mine")
        assert running.title.startswith("vLLM at")


def test_an_api_without_v1():
    with serving({"/models": MODELS["/v1/models"]}) as url:
        assert Running(url).client.base_url == url


def test_one_of_several_models_may_be_named():
    with serving(TWO) as url:
        assert Running(url).client.model == "small"
        assert "the first of 2 models: --model names another" in Running(url).title
        chosen = Running(url, model="large")
        assert (chosen.client.model, chosen.title) == ("large", f"a server at {url}, large")
        with pytest.raises(ConfigError, match=r"no model 'larg'.*'large'"):
            Running(url, model="larg")


def test_a_gateway_without_a_list_takes_a_named_model():
    with serving({}) as url:
        assert Running(url, model="mine").client.model == "mine"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://" + "me:secret" + "@host:1", "given with a password"),
        ("http://host:1/v1?key=k", "has a query"),
    ],
)
def test_an_address_that_would_show_a_key(url, message):
    with pytest.raises(ConfigError, match=message) as error:
        address(url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("code", "headers", "body", "words"),
    [
        (401, {}, "", "401: it wants a key: --api-key-file"),
        (403, {}, '{"error": {"message": "not yours"}}', "may not do this.*It says: not yours"),
        (404, {}, "", "the prefix of its path"),
        (429, {"retry-after": "7"}, "", "too many requests.*it says for 7 s"),
        (503, {}, "<html><style>p {}</style><p>busy</p></html>", "no server is ready yet.*It says: busy"),
        (307, {"location": "https://else"}, "", "redirects to https://else: give that address"),
    ],
)
def test_each_refusal_is_one_line(code, headers, body, words):
    line = refusal(httpx.Response(code, headers=headers, text=body), None)
    assert re.search(words, line), line
    assert "\n" not in line


def test_a_key_that_a_server_quotes_stays_hidden():
    line = refusal(httpx.Response(401, text='{"error": {"message": "bad key k-123"}}'), "k-123")
    assert "k-123" not in line
    assert "and not this one" in line


@pytest.mark.parametrize(("text", "key"), [("k-1\n", "k-1"), ("Bearer k-1", "k-1"), ("\ufeffk-1", "k-1")])
def test_a_key_is_read_as_people_save_it(tmp_path, text, key):
    (tmp_path / "key").write_text(text)
    assert read_api_key(tmp_path / "key") == key


@pytest.mark.parametrize(
    ("text", "message"), [("a b", "has spaces"), ("é", "beyond ASCII"), ("", "is empty")]
)
def test_a_key_that_cannot_be_sent(tmp_path, text, message):
    (tmp_path / "key").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_api_key(tmp_path / "key")


def test_a_file_without_certificates(tmp_path):
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(ConfigError, match=r"--ca .* holds no certificates"):
        Running("https://127.0.0.1:1", ca=tmp_path / "ca.pem")


def test_https_at_a_server_without_it():
    with serving(MODELS) as url, pytest.raises(EngineError, match=r"does not speak TLS.*https, or http"):
        Running(url.replace("http:", "https:"))


def test_a_failure_has_its_reason():
    assert "is there a firewall" in failure(httpx.ConnectTimeout(""))
    assert failure(httpx.UnsupportedProtocol("")) == "an address begins with http:// or https://"


# counters


def shown(text, model="m2"):
    return telemetry.page_counters(text, model)


RELEASES = {
    "as today": METRICS,
    "without `_total`": METRICS.replace("_total", ""),
    "the older name of cache hits": METRICS.replace("vllm:prefix_cache", "vllm:gpu_prefix_cache"),
    "through Ray Serve": METRICS.replace("vllm:", "ray_vllm_"),
    "an exporter without colons": METRICS.replace("vllm:", "vllm_"),
    "other metrics beside": f"python_info 1\n{METRICS}\nnot a metric at all\n",
    "an exemplar": METRICS.replace('model_name="m2"} 162.0', 'model_name="m2"} 162.0 # {a="b"} 1.0'),
    "no hits of a cache": "\n".join(line for line in METRICS.splitlines() if "prefix_cache" not in line),
}


@pytest.mark.parametrize("page", RELEASES.values(), ids=RELEASES)
def test_any_release_is_a_vllm(page):
    counted = shown(page)
    assert counted.lacks is None
    assert (counted.spec_decode.num_drafts, counted.server.generation_tokens) == (162, 1920)
    assert counted.spec_decode.num_accepted_tokens_per_pos == (24, 0, 0, 0)


def test_several_engines_are_added_up():
    counted = shown(METRICS + METRICS.replace('engine="0"', 'engine="1"'))
    assert (counted.spec_decode.num_drafts, counted.server.requests_finished) == (324, 120)


def test_each_model_has_counters_of_its_own():
    both = METRICS + METRICS.replace('"m2"', '"m3"')
    assert shown(both).spec_decode.num_drafts == 162
    assert shown(both, "m4").lacks == "model 'm4': they are of m2, m3"


def test_what_a_release_lacks_is_named():
    less = "\n".join(line for line in METRICS.splitlines() if "num_draft_tokens" not in line)
    assert "spec_decode_num_draft_tokens" in shown(less).lacks
    assert shown("vllm:num_requests_running 0\n").lacks


@pytest.mark.parametrize("page", ["", "<html>", "sglang:num_requests 1\n", "gpu_prefix_cache_hits_total 1\n"])
def test_another_page_is_no_vllm(page):
    assert shown(page) is None


def test_a_page_of_another_process_is_no_pair():
    old, new = (shown(f"process_start_time_seconds {start}\n{METRICS}") for start in (1, 2))
    with pytest.raises(EngineError, match="another process counts than before"):
        counters.delta(old, new)


def test_counters_that_did_not_move_are_not_this_answers():
    still = counters.delta(shown(METRICS), shown(METRICS))
    assert "did not move with this answer" in counters.not_of(still, 5)
    more = METRICS.replace('length",model_name="m2"} 60.0', 'length",model_name="m2"} 61.0')
    grown = counters.delta(shown(METRICS), shown(more))
    assert "tell of 0 output tokens, and this answer had 5" in counters.not_of(grown, 5)
    assert counters.not_of(grown, None) is None
