"""Call syntaxes by name: `hermes` (default), `llama3`, `mistral`, `pythonic`; all follow `parsing.CallParser`."""

from __future__ import annotations

from ....errors import UnknownNameError
from ..parsing import HERMES, CallParser
from .llama3 import Llama3Parser
from .mistral import MistralParser
from .pythonic import PythonicParser

_PARSERS: dict[str, CallParser] = {
    parser.name: parser for parser in (HERMES, Llama3Parser(), MistralParser(), PythonicParser())
}


def parser_names() -> list[str]:
    """The names that `make_parser` knows."""
    return sorted(_PARSERS)


def make_parser(spec: str | CallParser) -> CallParser:
    """The parser of that name; a parser is returned as it is.

    Raises:
        UnknownNameError: there is no parser of that name.
    """
    if not isinstance(spec, str):
        return spec
    if spec not in _PARSERS:
        raise UnknownNameError("call syntax", spec, _PARSERS)
    return _PARSERS[spec]
