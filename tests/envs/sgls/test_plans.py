"""Which plans of calls are as good as the one that was generated."""

from toolcredit.envs.sgls.generation.plans import canonical_order, depths, equivalent_plans
from toolcredit.envs.sgls.tasks import Call, Plan


class TestPlans:
    calls = tuple(Call(name) for name in "abcd")

    def test_independent_calls_are_one_step(self):
        (plan,) = equivalent_plans(self.calls, [[], [], [], []], [None] * 4)
        assert plan == Plan((self.calls,))

    def test_a_call_that_is_needed_late_may_wait(self):
        a, b, c = self.calls[:3]
        plans = equivalent_plans((a, b, c), [[], [0], []], [None] * 3)
        assert plans == (Plan(((a, c), (b,))), Plan(((a,), (b, c))))

    def test_another_tool_may_do_the_same(self):
        a, b, c, d = self.calls
        plans = equivalent_plans((a, b), [[], [0]], [c, d])
        assert plans == tuple(Plan(((x,), (y,))) for x in (a, c) for y in (b, d))

    def test_diamond_and_limit(self):
        needs = [[], [0], [0], [1, 2]]
        assert depths(needs) == [0, 1, 1, 2] and canonical_order([[], [0], [], []]) == [0, 2, 3, 1]
        (plan,) = equivalent_plans(self.calls, needs, [None] * 4)
        assert [len(step) for step in plan.steps] == [1, 2, 1]
        many = equivalent_plans(self.calls, [[], [0], [1], []], list(self.calls), limit=5)
        assert len(many) == 5
