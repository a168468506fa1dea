"""The genome tools, one file each, and their registry.

Other packages add tools through the entry-point group `toolcredit.genome_tools`; an entry point is a class or function
that is called with the `Reference` of the questions in use and gives a `Tool`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from ....errors import UnknownNameError, UsageError
from .base import MAX_EVIDENCE_CHARACTERS, Evidence, Reference, Tool
from .embedders import TransformerEncoder
from .expert import GenomicExpert
from .homology import HomologySearch
from .motifs import MotifScanner
from .splice import SpliceAnalyzer
from .statistics import SequenceStatistics

__all__ = [
    "DEFAULT_TOOLS",
    "ENTRY_POINT_GROUP",
    "MAX_EVIDENCE_CHARACTERS",
    "Evidence",
    "Reference",
    "Tool",
    "make_tool",
    "tool_names",
]

ENTRY_POINT_GROUP = "toolcredit.genome_tools"

#: The four tools of the paper, in its order: T1 … T4.
DEFAULT_TOOLS = ("sequence_statistics", "motif_scanner", "splice_analyzer", "genomic_expert")

_BUILT_IN: dict[str, Callable[[Reference], Tool]] = {
    "sequence_statistics": lambda reference: SequenceStatistics(),
    "motif_scanner": lambda reference: MotifScanner(),
    "splice_analyzer": lambda reference: SpliceAnalyzer(),
    "genomic_expert": GenomicExpert,
    "homology_search": HomologySearch,
}


def tool_names() -> tuple[str, ...]:
    """Names that `make_tool` knows: the built-in tools in their order, then those of other packages."""
    return tuple(_BUILT_IN) + tuple(sorted(set(_plugins()) - set(_BUILT_IN)))


def make_tool(spec: str | Tool, reference: Reference) -> Tool:
    """A tool by name.

    Args:
        spec: a name of `tool_names()`; `genomic_expert:MODEL` for the expert with a transformers encoder (hub name or
            folder) as its embedder; or a tool, which is returned as it is.
        reference: labelled sequences for the tools that compare.

    Raises:
        UnknownNameError: no tool has this name.
        UsageError: the spec, the tool or its model cannot be used.
    """
    if not isinstance(spec, str):
        return _checked(spec, repr(spec))
    name, colon, argument = spec.partition(":")
    plugins = _plugins()
    if name not in _BUILT_IN and name not in plugins:
        raise UnknownNameError("tool", name, tool_names())
    if not colon:
        return _BUILT_IN[name](reference) if name in _BUILT_IN else _load(plugins[name], reference)
    if name != GenomicExpert.name or not argument:
        raise UsageError(
            f"unknown tool {spec!r}: only genomic_expert takes something after the colon, the hub name or folder "
            "of its embedder, as in genomic_expert:MODEL"
        )
    return GenomicExpert(reference, TransformerEncoder(argument))


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _load(entry: EntryPoint, reference: Reference) -> Tool:
    try:
        tool = entry.load()(reference)
    except Exception as error:  # whatever another package raises, the message must say whose tool it was
        raise UsageError(f"the tool {entry.name!r} ({entry.value}) cannot be made: {error}") from error
    return _checked(tool, f"{entry.name!r} ({entry.value})")


def _checked(tool: object, what: str) -> Tool:
    if isinstance(tool, type) or not isinstance(tool, Tool):
        raise UsageError(f"{what} is not a tool: it needs name, description, version and analyse(question)")
    return tool
