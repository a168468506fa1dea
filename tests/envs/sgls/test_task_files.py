"""Files of tasks: broken lines, compression, lists, and what is no such file."""

import gzip
import json

import pytest
from toolcredit.envs.sgls.loaders import load_tasks
from toolcredit.envs.sgls.loaders.rows import read_rows
from toolcredit.errors import TaskError, UnknownNameError

TIDE = {"type": "object", "properties": {"harbour": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "tide", "description": "The tide.", "parameters": TIDE}}]


def generic(**more):
    gold = [[{"name": "tide", "arguments": {"harbour": "Orsk"}}]]
    return {"question": "Tide in Orsk?", "tools": TOOLS, "gold": gold, **more}


def write(path, *rows, array=False):
    text = json.dumps(list(rows)) if array else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, "utf-8")
    return path


def test_broken_lines_do_not_hide_the_others(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(
        f"{json.dumps(generic())}\n{{broken\n\n[1]\n{json.dumps(generic())}", "utf-8"
    )  # no newline at the end
    loaded = load_tasks(path)
    assert [task.id for task in loaded.tasks] == ["r-1", "r-5"]
    assert [remark.row for remark in loaded.skipped] == [2, 4]


def test_double_ids_are_told(tmp_path):
    loaded = load_tasks(write(tmp_path / "r.jsonl", generic(id="x"), generic(id="x")))
    assert len(loaded.tasks) == 1 and "second task" in loaded.skipped[0].text


def test_gzip_and_lists(tmp_path):
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(generic()).encode()))
    assert len(load_tasks(path).tasks) == 1
    assert len(load_tasks(write(tmp_path / "r.json", generic(), generic(), array=True)).tasks) == 2


@pytest.mark.parametrize("content", [b"", b"[1", b"\xff\xfe\x00", b"{}\n", b"hello\n"])
def test_unusable_files_are_one_error(tmp_path, content):
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(TaskError):
        load_tasks(path)


def test_missing_and_misnamed_files(tmp_path):
    with pytest.raises(TaskError, match="there is no file"):
        load_tasks(tmp_path / "none.jsonl")
    fake = tmp_path / "fake.parquet"
    fake.write_text("no parquet")
    with pytest.raises(TaskError, match="no Parquet file"):
        list(read_rows(fake))
    zipped = tmp_path / "fake.jsonl.gz"
    zipped.write_text("no gzip")
    with pytest.raises(TaskError, match="cannot be read"):
        list(read_rows(zipped))


def test_unknown_formats_and_splits(tmp_path):
    path = write(tmp_path / "r.jsonl", {"a": 1})
    with pytest.raises(UnknownNameError, match="did you mean 'generic'"):
        load_tasks(path, format="genric")
    with pytest.raises(UnknownNameError, match="split"):
        load_tasks(path, split="eval")
    with pytest.raises(TaskError, match="no known format"):
        load_tasks(path)
