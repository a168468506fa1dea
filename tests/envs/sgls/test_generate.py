"""The seeded generator: determinism, gold plans, facts, splits, ambiguity."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
import time
from collections import Counter

import jsonschema
import pytest
from toolcredit.envs.sgls.generate import CYCLE, KINDS, generate_tasks
from toolcredit.envs.sgls.generation.catalogue import catalogue
from toolcredit.envs.sgls.generation.plans import MAX_PLANS
from toolcredit.envs.sgls.pack import NEAR, OVERLAPS, SPECS, TOOLS, execute
from toolcredit.envs.sgls.splits import EASY_DOMAIN, HELD_OUT_DOMAINS, HELD_OUT_TOOLS, split_of, tool_pool
from toolcredit.envs.sgls.tasks import CATEGORIES, SPLITS, TIERS, Call, Plan, Task
from toolcredit.errors import UnknownNameError, UsageError


@functools.cache
def tasks() -> tuple[Task, ...]:
    return generate_tasks(3000, seed=0)


@functools.cache
def with_calls() -> tuple[Task, ...]:
    return tuple(task for task in tasks() if not task.abstains)


def run(plan: Plan, task: Task) -> tuple[list[dict], dict]:
    """Answers of a plan's calls in order, and the state it leaves."""
    state = task.new_state()
    return [execute(call.name, call.arguments, state) for call in plan.calls], state


def leaves(value):
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    if isinstance(value, list):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


class TestDeterminism:
    def test_same_seed_same_tasks(self):
        assert generate_tasks(300, seed=3) == generate_tasks(300, seed=3)

    def test_a_longer_list_begins_with_the_shorter_one(self):
        assert generate_tasks(120) == tasks()[:120]

    def test_leaving_kinds_out_changes_no_other_task(self):
        wanted = {"splits": ("train", "test"), "categories": ("serial", "missing"), "tiers": "hard"}
        some = generate_tasks(60, **wanted)
        fitting = [task for task in tasks() if task.split in wanted["splits"] and task.tier == "hard"]
        kept = [task for task in fitting if task.category in wanted["categories"]]
        assert list(some) == kept[:60]

    def test_known_digest(self):
        """A change of the pack or the generator changes everybody's tasks: do it knowingly and say so."""
        text = json.dumps([task.to_json() for task in tasks()[:400]], sort_keys=True)
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == "11aeecc33fc86b95"

    def test_other_seed_other_tasks(self):
        other = generate_tasks(200, seed=1)
        assert not {task.digest() for task in other} & {task.digest() for task in tasks()}
        assert len({task.question for task in other} & {task.question for task in tasks()}) < 30

    def test_global_generators_stay_untouched(self):
        import random

        before = random.getstate()
        generate_tasks(20)
        assert random.getstate() == before

    @pytest.mark.slow
    def test_speed(self):
        start = time.process_time()
        generate_tasks(3000, seed=5)
        assert time.process_time() - start < 6, "3,000 tasks take two seconds on a free core"


class TestCounts:
    def test_every_kind_meets_every_split(self):
        counts = Counter((task.split, task.category, task.tier) for task in tasks())
        for split, (category, tier) in itertools.product(SPLITS, set(KINDS)):
            if (split, tier) != ("ood_domain", "easy"):
                assert counts[split, category, tier] >= 5, (split, category, tier)
        assert (
            set(CYCLE) == set(SPLITS)
            and {c for c, _ in KINDS} == set(CATEGORIES)
            and {t for _, t in KINDS} == set(TIERS)
        )

    def test_proportions(self):
        assert len(tasks()) == 3000
        assert Counter(task.category for task in tasks()) == {
            "single": 900, "serial": 600, "parallel": 300, "mixed": 300,
            "irrelevant": 300, "missing": 300, "recover": 300,
        }  # fmt: skip
        assert Counter(task.split for task in tasks()) == {
            "train": 1950, "dev": 150, "test": 300, "ood_tool": 300, "ood_domain": 300,
        }  # fmt: skip

    def test_ids_and_contents_are_unique(self):
        assert len({task.id for task in tasks()}) == len(tasks())
        assert len({task.digest() for task in tasks()}) == len(tasks())

    def test_nearly_every_tool_is_used(self):
        used = {call.name for task in tasks() for plan in task.plans for call in plan.calls}
        assert used == set(TOOLS)

    def test_thousands_of_easy_tasks(self):
        easy = generate_tasks(2000, tiers="easy", splits="train")
        assert len({task.question for task in easy}) == 2000


