"""Predicted calls against gold calls: loose equality of values, F1 of names, scores of arguments, and assignments.

A call is a mapping with `name` (string) and `arguments` (mapping). Everything here follows HierR (arXiv 2609.29050) and
its public code, except `match_optimally`, which replaces the greedy matching by the best one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Call = Mapping[str, Any]

#: numbers that differ by less are equal
TOLERANCE = 1e-9
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
#: among assignments of the same worth the one with more right keys is taken, whatever the order of the calls
_TIE_BREAK = 1e-10


def loose_equal(predicted: Any, gold: Any) -> bool:
    """Whether two argument values are the same for HierR.

    They are if their texts are (trimmed, without regard to case), if they are the same number (`"10"` and 10) or the
    same truth value (`"1"` and true), or if they are lists or objects with the same sorted JSON. Null equals only null.
    """
    if predicted is None or gold is None:
        return predicted is gold
    if type(predicted) is type(gold) and predicted == gold:
        return True
    try:
        one, other = str(predicted).strip().lower(), str(gold).strip().lower()
        if one == other:
            return True
        if isinstance(predicted, list | dict) and isinstance(gold, list | dict):
            return json.dumps(predicted, sort_keys=True) == json.dumps(gold, sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # what no JSON reader of ours lets through
        return False
    number, other_number = _number(predicted), _number(gold)
    if number is not None and other_number is not None and abs(number - other_number) < TOLERANCE:
        return True
    return one in _BOOLEANS and other in _BOOLEANS and _BOOLEANS[one] == _BOOLEANS[other]


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def name_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of two multisets of tool names: 1 if both are empty, 0 if one is. The metric *Name F1*."""
    if not predicted or not gold:
        return float(not predicted and not gold)
    shared = sum((Counter(predicted) & Counter(gold)).values())
    return 2.0 * shared / (len(predicted) + len(gold))


def argument_scores(predicted: Mapping[str, Any], gold: Mapping[str, Any]) -> tuple[float, float]:
    """(key, value) of one pair of calls: Jaccard of the keys, and the share of gold keys with an equal value.

    Without gold arguments the value score is 1, and the key score 1 if nothing was predicted either.
    """
    if not gold:
        return float(not predicted), 1.0
    shared = predicted.keys() & gold.keys()
    equal = sum(loose_equal(predicted[key], gold[key]) for key in shared)
    return len(shared) / len(predicted.keys() | gold.keys()), equal / len(gold)


def match_greedily(predicted: Sequence[Call], gold: Sequence[Call]) -> tuple[float, float]:
    """The published matching: each gold call in order takes the best prediction of its name that is left.

    Returns:
        Sums of the key and of the value scores over the gold calls.
    """
    taken: set[int] = set()
    key_sum = value_sum = 0.0
    for wanted in gold:
        best = (0.0, 0.0)
        choice = None
        for index, call in enumerate(predicted):
            if index in taken or call["name"] != wanted["name"]:
                continue
            scores = argument_scores(call["arguments"], wanted["arguments"])
            if sum(scores) > sum(best):
                best, choice = scores, index
        if choice is not None:
            taken.add(choice)
        key_sum, value_sum = key_sum + best[0], value_sum + best[1]
    return key_sum, value_sum


def match_optimally(
    predicted: Sequence[Call], gold: Sequence[Call], key_weight: float, value_weight: float
) -> tuple[float, float]:
    """The one-to-one matching of calls of equal names with the highest weighted sum of scores.

    Args:
        predicted: the calls made.
        gold: the calls wanted.
        key_weight: worth of a key score.
        value_weight: worth of a value score; if both are 0, both count as 1.

    Returns:
        Sums of the key and of the value scores over the gold calls.
    """
    if not key_weight and not value_weight:
        key_weight = value_weight = 1.0
    key_sum = value_sum = 0.0
    for name in dict.fromkeys(call["name"] for call in gold):
        wanted = [call["arguments"] for call in gold if call["name"] == name]
        made = [call["arguments"] for call in predicted if call["name"] == name]
        scores = [[argument_scores(one, other) for one in made] for other in wanted]
        gains = [[key_weight * key + value_weight * value + _TIE_BREAK * key for key, value in row] for row in scores]
        for row, column in enumerate(assign(gains)):
            if column is not None:
                key_sum, value_sum = key_sum + scores[row][column][0], value_sum + scores[row][column][1]
    return key_sum, value_sum


def assign(gains: Sequence[Sequence[float]]) -> list[int | None]:
    """The assignment of rows to different columns with the highest sum: the Hungarian method, O(rows² · columns).

    Args:
        gains: (rows, columns) non-negative numbers.

    Returns:
        The column of each row; None for rows without one, where there are more rows than columns.
    """
    rows, columns = len(gains), len(gains[0]) if gains else 0
    if rows == columns == 1:
        return [0]
    width = max(rows, columns)
    costs = [[-gain for gain in row] + [0.0] * (width - columns) for row in gains]
    row_price, column_price = [0.0] * (rows + 1), [0.0] * (width + 1)
    owner = [0] * (width + 1)  # row of each column; rows and columns count from 1, column 0 holds the row to place
    for row in range(1, rows + 1):
        owner[0] = row
        column = 0
        slack, before, done = [float("inf")] * (width + 1), [0] * (width + 1), [False] * (width + 1)
        while owner[column]:
            done[column] = True
            current = owner[column]
            step, nearest = float("inf"), 0
            for other in range(1, width + 1):
                if done[other]:
                    continue
                reduced = costs[current - 1][other - 1] - row_price[current] - column_price[other]
                if reduced < slack[other]:
                    slack[other], before[other] = reduced, column
                if slack[other] < step:
                    step, nearest = slack[other], other
            for other in range(width + 1):
                if done[other]:
                    row_price[owner[other]] += step
                    column_price[other] -= step
                else:
                    slack[other] -= step
            column = nearest
        while column:
            owner[column] = owner[before[column]]
            column = before[column]
    found: list[int | None] = [None] * rows
    for column in range(1, columns + 1):
        if owner[column]:
            found[owner[column] - 1] = column - 1
    return found
