"""The guard of the tool `calculate`, which evaluates what a model writes: `9**9**9` would hold the process for ever."""

from __future__ import annotations

import ast
from typing import Any

MAX_CHARS = 1_000
MAX_BITS = 10_000


def check_expression(expression: str) -> None:
    """Return if evaluating the expression, as Python would, ends soon; also if it would fail.

    Only the digits, operators and brackets that the tool takes are looked at; anything else is its own to refuse.

    Raises:
        ValueError: it is too long, or an integer power in it has more than `MAX_BITS` bits.
    """
    if len(expression) > MAX_CHARS:
        raise ValueError(f"Expression too long: at most {MAX_CHARS} characters")
    try:
        _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ArithmeticError, TypeError, RecursionError, MemoryError):
        return  # it fails at once, and in the tool's own words


def _value(node: ast.expr) -> Any:
    """The value of a node, computed from its parts so that every power is checked before it is taken."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp):
        operand = _value(node.operand)
        return -operand if isinstance(node.op, ast.USub) else +operand
    if isinstance(node, ast.BinOp):
        return _apply(node.op, _value(node.left), _value(node.right))
    raise TypeError(f"no arithmetic: {type(node).__name__}")


def _apply(operator: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(operator, ast.Pow):
        if isinstance(left, int) and isinstance(right, int) and abs(right) * left.bit_length() > MAX_BITS:
            raise ValueError("Expression too large: a power has too many digits")
        return left**right
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.FloorDiv):
        return left // right
    if isinstance(operator, ast.Div):
        return left / right
    raise TypeError(f"no arithmetic: {type(operator).__name__}")
