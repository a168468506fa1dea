"""Reading BFCL's files: found, joined with their answers, and refused with the line that is wrong."""

import json

import pytest
from toolcredit.benchmarks.bfcl.categories import VERSIONS
from toolcredit.benchmarks.bfcl.data import Entry, open_dataset
from toolcredit.errors import AssetError, TaskError, UnknownNameError


def test_entries_are_joined_with_their_answers_by_id(folder, bfcl_files):
    entries = open_dataset(folder).entries(["simple_python"])
    assert [entry.id for entry in entries] == ["simple_python_0", "simple_python_1"]  # the answers' file is reversed
    assert entries[0].answers == (bfcl_files.WEATHER_ANSWER,)
    assert entries[0].turns[0][0]["content"] == "A question of simple_python."


def test_multi_turn_entries_get_the_documentation_of_their_apis(folder):
    (entry,) = open_dataset(folder).entries(["multi_turn_miss_func"])
    assert [doc["name"] for doc in entry.functions] == ["ls", "remove_all"]
    ((turn, held),) = entry.withheld
    assert (turn, [doc["name"] for doc in held]) == (1, ["touch"])
    assert entry.answers == ([], ["touch('a.txt')"], ["ls()"])


def test_payload_round_trip(folder):
    for entry in open_dataset(folder).entries():
        assert Entry.from_payload(json.loads(json.dumps(entry.to_payload()))) == entry


@pytest.mark.parametrize("where", ["package/bfcl_eval/data", "package/bfcl_eval", "package"])
def test_the_folder_may_be_the_data_the_package_or_around_it(bfcl_files, tmp_path, where):
    bfcl_files.write_package(tmp_path / "package")
    dataset = open_dataset(tmp_path / where)
    assert dataset.version.name == "v4"
    assert dataset.package == tmp_path / "package" / "bfcl_eval"


def test_data_alone_have_no_package(folder):
    assert open_dataset(folder).package is None


def test_the_version_is_that_of_the_files(bfcl_files, tmp_path):
    bfcl_files.write_folder(tmp_path, "v3")
    assert open_dataset(tmp_path).version.name == "v3"
    with pytest.raises(TaskError, match="expected files BFCL_v4_"):
        open_dataset(tmp_path, "v4")
    bfcl_files.write_folder(tmp_path, "v4")
    with pytest.raises(TaskError, match="v3 and v4: say which"):
        open_dataset(tmp_path)
    assert open_dataset(tmp_path, "v3").version.name == "v3"


def test_the_hash_changes_with_the_data_in_use_only(folder):
    before = open_dataset(folder).sha256
    (folder / "README.md").write_text("notes")
    (folder / "BFCL_v4_memory.json").write_text("{}\n")
    assert open_dataset(folder).sha256 == before
    file = folder / "possible_answer" / "BFCL_v4_parallel.json"
    file.write_text(file.read_text().replace("CET", "EST"))
    assert open_dataset(folder).sha256 != before


def test_nothing_installed_gives_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AssetError, match="toolcredit data install bfcl-v3"):
        open_dataset(version_name="v3")
    with pytest.raises(TaskError, match="holds no BFCL data"):
        open_dataset(tmp_path)
    with pytest.raises(UnknownNameError, match="BFCL version"):
        open_dataset(tmp_path, "v5")


