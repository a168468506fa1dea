import json
from collections import Counter
from random import Random

import pytest
from toolcredit.envs.sgls.generate import generate_tasks
from toolcredit.envs.sgls.mock_embedded import EmbeddedMock
from toolcredit.envs.sgls.mocks import Scene, is_error
from toolcredit.envs.sgls.pack import OVERLAPS, SPECS
from toolcredit.envs.sgls.parsing import RawCall
from toolcredit.envs.sgls.presentation import Presenter, own_specs, similarity
from toolcredit.envs.sgls.tasks import Call, Plan, Task, ToolSpec
from toolcredit.envs.sgls.validation import Toolbox
from toolcredit.envs.sgls.variants import KINDS, check_kinds, vary
from toolcredit.errors import ConfigError, TaskError

TASKS = generate_tasks(200)


def answers_to_gold(presentation):
    """The answers of the embedded back ends to the canonical plan, as an agent would see them."""
    task, variation = presentation.task, presentation.variation
    session = EmbeddedMock().start(
        Scene(presentation.toolbox.specs, task.new_state(), variation, checked=variation is None)
    )
    return [session.respond([call], ())[0] for call in task.gold.calls]


@pytest.mark.parametrize(
    "kinds", [*((kind,) for kind in KINDS), KINDS], ids=lambda kinds: kinds[0] if len(kinds) == 1 else "all"
)
def test_every_gold_plan_still_fits_and_is_answered_as_before(kinds):
    plain, varied = Presenter(), Presenter(variants=kinds, seed=3)
    changed = 0
    for task in TASKS:
        before, after = plain.present(task), varied.present(task)
        shown = after.task
        assert (len(shown.plans), shown.facts, shown.messages) == (len(task.plans), task.facts, task.messages)
        for plan in shown.plans:
            for call in plan.calls:
                if call.name in after.toolbox.specs:
                    assert after.toolbox.check(RawCall(call.name, call.arguments)).problems == (), (task.id, call)
        old, new = answers_to_gold(before), answers_to_gold(after)
        for one, other in zip(old, new, strict=True):
            assert is_error(one) == is_error(other)
            if not is_error(one):
                assert one == other
        changed += after.toolbox.openai() != before.toolbox.openai()
    assert changed > 50


def test_a_recovery_hint_speaks_of_the_shown_parameters():
    presenter = Presenter(variants=("rename_parameters", "rename_tools"), seed=1)
    seen = 0
    for task in (task for task in TASKS if task.category == "recover"):
        presentation = presenter.present(task)
        for call, answer in zip(presentation.task.gold.calls, answers_to_gold(presentation), strict=True):
            hint = answer.get("error", {}).get("retry_with") if is_error(answer) else None
            if hint:
                seen += 1
                assert set(hint) <= set(presentation.toolbox.specs[call.name].parameters["properties"])
    assert seen


def test_presentations_depend_on_seed_and_task_only():
    def shown(seed, kinds="all", distractors=5):
        presenter = Presenter(distractors, variants=kinds, seed=seed)
        return [json.dumps(presenter.present(task).toolbox.openai()) for task in TASKS[:20]]

    assert shown(1) == shown(1)
    assert shown(1) != shown(2)
    backwards = Presenter(5, variants="all", seed=1)
    assert [json.dumps(backwards.present(task).toolbox.openai()) for task in reversed(TASKS[:20])] == shown(1)[::-1]


def test_the_task_itself_is_not_changed():
    before = [task.to_json() for task in TASKS[:30]]
    for task in TASKS[:30]:
        Presenter(5, variants="all").present(task)
    assert [task.to_json() for task in TASKS[:30]] == before
    assert all(spec.openai() for spec in SPECS.values())


BOOK = ToolSpec(
    "book_room",
    "Book a room.",
    {
        "type": "object",
        "properties": {
            "guests": {"type": "integer", "minimum": 1, "maximum": 500, "description": "How many."},
            "view": {"type": "string", "enum": ["sea", "garden", "street", "yard", "park"]},
            "note": {"type": "string"},
            "nights": {"type": "integer", "minimum": 1, "default": 1},
        },
        "required": ["guests"],
        "additionalProperties": False,
    },
)
TASK = Task(
    "t", "train", "single", "easy", "hotel", ({"role": "user", "content": "?"},), ("book_room",),
    (Plan(((Call("book_room", {"guests": 2, "view": "sea", "note": "quiet"}),),)),), specs=(BOOK,),
)  # fmt: skip


def varied(*kinds, seed=0):
    task, variation = vary(TASK, [BOOK], kinds, Random(seed))
    return task, variation, variation.specs[0]


def test_renaming_tools_and_parameters():
    task, variation, spec = varied("rename_tools", "rename_parameters")
    assert spec.name != "book_room" and task.tools == (spec.name,)
    assert not set(spec.parameters["properties"]) & set(BOOK.parameters["properties"])
    assert set(spec.parameters["required"]) <= set(spec.parameters["properties"])
    (call,) = task.gold.calls
    assert variation.restore(call) == TASK.gold.calls[0]
    assert variation.original_name(spec.name) == "book_room"


