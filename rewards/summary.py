"""HierR's summary score: how good the final reply is, `(rating − 1) / 4` of a five-point judge (arXiv 2609.29050).

The score is 0 without asking the judge when no tool ever responded or the reply has fewer than ten characters. Where
the right thing is to call nothing, no tool responds to a right solution: then the published rule makes every reply
worth 0, and the default judges it. A judge that fails gives None, never 0.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from random import Random
from typing import Any

from ..errors import ConfigError, UnknownNameError
from .embedded_judge import EmbeddedJudge
from .judging import Case, Judge, Rating

MIN_CHARS = 10
_BUILT_IN = ("embedded", "chat")


@dataclass(frozen=True)
class SummaryScore:
    """The score of a final reply.

    Attributes:
        score: in [0, 1]; None if the judge failed or cannot judge this task.
        points: the judge's rating, 1 to 5; None if it was not asked or has none.
        reasons: why.
    """

    score: float | None
    points: int | None
    reasons: tuple[str, ...] = ()


def summary_score(case: Case, judge: Judge, mode: str = "default") -> SummaryScore:
    """Score a final reply.

    Args:
        case: the reply and what it is judged by.
        judge: gives the rating.
        mode: `default` or `paper`.
    """
    if not case.answers and (mode == "paper" or not case.abstains):
        return SummaryScore(0.0, None, ("no tool responded",))
    if len(case.reply.strip()) < MIN_CHARS:
        return SummaryScore(0.0, None, (f"the reply has fewer than {MIN_CHARS} characters",))
    rating = judge(case)
    return SummaryScore(None if rating.points is None else (rating.points - 1) / 4, rating.points, rating.reasons)


class FunctionJudge:
    """A function of the case as a judge.

    Args:
        function: gives a whole number from 1 to 5, None, or a `Rating`.
    """

    def __init__(self, function: Callable[[Case], Any]):
        self.identity = {"judge": "function", "name": getattr(function, "__qualname__", type(function).__name__)}
        self._function = function

    def __call__(self, case: Case) -> Rating:
        """What the function says.

        Raises:
            ConfigError: it says something else than it should.
        """
        said = self._function(case)
        rating = said if isinstance(said, Rating) else Rating(said)
        points = rating.points
        if points is not None and (isinstance(points, bool) or points not in (1, 2, 3, 4, 5)):
            raise ConfigError(f"the judge {self.identity['name']} said {points!r}: expected 1, 2, 3, 4, 5 or None")
        return rating


class NoisyJudge:
    """A judge whose rating is replaced by a uniform draw from 1 to 5 with some probability: for studies of noise.

    The draw depends on the seed and the case alone, its nonce included, so that scoring stays a pure function.

    Args:
        judge: the judge behind it; asked either way.
        noise: the probability.
        seed: of the draws.
    """

    def __init__(self, judge: Judge, noise: float, seed: int = 0):
        self.identity = {**judge.identity, "noise": noise, "noise_seed": seed}
        self._judge, self._noise, self._seed = judge, noise, seed
        self.waits = getattr(judge, "waits", True)

    def __call__(self, case: Case) -> Rating:
        """The judge's rating or the draw; a rating that is None stays None."""
        rating = self._judge(case)
        content = json.dumps([self._seed, case.nonce, case.question, case.reply, list(case.answers)], sort_keys=True)
        rng = Random(hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest())
        if rating.points is None or rng.random() >= self._noise:
            return rating
        return Rating(rng.randint(1, 5), ("replaced by noise",))


def make_judge(spec: Any, noise: float = 0.0, seed: int = 0) -> Judge:
    """The judge of a specification.

    Args:
        spec: `"embedded"`; `"chat:MODEL"`; an import path `package.module:object`; a dict with one of these (or
            `"chat"`) as `name` and the arguments of the class; a judge; or a function of a `Case`.
        noise: probability with which a rating is replaced by a uniform draw.
        seed: of the noise.

    Raises:
        UnknownNameError: there is no judge of that name.
        ConfigError: it cannot be made, or `noise` is no probability.
    """
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not (math.isfinite(noise) and 0 <= noise <= 1):
        raise ConfigError(f"noise={noise!r}: expected a probability from 0 to 1")
    judge = _judge(spec)
    return NoisyJudge(judge, noise, seed) if noise else judge


def _judge(spec: Any) -> Judge:
    if not isinstance(spec, str | Mapping):
        if isinstance(spec, Judge):
            return spec
        if not callable(spec):
            raise ConfigError(f"judge={spec!r}: expected a name, a dict with a name, a judge or a function")
        return FunctionJudge(spec)
    arguments: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = str(arguments.pop("name", None))
    kind, _, model = name.partition(":")
    try:
        if name == "embedded":
            return EmbeddedJudge(**arguments)
        if kind == "chat":
            from .chat_judge import ChatJudge

            return ChatJudge(**({"model": model, **arguments} if model else arguments))
        if not model:
            raise UnknownNameError("judge", name, _BUILT_IN, "Or give an import path package.module:object")
        found = resolve_name(name)
        return _judge(found(**arguments) if isinstance(found, type) else found)
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(f"judge {name!r} cannot be made: {error}") from None
