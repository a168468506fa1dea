"""A tiny random Llama with a small tokenizer, made in a second from nothing: for tests and trials.

It knows nothing, but it has what real models have: a chat template, byte-level BPE with split digits, tied embeddings,
grouped key/value heads. The same seed gives the same weights; the global random state is left as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CHATML_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

#: What the byte pairs are learned from: the words of toolcredit's prompts, so that these stay short.
_TEXT = """
You are an expert at selecting tools for genomic reasoning. You have access to tools indexed from zero. Select the
tools to call for the question and answer with a comma-separated list of the indices, empty if none. Which of these
options is right? Answer with the letter of one option only. system user assistant type tool tools
<answer></answer> <answer>0,3</answer> <think></think>
<tool_call> {"name": "get_record", "arguments": {"id": 1, "query": "text", "date": "2024-01-01"}} </tool_call>
<tool_response> {"result": [], "error": null, "status": "ok", "items": [{"value": true}]} </tool_response>
Sequence question promoter enhancer splice site donor acceptor neither exon intron histone motif transcription factor
taxonomy species human mouse yeast worm fly bacteria virus region evidence statistics scanner analyzer expert homology
"""


#: A made-up name of the embedded easy tier is two syllables. Each of its letters is a token of its own, so that it
#: consists of the same few tokens wherever it stands and can be copied. `name` itself is a key of every call.
_C, _V = "[bdfgklmnprstvz]", "[aeiou]"
_LETTER_OF_NAME = (
    rf"\bname\b|\b{_C}(?={_V}{_C}{_V}\b)|(?<=\b{_C}){_V}(?={_C}{_V}\b)|(?<=\b{_C}{_V}){_C}(?={_V}\b)"
    rf"|(?<=\b{_C}{_V}{_C}){_V}\b"
)

#: One token each, as in the tokenizers of real models that call tools.
_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

#: What the byte pairs of `tiny-chat` are learned from: the wordings of the embedded easy tier.
_CHAT_TEXT = """
system user assistant
Tools:
price(thing) weight(thing) maker(thing) road(start, goal) fare(start, goal) home(person) phone(person) job(person)
king(country) height(mountain)
What does the cost? How much is the? The costs.
What does the weigh? How heavy is the? The weighs grams.
Which maker built the? Who makes the? The is made by.
How far is it from to by road? How long is the road from to? The road from to is miles long.
What does the bus from to cost? How much is the fare from to? The bus from to costs.
In which city is at home? Where does live? lives in.
How can I call? What is the number of? The number of is.
What is the job of? What does work as? The job of is.
Which king rules? Who is the king of? The king of is.
How high is mount? What is the height of mount? Mount is metres high.
<tool_call>
{"name": "price", "arguments": {"thing": "baba"}}
{"name": "weight", "arguments": {"thing": "baba"}}
{"name": "maker", "arguments": {"thing": "baba"}}
{"name": "road", "arguments": {"start": "baba", "goal": "baba"}}
{"name": "fare", "arguments": {"start": "baba", "goal": "baba"}}
{"name": "home", "arguments": {"person": "baba"}}
{"name": "phone", "arguments": {"person": "baba"}}
{"name": "job", "arguments": {"person": "baba"}}
{"name": "king", "arguments": {"country": "baba"}}
{"name": "height", "arguments": {"mountain": "baba"}}
</tool_call>
<tool_response>
{"price": 1} {"grams": 1} {"miles": 1} {"city": "baba"} {"number": 1} {"name": "baba"} {"job": "baba"} {"metres": 1}
</tool_response>
"""


def tiny_tokenizer(size: int = 512, text: str = _TEXT, isolated: str | None = None, added: Sequence[str] = ()) -> Any:
    """A byte-level BPE tokenizer with a ChatML template; every text survives encoding and decoding.

    Args:
        size: most tokens.
        text: what the byte pairs are learned from, line by line.
        isolated: pattern of what is split off from the text around it.
        added: texts that are one token each, beyond `size`.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    splits = [] if isolated is None else [pre_tokenizers.Split(Regex(isolated), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.splitlines(), trainer)
    tokenizer.add_tokens([AddedToken(one, normalized=False) for one in added])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    fast.chat_template = CHATML_TEMPLATE
    return fast


EMBEDDING_SCALE = 0.25


def tiny_model(seed: int = 0) -> tuple[Any, Any]:
    """A random Llama (4 layers of 64, 0.2 million weights, float32) and its tokenizer.

    Args:
        seed: of the weights.

    Returns:
        (model, tokenizer)
    """
    return _random_llama(tiny_tokenizer(), seed, width=64, inner=128, embedding_scale=EMBEDDING_SCALE)


def tiny_chat_model(seed: int = 0) -> tuple[Any, Any]:
    """A random Llama (4 layers of 128, 0.8 million weights, float32) and a tokenizer of some 470 tokens.

    Made to be trained from scratch to call the tools of the embedded easy tier. Its weights are as large as the inverse
    square root of the width: with the usual 0.02, meant for wide models, attention is nearly uniform for hundreds of
    updates, and copying is learned four times later.

    Args:
        seed: of the weights.

    Returns:
        (model, tokenizer)
    """
    tokenizer = tiny_tokenizer(600, _CHAT_TEXT, isolated=_LETTER_OF_NAME, added=_TAGS)
    return _random_llama(tokenizer, seed, width=128, inner=384, embedding_scale=0.1, scale=0.08)


def _random_llama(
    tokenizer: Any, seed: int, *, width: int, inner: int, embedding_scale: float, scale: float = 0.02
) -> tuple[Any, Any]:
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    special = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("bos", "eos", "pad")}
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=tokenizer.model_max_length,
        tie_word_embeddings=True,
        initializer_range=scale,
        **special,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        # As long as a real model's: with the usual tiny ones no adapter could ever make a token likely.
        torch.nn.init.normal_(model.model.embed_tokens.weight, std=embedding_scale)
    model.generation_config = GenerationConfig(**special)
    return model.eval(), tokenizer
