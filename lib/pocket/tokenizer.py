"""A byte-level BPE tokenizer of 4096 entries, trained on the corpus, with Qwen's turn markers."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from pocket.corpus.example import Example

VOCAB_SIZE = 4096
PAD, START, END, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"
MASK_ID = 3
"""What a head that drafts in parallel reads where no token is known yet: in SmolLM2's
vocabulary, too, no text has it."""
CONTEXT_TOKENS = 1024
"""Longest sequence the tokenizer announces, in tokens."""
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def train_tokenizer(examples: Iterable[Example]) -> PreTrainedTokenizerFast:
    """Learn merges from prompts and answers.

    Args:
        examples: training examples only; a few thousand per domain are enough.

    Returns:
        A tokenizer of exactly `VOCAB_SIZE` entries; pad, start, end and mask are ids 0 to 3.

    Raises:
        ValueError: if the text is too small to fill the vocabulary.
    """
    tokenizer = _untrained()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[PAD, START, END, MASK],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # The roles' names should be single tokens too.
    turns = (text for e in examples for text in (f"user\n{e.prompt}\nassistant\n", e.answer))
    tokenizer.train_from_iterator(turns, trainer)
    if tokenizer.get_vocab_size() != VOCAB_SIZE:
        raise ValueError(f"{tokenizer.get_vocab_size()} entries learnt, {VOCAB_SIZE} needed: give more text")
    return _wrap(tokenizer)


def encode_example(tokenizer: PreTrainedTokenizerBase, example: Example) -> tuple[list[int], int]:
    """Token ids of a full turn, and how many of them are the prompt.

    The prompt's ids are those `apply_chat_template` gives a server, generation prompt included; the answer is
    encoded apart, as a model emits it, and ends with `<|im_end|>`.
    """
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": example.prompt}], add_generation_prompt=True, tokenize=False
    )
    prompt_ids = tokenizer.encode(prompt, add_special_tokens=False)
    answer_ids = tokenizer.encode(example.answer, add_special_tokens=False)
    return [*prompt_ids, *answer_ids, tokenizer.eos_token_id], len(prompt_ids)


def _untrained() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    # Digits first: a number is spelt digit by digit, which is how a small model learns to add.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START, MASK],
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
    )