def test_an_installed_package_is_found_without_importing_it(monkeypatch, bfcl_files, tmp_path):
    bfcl_files.write_package(tmp_path)
    (tmp_path / "bfcl_eval" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert open_dataset().package == tmp_path / "bfcl_eval"


BAD_SCHEMA = {"name": "f", "description": "", "parameters": {"properties": {"x": "integer"}}}
QUESTION = [[{"role": "user", "content": "?"}]]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", "line 1: not JSON"),
        ('{"id": "x", "id": "y"}', "occurs twice"),
        ("[1]", "expected a JSON object"),
        ("[" * 1000, "nested deeper"),
        ({"question": QUESTION, "function": []}, "'id' must be a text"),
        ({"id": "simple_python_0", "question": "?", "function": []}, "'question' must be a list"),
        ({"id": "simple_python_0", "question": [[{"role": "user"}]], "function": []}, "role and content"),
        ({"id": "simple_python_0", "question": QUESTION, "function": {}}, "'function' must be a list"),
        ({"id": "simple_python_0", "question": QUESTION, "function": [{"name": "f"}]}, "parameters.properties"),
        ({"id": "simple_python_0", "question": QUESTION, "function": [BAD_SCHEMA]}, "one that is no schema"),
        ({"id": "simple_python_9", "question": QUESTION, "function": []}, "holds no answer for 'simple_python_9'"),
    ],
)
def test_a_broken_line_is_named(folder, line, problem):
    text = line if isinstance(line, str) else json.dumps(line)
    (folder / "BFCL_v4_simple_python.json").write_text(text + "\n")
    with pytest.raises(TaskError, match=problem) as caught:
        open_dataset(folder).entries(["simple_python"])
    assert "BFCL_v4_simple_python.json" in str(caught.value)


def test_other_faults_of_files(folder, bfcl_files):
    record = {"id": "simple_python_0", "question": QUESTION, "function": []}
    bfcl_files.write_lines(folder / "BFCL_v4_simple_python.json", [record, record])
    with pytest.raises(TaskError, match="'simple_python_0' occurs twice"):
        open_dataset(folder).entries(["simple_python"])
    twins = [bfcl_files.doc("a.b"), bfcl_files.doc("a_b")]
    bfcl_files.write_lines(folder / "BFCL_v4_simple_python.json", [record | {"function": twins}])
    with pytest.raises(TaskError, match="same name where '.' is written '_'"):
        open_dataset(folder).entries(["simple_python"])
    (folder / "possible_answer" / "BFCL_v4_parallel.json").unlink()
    with pytest.raises(TaskError, match="is missing"):
        open_dataset(folder).entries(["parallel"])
    with pytest.raises(UnknownNameError, match="did you mean 'parallel'"):
        open_dataset(folder).entries(["paralel"])


@pytest.mark.parametrize("truth", [[1], [{}], [{"f": 1}], [{"f": {"x": 1}}], [{"f": {}, "g": {}}]])
def test_a_broken_ground_truth_is_named(folder, bfcl_files, truth):
    file = folder / "possible_answer" / "BFCL_v4_multiple.json"
    bfcl_files.write_lines(file, [{"id": f"multiple_{n}", "ground_truth": truth} for n in range(2)])
    with pytest.raises(TaskError, match="BFCL_v4_multiple.json, line 1: a ground truth is not of the form"):
        open_dataset(folder).entries(["multiple"])


def test_an_unknown_api_is_refused(folder, bfcl_files):
    file = folder / "BFCL_v4_multi_turn_miss_func.json"
    file.write_text(file.read_text().replace("GorillaFileSystem", "Os"))
    with pytest.raises(UnknownNameError, match="simulated API 'Os'"):
        open_dataset(folder).entries(["multi_turn_miss_func"])


def test_categories_know_their_rules():
    kinds = {name: category.kind for name, category in VERSIONS["v4"].categories.items()}
    assert kinds["live_relevance"] == "relevance" and kinds["live_irrelevance"] == "irrelevance"
    assert kinds["parallel_multiple"] == kinds["live_parallel"] == "parallel"
    assert kinds["multiple"] == "multiple" and kinds["multi_turn_base"] == "multi_turn"
    assert VERSIONS["v3"].category("java").language == "java"
    assert VERSIONS["v3"].category("simple_python").name == "simple"
    assert VERSIONS["v4"].category("simple").name == "simple_python"
    assert VERSIONS["v4"].category_of("live_simple_3-2-1").name == "live_simple"


@pytest.mark.bfcl
@pytest.mark.parametrize("name", ["v3", "v4"])
def test_the_released_counts(name, request):
    dataset = request.getfixturevalue(name)
    entries = dataset.entries()
    assert len(entries) == len({entry.id for entry in entries}) == 4441
    for category in dataset.version.categories.values():
        assert sum(entry.category == category.name for entry in entries) == category.size
    assert sum(bool(e.answers) for e in entries if e.kind.kind != "multi_turn") == 2501
