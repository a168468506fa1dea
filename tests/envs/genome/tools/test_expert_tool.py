"""The expert: votes, what may vote, and a transformers encoder that is built here."""

import hashlib
import random

import numpy as np
import pytest
from toolcredit.envs.genome.questions import PublicQuestion
from toolcredit.envs.genome.sequence import reverse_complement
from toolcredit.envs.genome.tools import Reference, make_tool
from toolcredit.envs.genome.tools.embedders import KmerSpectrum
from toolcredit.envs.genome.tools.expert import GenomicExpert, low_complexity, margin, vote_shares
from toolcredit.errors import UsageError


def dna(seed, weights=(1, 1, 1, 1), length=200):
    return "".join(random.Random(seed).choices("ACGT", weights, k=length))


AT_RICH, GC_RICH = (4, 1, 1, 4), (1, 4, 4, 1)
RECORDS = tuple((dna(i, AT_RICH if i % 2 else GC_RICH), "AT" if i % 2 else "GC") for i in range(40))
REFERENCE = Reference(RECORDS, "forty sequences", hashlib.sha256(repr(RECORDS).encode()).hexdigest())
CHOICES = ("AT", "GC")


def text_of(sequence, choices=CHOICES, reference=REFERENCE):
    return GenomicExpert(reference).analyse(PublicQuestion("Which?", choices, sequence)).text


def test_votes_are_weighted_by_one_over_distance():
    shares = vote_shares(np.array([0.1, 0.2, 0.2]), ["a", "b", "b"])
    assert shares == [("a", pytest.approx(0.5)), ("b", pytest.approx(0.5))]
    assert margin(vote_shares(np.array([0.1, 0.4]), ["a", "b"])) == pytest.approx(0.6)
    assert margin(vote_shares(np.array([0.0]), ["a"])) == 1


def test_similar_sequences_share_the_label():
    for seed, weights, label in ((100, AT_RICH, "AT"), (101, GC_RICH, "GC")):
        text = text_of(dna(seed, weights))
        assert f"Vote shares of 15 neighbours: {label} 1.00. Margin 1.00." in text
        assert "forty sequences" in text and REFERENCE.digest[:8] in text
        assert "Shorter than 500 bp" in text
    assert "Shorter than" not in text_of(dna(102, length=600))


@pytest.mark.parametrize("spelling", [str, str.lower, reverse_complement])
def test_the_sequence_itself_never_votes(spelling):
    own = RECORDS[1][0]
    twisted = Reference((*RECORDS[:1], (own, "GC"), *RECORDS[2:]), "twisted", "1" * 64)
    text = text_of(spelling(own), reference=twisted)
    assert "neighbours: AT 1.00" in text and "similarity 1.00" not in text


def test_votes_are_not_counted_when_an_option_has_no_example():
    text = text_of(dna(1), ("AT", "GC", "something else"))
    assert "Not compared: the reference has no other sequence for 1 of the options." in text
    assert "Not compared" in text_of(dna(1), reference=Reference((), "nothing", "0" * 64))


def test_low_complexity_is_not_compared():
    for sequence in ("A" * 100, "AT" * 50, "ACG" * 40, "NNACNN", "A"):
        assert low_complexity(sequence)
        assert "Low complexity: not compared." in text_of(sequence)
    assert not low_complexity(dna(3)) and not low_complexity("ACGTTGCA")


def test_reference_sequences_that_cannot_be_used_are_skipped():
    odd = Reference((*RECORDS, ("protein!", "AT"), ("", "GC"), ("N" * 50, "GC")), "odd", "2" * 64)
    assert "neighbours: AT" in text_of(dna(100, AT_RICH), reference=odd)


def test_each_option_of_a_select_question_has_its_labels():
    question = PublicQuestion("Which one is AT-rich?", (dna(7, GC_RICH), dna(8, AT_RICH), "AAAAAAAAAA"))
    lines = GenomicExpert(REFERENCE).analyse(question).text.splitlines()
    assert lines[1].startswith("A: Vote shares of 15 neighbours: GC 1.00")
    assert lines[2].startswith("B: Vote shares of 15 neighbours: AT 1.00")
    assert lines[3] == "C: Low complexity: not compared."


def test_spectra_have_unit_length_ignore_the_strand_and_skip_n():
    vectors = KmerSpectrum().embed([dna(1), reverse_complement(dna(1)), "ACGTN", "ACGT", "ACG"])
    assert np.linalg.norm(vectors[:4], axis=1) == pytest.approx(1)
    assert np.array_equal(vectors[0], vectors[1]) and np.array_equal(vectors[2], vectors[3])
    assert not vectors[4].any()


def test_the_version_follows_reference_and_embedder():
    other = Reference(RECORDS, "forty sequences", "3" * 64)
    assert GenomicExpert(REFERENCE).version == GenomicExpert(REFERENCE).version != GenomicExpert(other).version


@pytest.fixture(scope="module")
def tiny_encoder(tmp_path_factory):
    """A folder with a two-layer BERT over single bases, with random weights."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("encoder")
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", *"ACGTN"])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", model_max_length=512
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=512,
        pad_token_id=0,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def test_a_transformers_encoder_takes_the_place_of_the_spectra(tiny_encoder):
    expert = make_tool(f"genomic_expert:{tiny_encoder}", REFERENCE)
    text = expert.analyse(PublicQuestion("Which?", CHOICES, dna(100, AT_RICH))).text
    assert f"mean-pooled {tiny_encoder}" in text and "neighbours: AT" in text
    assert expert.version != make_tool("genomic_expert", REFERENCE).version


def test_padding_and_length_do_not_change_an_embedding(tiny_encoder):
    from toolcredit.envs.genome.tools.embedders import TransformerEncoder

    encoder = TransformerEncoder(str(tiny_encoder))
    sequences = [dna(i, length=20 + 10 * i) for i in range(20)]
    together = encoder.embed(sequences)
    alone = np.concatenate([encoder.embed([sequence]) for sequence in sequences])
    assert together == pytest.approx(alone, abs=1e-5)
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.embed([dna(1, length=2000)]).shape == (1, 16)


def test_a_model_that_cannot_be_loaded_is_reported_at_once(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(UsageError, match="cannot load the embedder"):
        make_tool(f"genomic_expert:{tmp_path}", REFERENCE)
