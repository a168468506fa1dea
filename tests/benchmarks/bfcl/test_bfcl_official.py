"""The official package, loaded from its folder under a private name."""

import sys

import pytest
from toolcredit.benchmarks.bfcl.calls import Call, Reply
from toolcredit.benchmarks.bfcl.data import open_dataset
from toolcredit.benchmarks.bfcl.official import load_official
from toolcredit.errors import AssetError, MissingExtraError


@pytest.fixture
def official(package):
    return load_official(open_dataset(package))


def test_the_interpreters_own_package_is_not_touched(package, official, monkeypatch, bfcl_files):
    marker = object()
    monkeypatch.setitem(sys.modules, "bfcl_eval", marker)
    entry = bfcl_files.entry("simple_python", [bfcl_files.WEATHER], [bfcl_files.WEATHER_ANSWER])
    assert official.check(entry, Reply((Call("weather_get"),))).valid
    assert sys.modules["bfcl_eval"] is marker
    assert not any(name.startswith("bfcl_eval.") for name in sys.modules)


def test_nothing_is_written_into_the_folder(bfcl_files, tmp_path):
    folder = bfcl_files.write_package(tmp_path)
    before = sorted(folder.rglob("*"))
    load_official(open_dataset(folder)).load_apis()
    assert sorted(folder.rglob("*")) == before


def test_other_modules_of_the_package_cannot_be_imported(bfcl_files, tmp_path):
    folder = bfcl_files.write_package(tmp_path)
    checker = folder / "bfcl_eval" / "eval_checker" / "ast_eval" / "ast_checker.py"
    (folder / "bfcl_eval" / "utils.py").write_text("raise SystemExit")
    checker.write_text("import bfcl_eval.utils\n")
    entry = bfcl_files.entry("simple_python", [bfcl_files.WEATHER], [bfcl_files.WEATHER_ANSWER])
    official = load_official(open_dataset(folder))
    assert official.check(entry, Reply((Call("weather_get"),))).error == "exception:ModuleNotFoundError"


def test_one_load_for_each_folder(package, bfcl_files, tmp_path):
    first = load_official(open_dataset(package))
    assert load_official(open_dataset(package / "bfcl_eval")) is first
    assert load_official(open_dataset(bfcl_files.write_package(tmp_path))) is not first


def test_data_alone_have_no_checkers(folder):
    with pytest.raises(AssetError, match="holds data only.*toolcredit data install bfcl"):
        load_official(open_dataset(folder))


def test_a_missing_package_of_a_simulator_gives_the_command(bfcl_files, tmp_path):
    folder = bfcl_files.write_package(tmp_path)
    code = folder / "bfcl_eval" / "eval_checker" / "multi_turn_eval" / "func_source_code" / "math_api.py"
    code.write_text("import a_package_that_is_not_there\n")
    with pytest.raises(MissingExtraError, match=r"MathAPI of BFCL needs.*toolcredit\[bfcl\]"):
        load_official(open_dataset(folder)).load_apis()


def test_names_are_compared_as_they_were_offered(official, bfcl_files):
    entry = bfcl_files.entry("simple_python", [bfcl_files.WEATHER], [bfcl_files.WEATHER_ANSWER])
    dotted, plain = Reply((Call("weather.get"),)), Reply((Call("weather_get"),))
    assert official.check(entry, plain).valid and not official.check(entry, dotted).valid
    assert official.check(entry, dotted, prompting=True).valid
    assert not official.check(entry, plain, prompting=True).valid


def test_a_fault_of_the_checker_is_a_wrong_answer_not_a_crash(official, bfcl_files):
    entry = bfcl_files.entry("simple_python", [bfcl_files.WEATHER], [bfcl_files.WEATHER_ANSWER])
    found = official.check(entry, Reply((Call("crash"),)))
    assert not found.valid and found.error == "exception:KeyError"


def test_what_cannot_be_read_is_judged_as_the_official_harness_does(official, bfcl_files):
    broken = Reply(malformed="not JSON")
    irrelevance = bfcl_files.entry("irrelevance", [bfcl_files.TIME])
    relevance = bfcl_files.entry("live_relevance", [bfcl_files.TIME])
    simple = bfcl_files.entry("simple_python", [bfcl_files.WEATHER], [bfcl_files.WEATHER_ANSWER])
    assert official.check(irrelevance, broken).valid
    assert not official.check(relevance, broken).valid and not official.check(simple, broken).valid
    assert official.check(relevance, Reply((Call("clock_time"),))).valid
    assert not official.check(irrelevance, Reply((Call("clock_time"),))).valid


@pytest.mark.bfcl
def test_both_releases_side_by_side(v3, v4, bfcl_files):
    for dataset, category in ((v3, "java"), (v4, "simple_java")):
        official = load_official(dataset)
        doc = bfcl_files.doc("A.b", ["n"], n="long")
        entry = bfcl_files.entry(category, [doc], [{"A.b": {"n": [5]}}], version=dataset.version.name)
        assert official.check(entry, Reply((Call("A_b", {"n": "5L"}),))).valid
        assert official.check(entry, Reply((Call("A_b", {"n": "5"}),))).error == "type_error:simple"
    assert load_official(v3).api("TradingBot") is not load_official(v4).api("TradingBot")