class TestGold:
    def test_every_plan_runs_and_gives_the_facts(self):
        for task in with_calls():
            answers, _ = run(task.gold, task)
            errors = [index for index, answer in enumerate(answers) if "error" in answer]
            assert len(errors) == (task.category == "recover"), task.id
            for fact in task.facts:
                assert fact.call not in errors
                assert fact.value in leaves(answers[fact.call]), (task.id, fact)

    def test_every_answer_fits_its_schema(self):
        validators = {name: jsonschema.Draft202012Validator(spec.response) for name, spec in SPECS.items()}
        for task in with_calls():
            answers, _ = run(task.gold, task)
            for call, answer in zip(task.gold.calls, answers, strict=True):
                validators[call.name].validate(answer)

    def test_a_refusal_says_how_to_go_on_and_the_next_step_does_so(self):
        codes: Counter[str] = Counter()
        for task in with_calls():
            if task.category != "recover":
                continue
            answers, _ = run(task.gold, task)
            at, error = next((at, a["error"]) for at, a in enumerate(answers) if "error" in a)
            refused = task.gold.calls[at]
            corrected = {**refused.arguments, **error["retry_with"]}
            step = next(n for n, calls in enumerate(task.gold.steps) if refused in calls)
            assert Call(refused.name, corrected) in task.gold.steps[step + 1], task.id
            codes[error["code"]] += 1
            if error["code"] != "not_found":  # a misspelt name speaks for itself, anything else the user must allow
                assert re.search(r"\bif\b|\bor\b|reduce", task.question.lower()), task.question
        assert codes["not_found"] > 50 and codes["conflict"] > 5 and codes["unavailable"] > 20

    def test_equivalent_plans_lead_to_the_same(self):
        for task in with_calls():
            answers, state = run(task.gold, task)
            values = sorted(str(fact.value) for fact in task.facts)
            for plan in task.plans[1:]:
                others, other_state = run(plan, task)
                assert other_state == state, task.id
                assert len(plan.steps) == len(task.gold.steps) and len(plan.calls) == len(task.gold.calls)
                assert sum("error" in answer for answer in others) == (task.category == "recover")
                found = [str(leaf) for answer in others for leaf in leaves(answer)]
                assert all(value in found for value in values), task.id

    def test_order_within_a_step_does_not_matter(self):
        for task in with_calls():
            backwards = Plan(tuple(tuple(reversed(step)) for step in task.gold.steps))
            answers, state = run(task.gold, task)
            others, other_state = run(backwards, task)
            assert other_state == state
            assert sorted(map(str, answers)) == sorted(map(str, others))

    def test_plans_are_different_and_few(self):
        assert max(len(task.plans) for task in tasks()) > 3
        for task in tasks():
            texts = [json.dumps(plan.to_json()) for plan in task.plans]
            assert len(set(texts)) == len(texts) <= MAX_PLANS

    def test_arguments_fit_their_schemas(self):
        validators = {name: jsonschema.Draft202012Validator(spec.parameters) for name, spec in SPECS.items()}
        for task in with_calls():
            for plan in task.plans:
                for call in plan.calls:
                    validators[call.name].validate(call.arguments)

    def test_arguments_are_no_defaults(self):
        """A default that is given or left out would be two right answers."""
        for task in with_calls():
            for call in task.gold.calls:
                for key, value in call.arguments.items():
                    assert TOOLS[call.name].params[key].default != value, (task.id, call)

    def test_first_step_is_stated_by_the_user(self):
        for task in with_calls():
            text = task.question.lower()
            for call in task.gold.steps[0]:
                for key, value in call.arguments.items():
                    for said in stated(TOOLS[call.name].params[key], value):
                        assert any(wording.lower() in text for wording in said), (task.id, call, key)

    def test_later_arguments_are_stated_or_come_from_an_answer(self):
        for task in with_calls():
            text = task.question.lower()
            answers, _ = run(task.gold, task)
            known = {str(leaf) for answer in answers for leaf in leaves(answer)}
            for call in task.gold.calls:
                for key, value in call.arguments.items():
                    for said in stated(TOOLS[call.name].params[key], value):
                        assert any(w.lower() in text for w in said) or said[-1] in known, (task.id, call, key)

    def test_a_serial_step_needs_the_one_before(self):
        for task in with_calls():
            if task.category != "serial":
                continue
            answers, _ = run(task.gold, task)
            assert all(len(step) == 1 for step in task.gold.steps) and len(task.gold.steps) > 1
            for before, after in itertools.pairwise(task.gold.steps):
                reads = {str(leaf) for leaf in leaves(after[0].arguments)} & {str(leaf) for leaf in leaves(answers)}
                same = TOOLS[before[0].name].writes and SPECS[before[0].name].domain == SPECS[after[0].name].domain
                assert reads or same, task.id

    def test_shapes(self):
        for task in with_calls():
            sizes = [len(step) for step in task.gold.steps]
            match task.category:
                case "single":
                    assert sizes == [1]
                case "parallel":
                    assert len(sizes) == 1 and sizes[0] >= (2 if task.tier == "medium" else 3)
                case "serial":
                    assert set(sizes) == {1} and (len(sizes) == 2) == (task.tier == "medium")
                case "mixed":
                    assert len(sizes) >= 2 and sum(sizes) > len(sizes)
                case "recover":
                    assert sum(sizes) >= 2

    def test_abstaining(self):
        for task in tasks():
            assert task.abstains == (task.category in ("irrelevant", "missing"))
            assert (task.category == "missing") == bool(task.missing)
            if task.abstains:
                assert task.plans == (Plan(),) and task.facts and all(fact.call is None for fact in task.facts)


