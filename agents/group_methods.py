"""The group learner under the names of published methods: the same trainer, each with its own way to give credit."""

from __future__ import annotations

from .group_learner import GroupLearner


class SLCAGRPO(GroupLearner):
    """Segment-locked credit: calls from the process reward, the summary from its own (arXiv 2609.29050)."""

    name = "slca-grpo"
    defaults = {"estimator": "slca"}


class GRPOChat(GroupLearner):
    """One advantage for the whole episode, from the total reward (arXiv 2402.03300)."""

    name = "grpo-chat"
    defaults = {"estimator": "grpo"}


class RLOO(GroupLearner):
    """The total reward minus the mean of the others (arXiv 2402.14740)."""

    name = "rloo"
    defaults = {"estimator": "rloo"}


class DrGRPO(GroupLearner):
    """GRPO without σ and without length normalisation (arXiv 2503.20783)."""

    name = "dr-grpo"
    defaults = {"estimator": "dr_grpo", "aggregation": "constant", "kl": 0.0}


class DAPO(GroupLearner):
    """GRPO that draws other tasks for groups of equal rewards, without KL (arXiv 2503.14476)."""

    name = "dapo"
    defaults = {"estimator": "dapo", "redraws": 2, "kl": 0.0}


class ToolPO(GroupLearner):
    """The outcome's advantage everywhere, the action's on the calls besides (arXiv 2510.21618)."""

    name = "toolpo"
    defaults = {"estimator": "toolpo"}


class MTGRPO(GroupLearner):
    """The outcome's advantage everywhere, the process reward's on the calls besides (arXiv 2505.11821)."""

    name = "mt-grpo"
    defaults = {"estimator": "mt_grpo"}


class RLTR(GroupLearner):
    """Only the calls learn, from the completeness of the plan less its faults (arXiv 2508.19598), see `planning`."""

    name = "rltr"
    defaults = {"estimator": "rltr"}


class GiGPO(GroupLearner):
    """Episode advantage plus one among steps from equal states (arXiv 2505.10978)."""

    name = "gigpo"
    defaults = {"estimator": "gigpo"}


class SLCAGiGPO(GroupLearner):
    """SLCA with step credit inside the tool segment; the lock is kept."""

    name = "slca-gigpo"
    defaults = {"estimator": "slca_gigpo", "at_end": {"process": "tool"}}


class SLCAExact(GroupLearner):
    """SLCA whose choices of a tool are an expectation over all tools shown, not the one that was drawn."""

    name = "slca-exact"
    defaults = {"estimator": "slca_exact"}


class VinePPO(GroupLearner):
    """Each turn's advantage is what it changed in the value, by fresh rollouts before and after (arXiv 2410.01679)."""

    name = "vineppo"
    defaults = {"estimator": "vineppo"}


class SPOChain(GroupLearner):
    """The same between cuts among the tokens, on uncertain tokens only (arXiv 2505.23564)."""

    name = "spo-chain"
    defaults = {"estimator": "spo_chain"}
