"""The objectives against autograd, closed forms and each other."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.advantages import group_normalised  # noqa: E402
from toolcredit.agents.losses import exact_objective, kl_low_variance, ppo_clip, valid_mass  # noqa: E402
from toolcredit.rewards.subset import differential, eq1  # noqa: E402

SIZES = np.array([bin(a).count("1") for a in range(16)])


def logits(seed: int = 0, questions: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(questions, 16, generator=generator, dtype=torch.float64).requires_grad_()


def outcomes(seed: int = 0, questions: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).random((questions, 16)) < 0.5


def gradient(value: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(value, z, retain_graph=True)[0]


def test_gradient_of_expected_reward_is_the_closed_form():
    z = logits()
    rewards = torch.as_tensor(eq1(outcomes(), SIZES, 4))
    exact = exact_objective(z, rewards)
    closed = exact.q * (rewards - exact.expected_reward[:, None])
    torch.testing.assert_close(gradient(exact.expected_reward.sum(), z), closed, rtol=0, atol=1e-12)


def test_gradient_of_entropy_is_the_closed_form():
    z = logits()
    exact = exact_objective(z, torch.zeros(5, 16, dtype=torch.float64))
    closed = -exact.q * (exact.q.log() + exact.entropy[:, None])
    torch.testing.assert_close(gradient(exact.entropy.sum(), z), closed, rtol=0, atol=1e-12)


def test_temperature_divides_the_gradient():
    z = logits()
    rewards = torch.as_tensor(eq1(outcomes(), SIZES, 4))
    warm = exact_objective(z, rewards, temperature=0.2)
    closed = warm.q * (rewards - warm.expected_reward[:, None]) / 0.2
    torch.testing.assert_close(gradient(warm.expected_reward.sum(), z), closed, rtol=0, atol=1e-12)


def test_without_parsimony_eq1_has_twice_the_differential_gradient():
    # r_diff = ½(±1) + a constant per question, and constants drop out of the gradient
    z, correct = logits(), outcomes()
    eq = exact_objective(z, torch.as_tensor(eq1(correct, SIZES, 4, parsimony=0.0)))
    raw = torch.as_tensor(correct.astype(float) - correct[:, :1])
    diff = exact_objective(z, raw)
    torch.testing.assert_close(
        gradient(eq.expected_reward.sum(), z), 2 * gradient(diff.expected_reward.sum(), z), rtol=0, atol=1e-12
    )
    trained = exact_objective(z, torch.as_tensor(differential(correct, SIZES, 4)))
    torch.testing.assert_close(
        gradient(trained.expected_reward.sum(), z), 0.95 * gradient(diff.expected_reward.sum(), z), rtol=0, atol=1e-12
    )


def test_subset_dial_renormalises_on_the_drawn_actions():
    z = logits()
    rewards = torch.as_tensor(eq1(outcomes(), SIZES, 4))
    subset = torch.zeros(5, 16, dtype=torch.bool)
    subset[:, [1, 3, 7]] = True
    part = exact_objective(z, rewards, subset=subset)
    alone = exact_objective(z[:, [1, 3, 7]], rewards[:, [1, 3, 7]])
    torch.testing.assert_close(part.expected_reward, alone.expected_reward)
    torch.testing.assert_close(part.entropy, alone.entropy)
    outside = gradient((part.expected_reward + part.entropy).sum(), z)[:, [0, 2, 4]]
    assert torch.equal(outside, torch.zeros_like(outside))


def test_grpo_without_scaling_expects_the_exact_gradient():
    """Enumerate every group of a tabular policy: E[gradient] = (1 − 1/G) × exact, the mean's own share missing."""
    z = torch.tensor([0.3, -0.5, 0.1], dtype=torch.float64, requires_grad=True)
    rewards, group = np.array([1.0, -0.4, 0.2]), 3
    exact = gradient(exact_objective(z[None], torch.as_tensor(rewards)[None]).expected_reward.sum(), z)
    probabilities = torch.softmax(z, -1).detach()
    expected = torch.zeros(3, dtype=torch.float64)
    for actions in itertools.product(range(3), repeat=group):
        advantages = group_normalised(rewards[list(actions)], scale=False)
        loss, _ = one_token_surrogate(z, actions, advantages)
        expected += probabilities[list(actions)].prod() * gradient(-loss, z)
    torch.testing.assert_close(expected, (1 - 1 / group) * exact, rtol=0, atol=1e-12)


