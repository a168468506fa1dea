"""A small real Llama that can write a handful of turns only, so that all of its rollouts can be listed.

Its vocabulary has a token for each piece of a turn. A part of its hidden states says which token it reads, untouched by
the layers, and its head gives a very low logit to every token that the grammar does not allow after that one. What is
allowed is decided by random attention layers, so probabilities depend on all that was written before.
"""

from __future__ import annotations

import torch
from toolcredit.llm.tiny import tiny_tokenizer

ACT, REPORT, END = "<act>", "<report>", "<|im_end|>"
OPEN, CLOSE, SHUT = '<tool_call>{"name": "', '", "arguments": {"x": "', '"}}</tool_call>'
NAMES = ("pick_red", "pick_blue", "find")
#: what may follow each token; `ghost` is the name of no tool
GRAMMAR = {
    ACT: [OPEN],
    OPEN: ["pick_", "find"],
    "pick_": ["red", "blue"],
    **{name: [CLOSE] for name in ("red", "blue", "find", "ghost")},
    CLOSE: ["aye", "nay"],
    "aye": [SHUT],
    "nay": [SHUT],
    SHUT: [END],
    REPORT: ["good", "bad"],
    "good": [END],
    "bad": [END],
}
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name + ';' }}{% endfor %}"
    "{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ ('<report>' if loop.previtem['role'] == 'tool' else '<act>') + message['content'] + '<|im_end|>' }}"
    "{% else %}{{ message['role'] + ':' + message['content'] + '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<report>' if messages[-1]['role'] == 'tool' else '<act>' }}{% endif %}"
)
WIDTH, OTHER = 64, 40


def save(folder, ghost=False, seed=0):
    """Write the model to a folder; with `ghost` it can also write a name that no tool has."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tiny_tokenizer()
    grammar = {**GRAMMAR, OPEN: [*GRAMMAR[OPEN], "ghost"]} if ghost else GRAMMAR
    pieces = [*GRAMMAR, END]
    tokenizer.add_tokens([piece for piece in pieces if piece != END], special_tokens=False)
    tokenizer.chat_template = TEMPLATE
    ids = dict(zip(pieces, tokenizer.convert_tokens_to_ids(pieces), strict=True))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=WIDTH,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=512,
                tie_word_embeddings=False,
                initializer_range=0.3,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
            )
        )
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[OTHER:] = 0
            layer.mlp.down_proj.weight[OTHER:] = 0
        model.lm_head.weight *= 0.3  # no token is all but certain
        model.model.embed_tokens.weight[:, OTHER:] = 0
        model.lm_head.weight[:, OTHER:] = 0
        for number, (piece, allowed) in enumerate(grammar.items()):
            model.model.embed_tokens.weight[ids[piece], OTHER + number] = 4.0
            model.lm_head.weight[:, OTHER + number] = -100.0
            model.lm_head.weight[[ids[a] for a in allowed], OTHER + number] = 0.0
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name}.",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        },
    }
    for name in NAMES
]


def turns(ghost=False):
    """All (call, report) texts that it can write."""
    names = (*NAMES, "ghost") if ghost else NAMES
    return [
        (f"{OPEN}{name}{CLOSE}{value}{SHUT}", report)
        for name in names
        for value in ("aye", "nay")
        for report in ("good", "bad")
    ]