def stated(param, value) -> list[tuple[str, ...]]:
    """For each leaf of an argument the texts that state it; the last one is the plain value."""
    if isinstance(value, list):
        return [said for item in value for said in stated(param.items, item)]
    if isinstance(value, dict):
        return [said for key, part in value.items() for said in stated(param.fields[key], part)]
    return [(*param.renderings(value), str(value))]


class TestReplies:
    def test_reply_states_every_fact(self):
        for task in tasks():
            reply = task.reply.lower()
            assert task.facts
            for fact in task.facts:
                assert any(variant.lower() in reply for variant in fact.variants), (task.id, fact)
                assert fact.call is None or str(fact.value) in fact.variants

    def test_reply_invents_no_number(self):
        for task in with_calls():
            answers, _ = run(task.gold, task)
            known = {number for text in (str(answers), task.question, str(task.gold)) for number in numbers(text)}
            for number in numbers(task.reply):
                assert number in known, (task.id, number, task.reply)

    def test_wording(self):
        for task in tasks():
            for text in (task.question, task.reply):
                assert (
                    text == text.strip()
                    and "  " not in text
                    and "{" not in text
                    and not re.search("None(?! of my tools)", text)
                ), task.id
            assert task.tier == "easy" or (task.question[0].isupper() and not task.reply[0].islower())
            assert task.tier == "easy" or task.messages[0]["role"] == "system"
            assert task.tier != "easy" or len(task.messages) == 1

    def test_facts_by_kind(self):
        kinds = Counter(fact.kind for task in tasks() for fact in task.facts)
        assert all(kinds[kind] > 50 for kind in ("number", "name", "date", "time", "text"))


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d+(?:\.\d+)?", text)]


