"""Making tools by name, and tools of other packages."""

from importlib.metadata import EntryPoint

import pytest
from toolcredit.envs.genome import tools
from toolcredit.envs.genome.tools import DEFAULT_TOOLS, Evidence, Reference, make_tool, tool_names
from toolcredit.errors import UnknownNameError, UsageError

REFERENCE = Reference((("ACGTACGTAC", "a"),), "one", "0" * 64)


class CountTool:
    """A tool as another package would write it; named by an entry point below."""

    name, description, version = "count", "Counts.", "1"

    def __init__(self, reference):
        self.reference = reference

    def analyse(self, question):
        return Evidence(self.name, "Count", str(len(self.reference.records)))


def broken(reference):
    raise RuntimeError("no licence")


def not_a_tool(reference):
    return object()


@pytest.fixture
def plugins(monkeypatch):
    group = tools.ENTRY_POINT_GROUP
    entries = [EntryPoint(name, f"{__name__}:{name}", group) for name in ("CountTool", "broken", "not_a_tool")]
    monkeypatch.setattr(EntryPoint, "load", lambda entry: globals()[entry.name])
    monkeypatch.setattr(tools, "entry_points", lambda group: entries)


def test_every_name_makes_the_tool_of_that_name():
    assert set(DEFAULT_TOOLS) < set(tool_names())
    for name in tool_names()[:5]:
        assert make_tool(name, REFERENCE).name == name


def test_a_tool_is_returned_as_it_is():
    tool = CountTool(REFERENCE)
    assert make_tool(tool, REFERENCE) is tool


def test_unknown_names_are_refused_with_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'motif_scanner'"):
        make_tool("motif_scaner", REFERENCE)
    with pytest.raises(UnknownNameError):
        make_tool("", REFERENCE)


@pytest.mark.parametrize("spec", ["motif_scanner:x", "genomic_expert:", "splice_analyzer:"])
def test_only_the_expert_takes_an_argument(spec):
    with pytest.raises(UsageError, match="genomic_expert:MODEL"):
        make_tool(spec, REFERENCE)


@pytest.mark.parametrize("spec", [None, 3, CountTool, object()])
def test_what_is_no_tool_is_refused(spec):
    with pytest.raises(UsageError, match="is not a tool"):
        make_tool(spec, REFERENCE)


def test_tools_of_other_packages_are_called_with_the_reference(plugins):
    assert tool_names()[5:] == ("CountTool", "broken", "not_a_tool")
    assert make_tool("CountTool", REFERENCE).analyse(None).text == "1"
    with pytest.raises(UsageError, match="'broken'.*cannot be made: no licence"):
        make_tool("broken", REFERENCE)
    with pytest.raises(UsageError, match="'not_a_tool'.*is not a tool"):
        make_tool("not_a_tool", REFERENCE)
