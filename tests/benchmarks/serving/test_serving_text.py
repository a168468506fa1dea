"""Text of a growing turn: whole characters, nothing that is taken back, stop strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.benchmarks.serving.text import TextStream
from toolcredit.llm.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()


def decode(ids):
    return TOKENIZER.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def grown(ids, stops=()):
    """What was certain after each token, the last one at the end."""
    stream = TextStream(decode, stops)
    shown = []
    for length in range(1, len(ids) + 1):
        stream.feed(ids[:length])
        shown.append(stream.text)
    stream.feed(ids, last=True)
    return [*shown, stream.text], stream.stopped


@given(st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=30))
def test_pieces_join_to_the_whole_text_whatever_the_tokens(ids):
    shown, stopped = grown(ids)
    assert shown[-1] == decode(ids) and not stopped
    assert all(after.startswith(before) for before, after in zip(shown, shown[1:], strict=False))


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3))
def test_text_ends_before_the_first_stop_string_and_never_shows_a_part_of_it(text, stops):
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    shown, stopped = grown(ids, stops)
    cuts = [text.find(stop) for stop in stops if stop in text]
    assert stopped == bool(cuts)
    if not cuts:
        assert shown[-1] == text
    else:  # of several stop strings the one that is complete first ends the turn
        assert text.startswith(shown[-1]) and not any(stop in shown[-1] for stop in stops)
        assert any(text[len(shown[-1]) :].startswith(stop) for stop in stops)
    assert all(after.startswith(before) for before, after in zip(shown, shown[1:], strict=False))


@pytest.mark.parametrize("text", ["naïve €uro 🙂", "中文字", "a\n\nb"])
def test_half_characters_are_held_back(text):
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    shown, _ = grown(ids)
    assert len(ids) > 3 and all(text.startswith(piece) for piece in shown)


def test_what_may_become_a_stop_string_is_held_back():
    stream = TextStream(lambda ids: "".join(map(chr, ids)), ["END."])
    for end, certain in ((1, "a"), (2, "a"), (3, "a"), (4, "aENx"), (8, "aENx")):
        stream.feed([ord(c) for c in "aENxEND."][:end])
        assert stream.text == certain
    assert stream.stopped
    stream.feed([ord(c) for c in "aENxEND.more"], last=True)
    assert stream.text == "aENx"
