"""Reading the prompting mode's answers: `[f(a=1, b="x"), g()]` in Python, Java or JavaScript. Nothing is evaluated.

Python is read with `ast` and only literals are taken from it, by the official decoder's rules: a bare name counts as
its own text (a variable of the user), arithmetic of number literals as its value, an inner call without arguments as
its source. Java and JavaScript values stay text, as the checkers expect. Where the official decoder guesses (it drops
positional arguments, negates what stands after any unary operator, keeps the last of two equal names), this refuses.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

from .calls import MAX_CHARS, Call, NotCalls
from .categories import Language

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

_NAME = re.compile(r"\s*([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)\s*\(")
_ARGUMENT = re.compile(r"\s*([A-Za-z_$][\w$]*)\s*=(?![=>])")
_NO_EXPRESSION = re.compile(
    r"(?<![\w$.])(?!(?:new|async|function|await|typeof|void|return|const|let|var|in|of|instanceof|final|if|else|throw|case)\b)"
    r"[\w$.]+[ \t]+(?!(?:in|of|instanceof)\b)[\w$]|^[^?{]*:|[@#]|[\]}]\s*\w|[-.+*/=&|<,!~^%]$"
)
_END_OF_CALL = re.compile(r"\s*\)")
_STRING = re.compile(r"""\"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)


def read_calls(text: str, language: Language = "python") -> list[Call]:
    """The calls of an answer in the prompting mode.

    Args:
        text: the answer: a list of calls, without its brackets too, and in a plain Markdown fence.
        language: the syntax of the calls.

    Raises:
        NotCalls: it is not a list of calls, or is too long or too deep.
    """
    if len(text) > MAX_CHARS:
        raise NotCalls(f"the answer has {len(text):,} characters, at most {MAX_CHARS:,} are read")
    text = text.strip("`\n ")
    text = text if text.startswith("[") else f"[{text}"
    text = text if text.endswith("]") else f"{text}]"
    if language == "python":
        return _python_calls(text)
    return [_foreign_call(text[1:-1])] if text[1:-1].strip() else []


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


def python_call(node: ast.expr, depth: int = 0) -> Call:
    """The call that a syntax tree is.

    Raises:
        NotCalls: it is something else, its name is no dotted name, or an argument has no name, or one twice.
    """
    if not isinstance(node, ast.Call):
        raise NotCalls(f"a {type(node).__name__} stands where a call is expected")
    parts, function = [], node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        raise NotCalls("what is called is not a name")
    name = ".".join([function.id, *reversed(parts)])
    if node.args:
        raise NotCalls(f"an argument of {name} has no name: write {name}(parameter=value)")
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise NotCalls(f"an argument of {name} has no name, or a name is given twice")
        arguments[keyword.arg] = literal(keyword.value, depth + 1)
    return Call(name, arguments)


def _python_calls(text: str) -> list[Call]:
    tree = parse_python(text)
    if not isinstance(tree, ast.List):
        raise NotCalls(f"not a list of calls but a {type(tree).__name__}")
    return [python_call(item) for item in tree.elts]


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


def _arithmetic(node: ast.BinOp, depth: int) -> int | float:
    """The value of an operation on numbers; its size is bounded, so that no text can make the process work for long."""
    left, right = literal(node.left, depth + 1), literal(node.right, depth + 1)
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


def _foreign_call(text: str) -> Call:
    """The one call of a Java or JavaScript answer, its values as text."""
    start = _NAME.match(text)
    if start is None:
        raise NotCalls("no call at the beginning of the answer")
    arguments: dict[str, str] = {}
    position, closed = start.end(), False
    while not closed:
        name = _ARGUMENT.match(text, position)
        if name is None and not arguments and (end := _END_OF_CALL.match(text, position)):
            position = end.end()
            break
        if name is None or name[1] in arguments:
            raise NotCalls(f"an argument of {start[1]} has no name, or a name is given twice")
        end_of_value, closed = _end_of_value(text, name.end())
        arguments[name[1]] = _foreign_value(text[name.end() : end_of_value].strip())
        position = end_of_value + 1
    if text[position:].strip(" ;\n\t"):
        raise NotCalls("more text after the call")
    return Call(start[1], arguments)


def _end_of_value(text: str, start: int) -> tuple[int, bool]:
    """Where the argument ends whose value begins at `start`, and whether the call ends there.

    A comma ends it only where a name and `=` follow: generics like `HashMap<String, Object>` hold commas too.
    """
    depth, quote, position = 0, "", start
    while position < len(text):
        sign = text[position]
        if quote:
            position += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "\"'`":
            quote = sign
        else:
            depth += (sign in "([{") - (sign in ")]}")
            if depth < 0:
                return position, True
            if depth == 0 and sign == "," and _ARGUMENT.match(text, position + 1):
                return position, False
        position += 1
    raise NotCalls("a string or a bracket is not closed")


def _foreign_value(text: str) -> str:
    """A value's text without the quotes of a string."""
    if _STRING.fullmatch(text):
        return text[1:-1]
    if not is_expression(text):
        raise NotCalls(f"{text[:60]!r} is no expression; a string needs quotes")
    return text


def is_expression(text: str) -> bool:
    """Whether a text may be a Java or JavaScript expression.

    It is none if it is empty, ends in an operator, lacks one between two words, or holds a sign that none has.
    """
    return bool(text) and not _NO_EXPRESSION.search(_STRING.sub("''", text))
