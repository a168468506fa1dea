"""Files that survive a kill, and run folders that refuse what does not fit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.errors import RunError
from toolcredit.runs import JsonLines, RunFolder, cut_jsonl, read_jsonl, write_atomic, write_json


def test_write_atomic_replaces_and_leaves_nothing_else(tmp_path):
    write_atomic(tmp_path / "deep" / "file", "one")
    write_atomic(tmp_path / "deep" / "file", b"two")
    assert (tmp_path / "deep" / "file").read_bytes() == b"two"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["file"]


def test_a_failed_write_keeps_the_old_content(tmp_path):
    write_json(tmp_path / "file", {"a": 1})
    with pytest.raises(ValueError):
        write_json(tmp_path / "file", {"a": float("nan")})
    assert json.loads((tmp_path / "file").read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=8)), max_size=6), st.data())
def test_a_torn_last_line_costs_one_record_and_no_more(tmp_path_factory, records, data):
    path = tmp_path_factory.mktemp("lines") / "records.jsonl"
    with JsonLines(path) as lines:
        for record in records:
            lines.append(record)
    whole = path.read_bytes() if path.exists() else b""
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    assert list(read_jsonl(path)) == records[:kept]
    with JsonLines(path) as lines:
        lines.append({"new": 1})
    assert list(read_jsonl(path)) == [*records[:kept], {"new": 1}]


def test_a_broken_line_in_the_middle_is_an_error(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"a":\n{"a": 2}\n')
    with pytest.raises(RunError, match="line 2"):
        list(read_jsonl(tmp_path / "x.jsonl"))


@pytest.mark.parametrize("tail", ["", '{"n": ', "torn é"])
@pytest.mark.parametrize("last", [-1, 0, 2, 9])
def test_records_are_cut_off_from_the_first_late_one(tmp_path, last, tail):
    lines = [json.dumps({"n": n, "text": "é" * n}, ensure_ascii=False) + "\n" for n in range(5)]
    (tmp_path / "records.jsonl").write_text("".join(lines) + tail, "utf-8")
    cut_jsonl(tmp_path / "records.jsonl", lambda record: record["n"] > last)
    assert (tmp_path / "records.jsonl").read_text("utf-8") == "".join(lines[: last + 1])
    cut_jsonl(tmp_path / "nothing.jsonl", lambda record: True)
    assert not (tmp_path / "nothing.jsonl").exists()


def test_a_run_folder_is_continued_only_with_its_own_configuration(tmp_path):
    config = {"agent": "x", "config": {"rate": 1.0, "policy": {"rank": 4}}}
    assert not RunFolder(tmp_path / "run", config).resumed
    assert RunFolder(tmp_path / "run", config, resume=True).resumed
    with pytest.raises(RunError, match="--resume"):
        RunFolder(tmp_path / "run", config)
    other = {"agent": "x", "config": {"rate": 1.0, "policy": {"rank": 8}}}
    with pytest.raises(RunError, match=r"config\.policy\.rank: was 4, now 8\)"):
        RunFolder(tmp_path / "run", other, resume=True)
    newer = {"agent": "x", "config": {"rate": 1.0, "policy": {"rank": 4, "field_of_a_later_version": None}}}
    assert RunFolder(tmp_path / "run", newer, resume=True).resumed


@pytest.mark.parametrize("content", [None, "", "{", "[1", "[1]"])
def test_what_is_no_run_folder_is_said_to_be_none(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunError, match="config.json"):
        RunFolder.load_config(tmp_path)


def test_a_line_that_is_no_object_is_an_error(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n[1]\n')
    with pytest.raises(RunError, match="line 2: expected a JSON object, got list"):
        list(read_jsonl(tmp_path / "x.jsonl"))


def test_a_configuration_that_is_not_plain_json_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(RunError, match="not plain JSON.*import paths"):
        RunFolder(tmp_path / "run", {"env": {"kwargs": {"reward": print}}})
    assert not (tmp_path / "run").exists()
