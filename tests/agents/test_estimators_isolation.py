"""The lock on a real transformer: which reward moves the gradient through which tokens, bit by bit."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.estimators import ChoicePoint, Group, estimator  # noqa: E402
from toolcredit.agents.estimators.exact_action import choice_objective  # noqa: E402
from toolcredit.agents.trajectory import Segment  # noqa: E402
from toolcredit.llm.tiny import tiny_model  # noqa: E402

# Two tool steps, one, none: prompt, call, answer, (call, answer), summary
RUNS = [
    [(0, 5), (1, 4), (0, 3), (1, 3), (0, 3), (2, 4)],
    [(0, 5), (1, 6), (0, 4), (2, 3)],
    [(0, 5), (1, 4), (0, 3), (1, 2), (0, 2), (2, 2)],
    [(0, 5), (2, 6)],
]
PROCESS, SUMMARY = [0.9, 0.25, 0.4, 0.0], [0.5, 0.25, 1.0, 0.75]
OTHER_PROCESS, OTHER_SUMMARY = [0.1, 0.7, 0.2, 0.0], [0.0, 1.0, 0.25, 0.5]
LOCKED = ["slca", "slca_gigpo", "slca_exact"]


@pytest.fixture(scope="module")
def model():
    return tiny_model(seed=0)[0]


def group(process=PROCESS, summary=SUMMARY, omitted=False):
    segment = [np.repeat([kind for kind, _ in runs], [n for _, n in runs]) for runs in RUNS]
    step = []
    for runs in RUNS:
        count = np.cumsum([kind != 0 for kind, _ in runs]) - 1
        step.append(
            np.repeat([k if kind else -1 for k, (kind, _) in zip(count, runs, strict=True)], [n for _, n in runs])
        )
    total = np.add(process, summary)
    anchors = [[("start",), *[(i, k) for k in range(1, own.max() + 1)]] for i, own in enumerate(step)]
    points = [
        ChoicePoint(i, (6, 8), np.log([0.5, 0.3, 0.2]), [process[i], 0.3, 0.6], drawn=0) for i in range(len(RUNS) - 1)
    ]
    rewards = {"process": process, "summary": summary, "total": total}
    g = Group(rewards, [s != 0 for s in segment], step, segment, anchors=anchors, choices=points)
    g = replace(g, omitted=[False, False, False, omitted])
    return g.at_last_step("process", Segment.TOOL)


def gradient(model, group, name, segment=None, **options):
    """Gradient of Σ Â log π over the tokens of a segment, with the exact choices where there are some."""
    advantages = estimator(name, **options)(group)
    generator = torch.Generator().manual_seed(1)
    objective = torch.zeros(())
    for member, own in enumerate(advantages.tokens):
        ids = torch.randint(3, 500, (1, len(own)), generator=generator)
        logprobs = torch.log_softmax(model(input_ids=ids).logits[0], -1)
        taken = logprobs[:-1].gather(1, ids[0, 1:, None])[:, 0]
        weights = torch.as_tensor(own * group.mask(member, segment), dtype=taken.dtype)[1:]
        objective = objective + (weights * taken).sum()
        for point, by_name in zip(group.choices, advantages.choices, strict=False):
            if point.member == member and segment in (None, Segment.TOOL):
                names = logprobs[point.tokens[0] - 1, [10, 20, 30]]
                objective = objective + choice_objective(names, names.detach(), torch.as_tensor(by_name).float())[0]
    model.zero_grad()
    objective.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("name", LOCKED)
def test_the_summarys_reward_does_not_reach_a_tool_token(model, name):
    before = gradient(model, group(), name, Segment.TOOL)
    after = gradient(model, group(summary=OTHER_SUMMARY), name, Segment.TOOL)
    assert before.any()
    assert torch.equal(before, after)


@pytest.mark.parametrize("name", LOCKED)
def test_the_tools_reward_does_not_reach_a_summary_token(model, name):
    before = gradient(model, group(), name, Segment.SUMMARY)
    after = gradient(model, group(process=OTHER_PROCESS), name, Segment.SUMMARY)
    assert before.any()
    assert torch.equal(before, after)


@pytest.mark.parametrize("name", LOCKED)
def test_each_reward_moves_its_own_tokens(model, name):
    before, after = (gradient(model, group(summary=s), name, Segment.SUMMARY) for s in (SUMMARY, OTHER_SUMMARY))
    assert not torch.equal(before, after)
    before, after = (gradient(model, group(process=p), name, Segment.TOOL) for p in (PROCESS, OTHER_PROCESS))
    assert not torch.equal(before, after)


@pytest.mark.parametrize("name", LOCKED)
def test_with_a_dead_summary_the_whole_gradient_is_the_tools(model, name):
    whole = [gradient(model, group(summary=[score] * 4), name) for score in (0.25, 0.75)]
    assert torch.equal(*whole)
    assert torch.equal(whole[0], gradient(model, group(summary=OTHER_SUMMARY), name, Segment.TOOL))


@pytest.mark.parametrize(("name", "options"), [("grpo", {}), ("toolpo", {"action": "process"}), ("mt_grpo", {})])
def test_estimators_without_the_lock_do_mix(model, name, options):
    before = gradient(model, group(), name, Segment.TOOL, **options)
    after = gradient(model, group(summary=OTHER_SUMMARY), name, Segment.TOOL, **options)
    assert not torch.equal(before, after)


def test_rltr_trains_no_summary_token(model):
    assert not gradient(model, group(), "rltr", Segment.SUMMARY, reward="process").any()
    assert gradient(model, group(), "rltr", Segment.TOOL, reward="process").any()


def test_the_guard_is_the_one_way_from_calls_to_the_summary(model):
    """That the last member should have called changes the summary's gradient; with the guard off, it does not."""
    missed, fine = group(omitted=True), group(omitted=False)
    assert not torch.equal(*(gradient(model, g, "slca", Segment.SUMMARY) for g in (missed, fine)))
    assert torch.equal(*(gradient(model, g, "slca", Segment.SUMMARY, guard=False) for g in (missed, fine)))
    assert torch.equal(*(gradient(model, g, "slca", Segment.TOOL) for g in (missed, fine)))


def test_under_the_guard_the_judges_score_of_a_missed_call_is_ignored(model):
    scores = [[0.5, 0.25, 1.0, score] for score in (0.0, 1.0)]
    guarded = [gradient(model, group(summary=s, omitted=True), "slca") for s in scores]
    assert torch.equal(*guarded)