def test_tightening_and_widening():
    _, _, tight = varied("tighten", seed=1)
    properties = tight.parameters["properties"]
    assert properties["guests"]["maximum"] < 500 and "sea" in properties["view"]["enum"]
    assert len(properties["view"]["enum"]) < 5 and properties["note"]["maxLength"] >= 5
    _, _, wide = varied("widen")
    properties = wide.parameters["properties"]
    assert properties["guests"] == {"type": "number", "description": "How many."}
    assert properties["view"] == {"type": "string"}
    assert Toolbox([wide]).check(RawCall("book_room", {"guests": 0.5, "bed": "big"})).problems == ()


def test_what_a_widened_schema_lets_through_is_refused_by_the_tool_itself():
    task = next(
        task for task in TASKS if task.category == "single" and task.tier == "medium" and task.gold.calls[0].arguments
    )
    presentation = Presenter(variants=("widen",)).present(task)
    call = presentation.task.gold.calls[0]
    scene = Scene(presentation.toolbox.specs, task.new_state(), presentation.variation, checked=False)
    (answer,) = EmbeddedMock().start(scene).respond([Call(call.name, {**call.arguments, "surprise": 1})], ())
    assert answer["error"]["code"] == "invalid_argument" and "surprise" in answer["error"]["message"]


def test_required_defaults_are_stated_by_the_gold():
    for seed in range(20):
        task, _, spec = varied("require", seed=seed)
        if "nights" in spec.parameters["required"]:
            assert task.gold.calls[0].arguments["nights"] == 1
            return
    raise AssertionError("never required")


def test_descriptions_can_be_reworded_or_dropped():
    _, _, reworded = varied("paraphrase")
    assert "Book a room." in reworded.description != BOOK.description
    _, _, bare = varied("drop_descriptions")
    assert bare.description == "" and "description" not in json.dumps(bare.parameters)


def test_a_schema_that_refers_to_its_names_keeps_them():
    schema = {**BOOK.parameters, "dependentRequired": {"view": ["note"]}}
    task, variation = vary(TASK, [ToolSpec("book_room", "Book.", schema)], KINDS, Random(1))
    assert variation.specs[0].parameters == schema
    assert task.gold.calls[0].arguments == TASK.gold.calls[0].arguments


def test_kinds_are_checked():
    assert check_kinds(None) == () and check_kinds("all") == KINDS and check_kinds("widen") == ("widen",)
    with pytest.raises(ConfigError, match="'shuffle' is unknown.*rename_tools"):
        check_kinds(["shuffle"])


# --- distractors


@pytest.mark.parametrize("hard", [False, True])
def test_distractors_are_added_without_touching_the_task(hard):
    for task in TASKS[:60]:
        shown = list(Presenter(12, hard, seed=1).present(task).toolbox.specs)
        own = {spec.name for spec in own_specs(task)}
        assert own <= set(shown) and len(shown) == len(set(shown))
        if task.tier != "easy":
            assert len(shown) == len(own) + 12
        used = {call.name for plan in task.plans for call in plan.calls}
        for name in set(shown) - own:
            assert not any(name in OVERLAPS[gold] for gold in used)
            assert not (task.abstains and SPECS[name].domain == task.domain)


def test_hard_distractors_are_more_similar():
    def mean_similarity(hard):
        scores = []
        for task in (t for t in TASKS if t.tier == "hard" and not t.abstains):
            shown = Presenter(5, hard, seed=1).present(task).toolbox.specs
            gold = [shown[call.name] for call in task.gold.calls]
            own = set(task.tools)
            scores += [max(similarity(spec, g) for g in gold) for name, spec in shown.items() if name not in own]
        return sum(scores) / len(scores)

    assert mean_similarity(True) > 2 * mean_similarity(False)


def test_many_distractors_stand_in_no_fixed_order():
    task = next(task for task in TASKS if task.tier == "hard")
    presentation = Presenter(150, seed=1).present(task)
    assert len(presentation.toolbox.specs) > 60
    places = Counter(
        list(Presenter(20, seed=seed).present(task).toolbox.specs).index(task.tools[0]) for seed in range(30)
    )
    assert len(places) > 8


def test_tasks_with_tools_of_their_own_draw_distractors_from_the_given_pool():
    pool = {f"tool_{i}": ToolSpec(f"tool_{i}", f"Tool {i}.", {"type": "object"}) for i in range(5)}
    shown = Presenter(3, pool={**pool, "book_room": BOOK}).present(TASK).toolbox.specs
    assert len(shown) == 4 and "book_room" in shown


def test_wrong_settings_and_broken_tasks_are_told():
    with pytest.raises(ConfigError, match="distractors=-1"):
        Presenter(-1)
    with pytest.raises(ConfigError, match="strictness"):
        Presenter(strictness="loose")
    with pytest.raises(TaskError, match="shows the tool 'nope'"):
        Presenter().present(Task("t", "train", "single", "easy", "", (), ("nope",), (Plan(),)))
    bad = ToolSpec("bad", "", {"$ref": "https://example.org/schema"})
    with pytest.raises(TaskError, match="task 't': tool 'bad': .*fetched"):
        Presenter().present(Task("t", "train", "single", "easy", "", (), ("bad",), (Plan(),), specs=(bad,)))