def test_grpo_with_scaling_converges_to_the_exact_direction_as_groups_grow():
    z = torch.tensor([0.3, -0.5, 0.1, 0.7], dtype=torch.float64, requires_grad=True)
    rewards = np.array([1.1, -0.9, 0.2, -0.3])
    exact = gradient(exact_objective(z[None], torch.as_tensor(rewards)[None]).expected_reward.sum(), z)
    probabilities = torch.softmax(z, -1).detach().numpy()
    sigma = np.sqrt(probabilities @ rewards**2 - (probabilities @ rewards) ** 2)
    rng = np.random.default_rng(0)
    errors = []
    for group in (10, 1000, 100_000):
        actions = rng.choice(4, size=group, p=probabilities)
        loss, _ = one_token_surrogate(z, actions, group_normalised(rewards[actions]))
        errors.append(float((gradient(-loss, z) * sigma - exact).norm() / exact.norm()))
    assert errors[2] < 0.02 and errors[2] < errors[0]


def one_token_surrogate(z, actions, advantages):
    index = torch.as_tensor(np.array(actions))
    logprobs = torch.log_softmax(z, -1)[index][:, None]
    mask = torch.ones_like(logprobs, dtype=torch.bool)
    return ppo_clip(logprobs, logprobs.detach(), torch.as_tensor(advantages), mask)


def test_ppo_clip_stops_pushing_beyond_the_trust_region():
    logprobs = torch.tensor([[0.0], [0.0]], requires_grad=True)
    old = torch.tensor([[-0.5], [0.5]])
    loss, stats = ppo_clip(logprobs, old, torch.tensor([1.0, 1.0]), torch.ones(2, 1, dtype=torch.bool))
    loss.backward()
    assert logprobs.grad[0] == 0  # ratio e^0.5 is above 1.2 and the advantage positive: clipped
    assert logprobs.grad[1] < 0  # ratio e^-0.5 is below 0.8, but the advantage asks for more: not clipped
    assert stats["clipped"] == 1.0


def test_ppo_clip_of_an_empty_mask_is_zero():
    loss, _ = ppo_clip(torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2), torch.zeros(2, 3, dtype=torch.bool))
    assert float(loss) == 0.0


def test_masked_tokens_count_in_neither_numerator_nor_denominator():
    mask = torch.tensor([[True, True, False]])
    logprobs = torch.tensor([[0.1, 0.2, 9.0]])
    loss, _ = ppo_clip(logprobs, logprobs, torch.tensor([2.0]), mask)
    assert float(loss) == pytest.approx(-2.0)


@given(arrays(float, (2, 4), elements=st.floats(-5, 0)), arrays(float, (2, 4), elements=st.floats(-5, 0)))
def test_kl_estimate_is_never_negative_and_zero_for_the_same_policy(a, b):
    mask = torch.ones(2, 4, dtype=torch.bool)
    assert float(kl_low_variance(torch.as_tensor(a), torch.as_tensor(b), mask)) >= 0
    assert float(kl_low_variance(torch.as_tensor(a), torch.as_tensor(a), mask)) == 0


def test_valid_mass_sums_probabilities():
    p = torch.tensor([[0.2, 0.3], [0.5, 0.5]])
    torch.testing.assert_close(valid_mass(p.log()).exp(), torch.tensor([0.5, 1.0]))
