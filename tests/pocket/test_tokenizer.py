import json

import pytest
from transformers import AutoTokenizer

from pocket.corpus import DOMAINS, UNSEEN, held_out, train_examples
from pocket.tokenizer import VOCAB_SIZE, encode_example, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(e for domain in DOMAINS for e in train_examples(domain, 1500, seed=0))


@pytest.fixture(scope="module", params=["alone", "beside a Qwen3 config"])
def reloaded(tokenizer, request, tmp_path_factory):
    """Beside a config AutoTokenizer could pick Qwen's own class, whose digits and merges differ."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    if request.param != "alone":
        config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": VOCAB_SIZE}
        (folder / "config.json").write_text(json.dumps(config))
    return AutoTokenizer.from_pretrained(folder)


def test_exactly_4096_entries_and_fixed_special_ids(tokenizer):
    assert len(tokenizer) == VOCAB_SIZE
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"]
    assert tokenizer.convert_tokens_to_ids(special) == [0, 1, 2, 3]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 2)


@pytest.mark.parametrize(
    "text",
    ["a  b\n\n\tc ", "naïve 東京 🙂", " 12 + 7 = 19", "def f( x ):\n        return x , 1\n", "don 't . stop"],
)
def test_round_trip_of_any_text(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("domain", [*DOMAINS, *UNSEEN])
def test_held_out_text_round_trips_and_fits(tokenizer, domain):
    for example in held_out(domain):
        assert tokenizer.decode(tokenizer.encode(example.answer)) == example.answer
        ids, _ = encode_example(tokenizer, example)
        assert len(ids) <= 400, example.id


def test_every_digit_is_its_own_token(tokenizer):
    tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode("2048 + 17=2065, x86_64"))
    assert [t for t in tokens if any(c.isdigit() for c in t)] == list("204817206586" + "64")


def test_newline_with_indentation_is_one_token_up_to_two_levels(tokenizer):
    for indent in (4, 8):
        # The last space joins the word that follows.
        assert len(tokenizer.encode("\n" + " " * indent + "return")) == 2


@pytest.mark.parametrize("domain", [*DOMAINS, *UNSEEN])
def test_an_example_is_prompt_answer_and_end(tokenizer, domain):
    example = held_out(domain, 1)[0]
    ids, n_prompt = encode_example(tokenizer, example)
    turn = [{"role": "user", "content": example.prompt}]
    served = tokenizer.apply_chat_template(turn, add_generation_prompt=True)
    assert ids[:n_prompt] == list(served["input_ids"])
    assert tokenizer.decode(ids[n_prompt:-1]) == example.answer
    assert ids[-1] == tokenizer.convert_tokens_to_ids("<|im_end|>")


def test_reloaded_tokenizer_agrees(tokenizer, reloaded):
    for domain in DOMAINS:
        for example in held_out(domain, 20):
            assert encode_example(reloaded, example) == encode_example(tokenizer, example)
    assert len(reloaded) == VOCAB_SIZE
    assert reloaded.decode(reloaded.encode("12 , 3 .")) == "12 , 3 ."


def test_too_little_text_is_refused():
    with pytest.raises(ValueError, match="more text"):
        train_tokenizer(train_examples("math", 3, seed=0))
