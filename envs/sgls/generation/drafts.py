"""Drafts: goals put together to one task of a wanted split, category and tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ....errors import UsageError
from ..pack import NEAR, OVERLAPS, TOOLS, Recipe, new_state
from ..splits import split_of, tool_pool
from ..tasks import Call, Fact, Plan, Task
from .catalogue import catalogue
from .goals import Goal, ask_recipe, draw_slots, misspell, realise, say_request, shifted, slot_params, template_fields
from .plans import canonical_order, equivalent_plans
from .wordings import (
    JOINS,
    OFF_TOPIC,
    OFF_TOPIC_SLOTS,
    OPENINGS,
    REFUSAL,
    REFUSAL_REPLIES,
    REFUSALS,
    SYSTEM,
    THANKS,
    plain_name,
    question_back,
)

_TRIES = 300
_REDRAWS = 200


@dataclass(frozen=True)
class _Words:
    """A request in words, the slots in it, and the misspelt name among them, if there is one."""

    text: str
    slots: dict[str, Any]
    typo: str


class Draft:
    """One task in the making: draws goals until they give a task of the wanted kind with a new question.

    Args:
        seed: of the task list.
        index: of the task in it.
        split: wanted split.
        category: wanted category.
        tier: wanted tier.
    """

    def __init__(self, seed: int, index: int, split: str, category: str, tier: str):
        self.id = f"sgls-{seed}-{index:06d}"
        self.split, self.category, self.tier = split, category, tier
        self.rng = Random(f"sgls/{seed}/{index}")
        self.catalogue = catalogue(split, tier)
        self.state: dict[str, Any] = {}
        self.running: dict[str, Any] = {}
        self.first = True

    def task(self, seen: set[str]) -> Task:
        """The task; its question is added to `seen`, which holds those of earlier tasks of the kind.

        Raises:
            UsageError: nothing new was found; the kind is used up.
        """
        make = getattr(self, f"_{self.category}")
        for _ in range(_TRIES):
            self.state = new_state(self.rng.randrange(2**31))
            self.running = dict(self.state)
            self.first = True
            task: Task | None = make()
            if task is not None and task.question not in seen:
                seen.add(task.question)
                return task
        kind = f"{self.category} tasks of the {self.tier} tier in {self.split}"
        raise UsageError(f"there are no more new {kind} after {len(seen)} of them: ask for fewer tasks or another seed")

    # One method for each category: one draw, or None if it did not work out.

    def _single(self) -> Task | None:
        return self._solve([self._request(self.catalogue.single)])

    def _parallel(self) -> Task | None:
        fan = self.catalogue.fan and self.rng.random() < 0.2
        first = self._recipe(self.catalogue.fan) if fan else self._request(self.catalogue.single)
        return self._solve(self._and_more(first, 2 if self.tier == "medium" else 3))

    def _serial(self) -> Task | None:
        return self._solve([self._chain()])

    def _mixed(self) -> Task | None:
        small = self.tier == "medium"
        fitting = [recipe for n, recipes in self.catalogue.mixed.items() if (n <= 3) == small for recipe in recipes]
        if fitting and self.rng.random() < 0.5:
            return self._solve([self._recipe(fitting)])
        first = self._chain()
        return self._solve(self._and_more(first, len(first.calls) + 1)) if first else None

    def _recover(self) -> Task | None:
        if self.tier == "medium":
            return self._solve([self._refused()], refusals=1)
        if self.rng.random() < 0.5:
            return self._solve([self._chain(typo=True)], refusals=1)
        first = self._refused()
        return self._solve(self._and_more(first, len(first.calls) + 1), refusals=1) if first else None

    def _irrelevant(self) -> Task | None:
        tool = ""
        unfit: set[str] = set()
        if self.rng.random() < 0.25:
            text = self.rng.choice(OFF_TOPIC).format(**{k: draw(self.rng) for k, draw in OFF_TOPIC_SLOTS.items()})
            if not self._belongs(text):
                return None
        else:
            tool = self.rng.choice(self.catalogue.side)
            unfit = {tool, *OVERLAPS[tool], *NEAR[tool]}
            drawn = self._word(ask_recipe(tool, ask := self.rng.choice(TOOLS[tool].asks)), ask)
            if drawn is None:
                return None
            text = drawn.text
        fitting = [name for name in self.catalogue.special if name not in unfit]
        alike = [name for name in fitting if _domain(name) == _domain(tool)] or fitting
        shown = self._show([self.rng.choice(alike)], unfit)
        refusal = Fact("refusal", REFUSAL, "text", None, REFUSALS)
        return self._task(
            text, _domain(tool) or "none", shown, (Plan(),), (refusal,), self.rng.choice(REFUSAL_REPLIES), unfit
        )

    def _missing(self) -> Task | None:
        tool = self.rng.choice(self.catalogue.vague)
        drawn = self._word(ask_recipe(tool, ask := self.rng.choice(TOOLS[tool].vague)), ask)
        if drawn is None:
            return None
        given = template_fields(ask)
        missing = tuple(name for name in TOOLS[tool].spec.parameters["required"] if name not in given)
        params = TOOLS[tool].params
        facts = tuple(
            Fact(name, plain, "text", None, tuple(dict.fromkeys((plain, name.replace("_", " "), *params[name].words))))
            for name in missing
            for plain in (plain_name(params[name]),)
        )
        unfit = set(OVERLAPS[tool])
        shown = self._show([tool], unfit)
        reply = question_back([params[name] for name in missing], self.rng)
        return self._task(drawn.text, _domain(tool), shown, (Plan(),), facts, reply, unfit, missing)

    # Goals

    def _request(self, tools: Sequence[str], typo: bool = False) -> Goal | None:
        """A single call of one of `tools`."""
        tool = self.rng.choice(tools)
        ask = self.rng.choice(TOOLS[tool].asks)
        return self._goal(ask_recipe(tool, ask), ask, typo)

    def _refused(self) -> Goal | None:
        """A single call that the tool refuses at first."""
        if self.catalogue.rescue and self.rng.random() < 0.5:
            tool = self.rng.choice(self.catalogue.rescue)
            ask = self.rng.choice(TOOLS[tool].rescue)
            goal = self._goal(ask_recipe(tool, ask), ask)
            return goal if goal and goal.refused else None
        return self._request(self.catalogue.single, typo=True)

    def _recipe(self, recipes: Sequence[Recipe], typo: bool = False) -> Goal | None:
        recipe = self.rng.choice(recipes)
        return self._goal(recipe, self.rng.choice(recipe.asks), typo)

    def _chain(self, typo: bool = False) -> Goal | None:
        """Two dependent calls in the medium tier, more in the hard one where there are such."""
        chains = self.catalogue.chain
        sizes = [n for n in chains if (n == 2) == (self.tier == "medium")] or list(chains)
        return self._recipe([recipe for n in sizes for recipe in chains[n]], typo)

    def _and_more(self, first: Goal | None, count: int) -> list[Goal | None]:
        """`first` and single calls beside it that make `count` calls in all."""
        goals = [first]
        while first is not None and sum(len(goal.calls) for goal in goals if goal) < count:
            used = [call.name for goal in goals if goal for call in goal.calls]
            again = len(used) == 1 and TOOLS[used[0]].asks and self.rng.random() < 0.35
            tool = used[0] if again else self.rng.choice(self.catalogue.side)
            if any(_domain(tool) == _domain(other) and (TOOLS[tool].writes or TOOLS[other].writes) for other in used):
                return [None]
            goals.append(self._request([tool]))
            if goals[-1] is None:
                return [None]
        return goals

    def _goal(self, recipe: Recipe, ask: str, typo: bool = False) -> Goal | None:
        """The goal of a request; with `typo` one name in it is misspelt, and just that is refused."""
        drawn = self._word(recipe, ask, typo)
        self.first = False
        goal = realise(recipe, drawn.text, drawn.slots, self.running) if drawn else None
        if goal and drawn and drawn.typo:
            misspelt = [call for call in goal.calls if drawn.typo in call.arguments.values()]
            if misspelt != goal.refused:  # refused for another reason, or not at all
                return None
        return goal

    def _word(self, recipe: Recipe, ask: str, typo: bool = False) -> _Words | None:
        """A request in words and its slots, such that the question belongs to the split."""
        named = [
            slot for slot, param in slot_params(recipe).items() if param.vocabulary and slot in template_fields(ask)
        ]
        if typo and not named:
            return None
        for _ in range(_REDRAWS):
            slots = draw_slots(recipe, self.rng, self.state)
            if slots is None or (self.tier == "easy" and not all(self._belongs(word) for word in slots.values())):
                continue
            wrong = ""
            if typo:
                slot = self.rng.choice(named)
                wrong = misspell(slots[slot], self.rng)
                if wrong == slots[slot]:
                    continue
                slots[slot] = wrong
            text = say_request(ask, recipe, slots, self.rng)
            if self.tier == "easy" or self._belongs(text):
                return _Words(text, slots, wrong)
        return None

    def _belongs(self, text: str) -> bool:
        """Whether the first request of a question (any word, in the easy tier) may stand in this split."""
        if self.tier == "easy":
            return split_of(text) == (self.split if self.split in ("train", "dev") else "test")
        return not self.first or self.split.startswith("ood") or split_of(text) == self.split

    # Tasks

    def _solve(self, goals: Sequence[Goal | None], refusals: int = 0) -> Task | None:
        """The task of doing all of `goals`, which are independent of each other."""
        done = [goal for goal in goals if goal is not None]
        if not done or len(done) < len(goals) or sum(len(goal.refused) for goal in done) != refusals:
            return None
        calls: list[Call] = []
        needs: list[list[int]] = []
        facts: list[Fact] = []
        for goal in done:
            moved = shifted(goal, len(calls))
            calls, needs, facts = calls + moved.calls, needs + moved.needs, facts + moved.facts
        if any(call in calls[:at] for at, call in enumerate(calls)):
            return None
        used = list(dict.fromkeys(call.name for call in calls))
        others = [other for goal in done for other in goal.others]
        spare = {other.name for other in others if other is not None}
        unfit = {name for tool in used for name in OVERLAPS[tool]} - set(used)
        if spare and self.rng.random() < 0.4:
            shown = self._show([*used, *spare], unfit - spare)
            unfit -= spare
        else:
            shown, others = self._show(used, unfit), [None] * len(calls)
        order = canonical_order(needs)
        place = {call: position for position, call in enumerate(order)}
        moved_facts = tuple(
            Fact(fact.key, fact.value, fact.kind, place[fact.call], fact.variants)
            for fact in facts
            if fact.call is not None
        )
        text = self.rng.choice(JOINS[len(done)]).format(*(goal.text for goal in done))
        reply = " ".join(goal.reply for goal in done)
        plans = equivalent_plans(calls, needs, others)
        return self._task(text, _domain(calls[0].name), shown, plans, moved_facts, reply, unfit)

    def _show(self, needed: Sequence[str], unfit: set[str]) -> tuple[str, ...]:
        """Names of the tools to show: the needed ones and others, look-alikes first in the hard tier."""
        free = [name for name in tool_pool(self.split, self.tier) if name not in needed and name not in unfit]
        domains = {_domain(name) for name in needed}
        alike = [name for name in free if _domain(name) in domains]
        if self.tier == "easy":
            count, close = 4, 0
        elif self.tier == "medium":
            count, close = max(len(needed) + 1, self.rng.randint(4, 6)), 2
        else:
            count, close = max(len(needed) + 4, self.rng.randint(9, 14)), 7
        shown = [*needed, *self.rng.sample(alike, min(close, len(alike), count - len(needed)))]
        shown += self.rng.sample([name for name in free if name not in shown], count - len(shown))
        self.rng.shuffle(shown)
        return tuple(shown)

    def _task(
        self,
        text: str,
        domain: str,
        shown: tuple[str, ...],
        plans: tuple[Plan, ...],
        facts: tuple[Fact, ...],
        reply: str,
        unfit: set[str],
        missing: tuple[str, ...] = (),
    ) -> Task:
        messages: list[dict[str, Any]] = []
        if self.tier != "easy":
            messages.append({"role": "system", "content": SYSTEM})
            text = (self.rng.choice(OPENINGS) if self.rng.random() < 0.2 else "") + text
            text += self.rng.choice(THANKS) if self.rng.random() < 0.2 else ""
        messages.append({"role": "user", "content": text})
        return Task(
            id=self.id,
            split=self.split,
            category=self.category,
            tier=self.tier,
            domain=domain,
            messages=tuple(messages),
            tools=shown,
            plans=plans,
            facts=facts,
            state=dict(self.state),
            reply=reply,
            missing=missing,
            barred=tuple(sorted(unfit)),
        )


def _domain(tool: str) -> str:
    return TOOLS[tool].spec.domain if tool else ""
