"""Calls in Python syntax, as the prompting mode asks for: `[f(a=1, b="x"), g()]`. Nothing is evaluated.

The text is read with `ast` and only literals are taken from it, by the official decoder's rules: a bare name counts as
its own text (a variable of the user), arithmetic of number literals as its value, an inner call without named
arguments as its source. An argument without a name, or with one that is given twice, spoils its call: the official
decoder leaves it out; here that is done, too, but said, so that the call is not right.
"""

from __future__ import annotations

import ast
import math
import operator
import threading
import warnings
from collections.abc import Callable
from typing import Any

from .calls import MAX_CHARS, Call, NotCalls, Reply

_MAX_DEPTH = 64
_MAX_BITS = 1024
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_WARNINGS = threading.Lock()  # `catch_warnings` changes a process-wide list


def python_calls(text: str) -> Reply:
    """The calls of an answer: a list of calls, without its brackets too, and in a plain Markdown fence.

    Raises:
        NotCalls: it is not a list of calls, or is too long or too deep.
    """
    tree = parse_python(bracketed(text))
    if not isinstance(tree, ast.List):
        raise NotCalls(f"not a list of calls but a {type(tree).__name__}")
    calls = [item for item in tree.elts if isinstance(item, ast.Call)]
    if len(calls) < len(tree.elts):
        raise NotCalls("not a list of calls")
    try:
        return Reply(tuple(map(python_call, calls)), next(filter(None, map(_flaw, calls)), None))
    except NotCalls as error:
        return Reply(malformed=str(error))


def bracketed(text: str) -> str:
    """An answer without its Markdown fence, in brackets.

    Raises:
        NotCalls: it is too long.
    """
    if len(text) > MAX_CHARS:
        raise NotCalls(f"the answer has {len(text):,} characters, at most {MAX_CHARS:,} are read")
    text = text.strip("`\n ")
    return ("" if text.startswith("[") else "[") + text + ("" if text.endswith("]") else "]")


def parse_python(text: str) -> ast.expr:
    """The syntax tree of a Python expression.

    Raises:
        NotCalls: it is not one.
    """
    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in a model's strings are not for the terminal
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotCalls(f"not Python: {error}") from None


def literal(node: ast.expr, depth: int = 0) -> Any:
    """The value that an argument stands for.

    Raises:
        NotCalls: it is none of the forms in this module's description.
    """
    if depth > _MAX_DEPTH:
        raise NotCalls(f"a value is nested deeper than {_MAX_DEPTH} levels")
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() as number)):
            return -number if isinstance(node.op, ast.USub) else number
        case ast.List(elts=items):
            return [literal(item, depth + 1) for item in items]
        case ast.Tuple(elts=items):
            return tuple(literal(item, depth + 1) for item in items)
        case ast.Dict(keys=keys, values=values):
            return {_key(key): literal(value, depth + 1) for key, value in zip(keys, values, strict=True)}
        case ast.Name(id=name):
            return name
        case ast.BinOp():
            return _arithmetic(node, depth)
        case ast.Call(keywords=[]) | ast.Subscript():
            return _source(node)
        case ast.Call():
            call = python_call(node, depth + 1)
            return {call.name: call.arguments}
    raise NotCalls(f"a value is a {type(node).__name__}, not a literal")


def python_call(node: ast.Call, depth: int = 0) -> Call:
    """The call that a syntax tree is, with its named arguments; of equal names the last one counts.

    Raises:
        NotCalls: its name is no dotted name, or an argument is no literal.
    """
    parts, function = [], node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        raise NotCalls("what is called is not a name")
    named = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
    name = ".".join([function.id, *reversed(parts)])
    return Call(name, {key: literal(value, depth + 1) for key, value in named})


def call_parts(source: str) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Name, positional and named arguments of a ground-truth call, as multi-turn entries have them.

    Raises:
        NotCalls: it is not one call of a function with literals.
    """
    node = parse_python(source)
    if not isinstance(node, ast.Call):
        raise NotCalls(f"the ground truth holds {source!r}, which is no call")
    call = python_call(node)
    return call.name, tuple(map(literal, node.args)), call.arguments


def _flaw(node: ast.Call) -> str | None:
    """What is wrong with a call's arguments as a whole."""
    names = [keyword.arg for keyword in node.keywords]
    if node.args or None in names:
        return "an argument has no name: write function(parameter=value)"
    return "an argument is given twice" if len(set(names)) < len(names) else None


def _constant(value: Any) -> Any:
    if value is Ellipsis:
        return "..."
    if isinstance(value, float) and not math.isfinite(value):
        raise NotCalls("a number is out of range")
    if value is None or isinstance(value, str | int | float):
        return value
    raise NotCalls(f"a value is {type(value).__name__}, which JSON has not")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise NotCalls("a dictionary has a key that is not a text")


def _arithmetic(node: ast.BinOp, depth: int) -> Any:
    """The value of an operation on numbers, bounded so that no text can make the process work for long, or on texts."""
    left, right = literal(node.left, depth + 1), literal(node.right, depth + 1)
    if isinstance(left, str) and isinstance(right, str) and isinstance(node.op, ast.Add):
        return left + right
    for number in (left, right):
        if not isinstance(number, int | float) or abs(number) >= 2**_MAX_BITS:
            raise NotCalls("a value is an operation on something else than numbers of usual size")
    try:
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        value = _ARITHMETIC[type(node.op)](left, right)
    except (ArithmeticError, KeyError) as error:
        raise NotCalls(f"a value cannot be worked out: {type(error).__name__}") from None
    return _constant(value)


def _power(base: float, exponent: float) -> int | float:
    if abs(exponent) * max(1.0, math.log2(max(abs(base), 1))) > _MAX_BITS:
        raise NotCalls("a power is out of range")
    value = base**exponent
    if isinstance(value, complex):
        raise NotCalls("a power is not a real number")
    return _constant(value)


def _source(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except RecursionError:
        raise NotCalls(f"a value is nested deeper than {_MAX_DEPTH} levels") from None