class TestTools:
    def test_shown_tools(self):
        for task in tasks():
            assert len(set(task.tools)) == len(task.tools)
            assert set(task.tools) <= set(tool_pool(task.split, task.tier))
            assert not set(task.tools) & set(task.barred), task.id
            needed = {call.name for plan in task.plans for call in plan.calls}
            assert needed <= set(task.tools)
            if task.tier == "easy":
                assert len(task.tools) == 4
            elif task.tier == "hard":
                assert len(task.tools) >= 9 and len(task.tools) > len(needed)

    def test_no_other_tool_would_do(self):
        for task in with_calls():
            needed = {call.name for plan in task.plans for call in plan.calls}
            for name in {call.name for call in task.gold.calls}:
                assert OVERLAPS[name] <= needed | set(task.barred), task.id

    def test_irrelevant_tasks_show_no_tool_that_serves(self):
        for task in tasks():
            if task.category == "irrelevant" and task.barred:
                asked = [name for name in task.barred if OVERLAPS[name] | NEAR[name] | {name} == set(task.barred)]
                assert asked, task.id

    def test_missing_parameter_is_required_and_its_tool_shown(self):
        for task in tasks():
            if task.category == "missing":
                fitting = [n for n in task.tools if set(task.missing) <= set(SPECS[n].parameters["required"])]
                assert fitting, task.id

    def test_hard_tasks_have_look_alikes(self):
        hard = [task for task in with_calls() if task.tier == "hard"]
        alike = [sum(SPECS[name].domain == task.domain for name in task.tools) for task in hard]
        assert sum(alike) / len(alike) > 4

    def test_right_tool_stands_anywhere(self):
        places = Counter(task.tools.index(task.gold.calls[0].name) for task in with_calls() if task.tier == "easy")
        assert all(places[place] > 50 for place in range(4))


class TestSplits:
    def test_questions_of_splits_are_disjoint_across_seeds(self):
        by_split: dict[str, set[str]] = {split: set() for split in SPLITS}
        for task in (*tasks(), *generate_tasks(600, seed=9), *generate_tasks(600, seed=10)):
            by_split[task.split].add(task.question)
        for one, two in itertools.combinations(("train", "dev", "test"), 2):
            assert not by_split[one] & by_split[two]

    def test_easy_words_are_unseen(self):
        words = {split: set() for split in SPLITS}
        for task in tasks():
            if task.tier == "easy":
                words[task.split] |= set(task.gold.calls[0].arguments.values())
        for one, two in itertools.combinations(("train", "dev", "test"), 2):
            assert words[one] and not words[one] & words[two]
        assert not words["ood_tool"] & words["train"]
        assert {split_of(word) for word in words["dev"]} == {"dev"}

    def test_held_out_tools(self):
        for task in tasks():
            seen = set(task.tools)
            if task.split in ("train", "dev", "test"):
                assert not seen & set(HELD_OUT_TOOLS)
                assert not {SPECS[name].domain for name in seen} & set(HELD_OUT_DOMAINS)
            elif task.split == "ood_tool":
                needed = {call.name for call in task.gold.calls} or seen
                assert needed & set(HELD_OUT_TOOLS), task.id
                assert not {SPECS[name].domain for name in seen} & set(HELD_OUT_DOMAINS)
            else:
                needed = {call.name for call in task.gold.calls} or seen
                assert {SPECS[name].domain for name in needed} & set(HELD_OUT_DOMAINS), task.id

    def test_held_out_names_exist(self):
        assert set(HELD_OUT_TOOLS) <= set(SPECS)
        assert set(HELD_OUT_DOMAINS) <= {spec.domain for spec in SPECS.values()}
        held_out_easy = [name for name in HELD_OUT_TOOLS if SPECS[name].domain == EASY_DOMAIN]
        assert len(tool_pool("train", "easy")) == 12 and len(tool_pool("ood_tool", "easy")) == 12 + len(held_out_easy)

    def test_catalogues_are_rich(self):
        train = catalogue("train", "hard")
        assert len(train.single) > 80 and len(train.vague) > 50 and len(train.rescue) >= 5 and len(train.fan) >= 5
        assert len(train.chain[2]) > 20 and sum(len(r) for n, r in train.chain.items() if n > 2) > 10
        assert sum(map(len, train.mixed.values())) > 10


class TestMisuse:
    def test_unknown_names(self):
        with pytest.raises(UnknownNameError, match="did you mean 'serial'"):
            generate_tasks(1, categories=["seriel"])
        with pytest.raises(UnknownNameError, match="split"):
            generate_tasks(1, splits="validation")

    def test_impossible_wishes(self):
        with pytest.raises(UsageError, match="0 or more"):
            generate_tasks(-1)
        with pytest.raises(UsageError, match="easy tier has only single calls"):
            generate_tasks(1, categories="serial", tiers="easy")
        assert generate_tasks(0) == ()
