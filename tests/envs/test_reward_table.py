"""RewardTable on a fake bandit whose outcomes are given: filling, resuming, staleness, files, summary."""

import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from toolcredit.envs import table_file
from toolcredit.envs.table import COLUMNS, FAILED, UNPARSED, Header, MemoryRows, RewardTable
from toolcredit.envs.table_build import GIVE_UP_AFTER
from toolcredit.envs.table_summary import degenerate_shares, summary
from toolcredit.errors import EndpointError, MissingExtraError, StaleTableError, TableError, UsageError
from toolcredit.rewards.subset import differential, eq1, subset_sizes

CHOICES = np.random.default_rng(0).integers(-1, 3, (30, 8))


@pytest.fixture
def env(subset_bandit):
    return subset_bandit(CHOICES, families=["odd" if i % 2 else "even" for i in range(30)])


class Killed(BaseException):
    """Stands for a kill: nothing in the library may catch it."""


def killed_after(n):
    """A progress callback that ends the build when n questions are done."""

    def progress(done, total):
        if done >= n:
            raise Killed

    return progress


def build_killed(env, path, after, **kwargs):
    with pytest.raises(Killed):
        RewardTable.build(env, path, progress=killed_after(after), **kwargs)


def count_steps(env):
    """A list that grows by (question, action) with every step of `env`."""
    steps, step = [], env.step
    env.step = lambda action: (steps.append((env.now, action)), step(action))[1]
    return steps


# ------------------------------------------------------------------------------------------------------------ values


def test_the_table_is_what_stepping_gives(env):
    table = RewardTable.build(env)
    assert len(table) == 30 and table.n_tools == 3 and sorted(table.ids) == sorted(env.question_ids)
    assert (table.rewards_for(env) == env.rewards).all()
    assert (table.correct_for(env) == (CHOICES == 0)).all()
    by_key = [env.question_ids.index(key) for key in table.rows.column("key")]
    assert (table.outcomes() == CHOICES[by_key]).all()
    assert (table.outcomes(["q7", "q3", "q7"]) == CHOICES[[7, 3, 7]]).all()
    assert (table.correct(["q3"]) == (CHOICES[[3]] == 0)).all()


def test_any_reward_is_derived_from_the_outcomes(env):
    table, correct = RewardTable.build(env), CHOICES == 0
    assert (table.rewards(["q3"], "eq1", 0.3) == eq1(correct[3], subset_sizes(3), 3, 0.3)).all()
    assert np.allclose(table.rewards(env.question_ids, "differential"), differential(correct))


def test_unknown_keys_and_splits_are_named(env):
    table = RewardTable.build(env)
    with pytest.raises(TableError, match="lacks 1 of 2 keys, such as 'nobody'"):
        table.outcomes(["q1", "nobody"])
    with pytest.raises(TableError, match="no row of the split 'dev': it has test"):
        table.select("dev")
    assert table.select("test").ids == table.ids


class Plain(gym.Env):
    """A bandit that is no `OutcomeBandit`: its table holds rewards."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(4)
    question_ids = ("a", "b", "c", "d")
    ends = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.now = options["question_id"]
        return self.question_ids.index(self.now), {}

    def step(self, action):
        if (self.now, action) == ("b", 1):
            raise EndpointError("down")
        return 0, self.question_ids.index(self.now) + action / 3, self.ends, False, {}


def test_an_environment_without_outcomes_gets_a_table_of_rewards(tmp_path):
    env = Plain()
    table = RewardTable.build(env, tmp_path / "t.parquet")
    expected = np.add.outer(np.arange(4), np.arange(3) / 3)
    expected[1, 1] = np.nan
    assert np.array_equal(table.rewards(), expected, equal_nan=True) and table.failed() == [("b", 1)]
    with pytest.raises(TableError, match="1 outcomes .* failed"):
        table.rewards_for(env)
    with pytest.raises(TableError, match="holds rewards, not outcomes"):
        table.outcomes()
    env.step = lambda action: (0, 5.0, True, False, {})
    assert RewardTable.build(env, tmp_path / "t.parquet").rewards_for(env)[1, 1] == 5.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action_space": gym.spaces.Box(0, 1)}, "not enumerable.*Discrete action space, it has Box"),
        ({"ends": False}, "no one-step environment"),
    ],
)
def test_what_is_no_enumerable_one_step_environment_is_refused(change, message):
    env = Plain()
    for name, value in change.items():
        setattr(env, name, value)
    with pytest.raises(UsageError, match=message):
        RewardTable.build(env)


@pytest.mark.parametrize("workers", [0, True, 1.5])
def test_bad_numbers_of_workers(env, workers):
    with pytest.raises(UsageError, match="workers must be an integer of at least 1"):
        RewardTable.build(env, workers=workers)


# ------------------------------------------------------------------------------------------- questions that are equal


def test_questions_with_equal_content_are_answered_once_and_share_the_outcomes(env):
    env.question_record = lambda id: {"key": "same", "family": "f", "split": "test", "gold": int(id[1:]) % 3}
    steps = count_steps(env)
    table = RewardTable.build(env)
    assert steps == [("q0", action) for action in range(8)]
    assert len(table) == 30 and (table.outcomes() == CHOICES[0]).all()
    gold = np.array([int(id[1:]) % 3 for id in env.question_ids])
    assert (table.correct_for(env) == (CHOICES[0] == gold[:, None])).all()


# ---------------------------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize("after", [1, 7, 29])
def test_a_killed_build_goes_on_without_repeating_and_ends_with_the_same_bytes(env, tmp_path, after):
    RewardTable.build(env, tmp_path / "whole.parquet")
    path = tmp_path / "t.parquet"
    steps = count_steps(env)
    build_killed(env, path, after)
    assert not path.exists() and len(steps) == 8 * after
    with open(tmp_path / "t.parquet.journal", "a") as journal:
        journal.write('{"key": "q29", "val')  # torn by the kill
    RewardTable.build(env, path)
    assert len(steps) == len(set(steps)) == 240
    assert path.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.parquet", "whole.parquet"]
    RewardTable.build(env, path)
    assert len(steps) == 240


def test_restart_forgets_what_was_there(env, tmp_path):
    path = tmp_path / "t.parquet"
    build_killed(env, path, 5)
    steps = count_steps(env)
    RewardTable.build(env, path, resume=False)
    assert len(steps) == 240


def test_progress_counts_what_is_there_already(env, tmp_path):
    seen = []
    build_killed(env, tmp_path / "t.parquet", 20)
    RewardTable.build(env, tmp_path / "t.parquet", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 30) for done in range(20, 31)]


def test_failed_outcomes_are_listed_have_no_reward_and_are_tried_again(env, tmp_path):
    path = tmp_path / "t.parquet"
    env.down = {("q3", 2), ("q3", 5), ("q8", 0)}
    table = RewardTable.build(env, path)
    assert table.failed() == [("q3", 2), ("q3", 5), ("q8", 0)]
    assert table.outcomes(["q3"])[0, 2] == FAILED and np.isnan(table.rewards(["q3"])[0, 2])
    with pytest.raises(TableError, match="3 outcomes .* failed when it was built"):
        table.rewards_for(env)
    listed = [json.loads(line) for line in (tmp_path / "t.parquet.failed.jsonl").read_text().splitlines()]
    assert listed[0] == {"id": "q3", "action": 2, "error": "the endpoint does not answer"} and len(listed) == 3
    env.down = {("q8", 0)}
    steps = count_steps(env)
    assert RewardTable.build(env, path).failed() == [("q8", 0)]
    assert steps == [("q3", 2), ("q3", 5), ("q8", 0)]
    env.down = set()
    assert (RewardTable.build(env, path).rewards_for(env) == env.rewards).all()
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_a_build_stops_when_nothing_answers_and_keeps_what_is_done(env, tmp_path):
    path = tmp_path / "t.parquet"
    env.down = {(f"q{i}", action) for i in range(10, 30) for action in range(8)}
    steps = count_steps(env)
    with pytest.raises(EndpointError, match=f"no outcome of {GIVE_UP_AFTER} questions in a row.*does not answer"):
        RewardTable.build(env, path)
    assert len(steps) == 8 * (10 + GIVE_UP_AFTER)
    env.down = set()
    assert (RewardTable.build(env, path).rewards_for(env) == env.rewards).all()
    assert len(steps) == 8 * (10 + GIVE_UP_AFTER) + 8 * 20


def test_outcomes_that_never_come_do_not_stop_a_build(env, tmp_path):
    env.down = {(f"q{i}", 5) for i in range(2 * GIVE_UP_AFTER)}
    for _ in range(2):
        assert len(RewardTable.build(env, tmp_path / "t.parquet").failed()) == 2 * GIVE_UP_AFTER


def test_a_question_under_another_id_gets_the_outcomes_that_a_later_build_fills_in(env, tmp_path, subset_bandit):
    env.down = {("q3", 2)}
    RewardTable.build(env, tmp_path / "t.parquet")
    later = subset_bandit(CHOICES)
    later.question_ids = ("x3",)
    later.question_record = lambda id: env.question_record("q3")
    table = RewardTable.build(later, tmp_path / "t.parquet")
    assert len(table) == 31 and table.failed() == []
    assert (table.outcomes()[[table.ids.index("q3"), table.ids.index("x3")]] == CHOICES[3]).all()


def test_a_table_keeps_the_questions_of_other_builds(env, tmp_path):
    path = tmp_path / "t.parquet"
    ids = env.question_ids
    env.question_ids = ids[:20]
    RewardTable.build(env, path)
    env.question_ids = ids[15:]
    steps = count_steps(env)
    table = RewardTable.build(env, path)
    assert len(table) == 30 and len(steps) == 80
    env.question_ids = ids
    assert (table.rewards_for(env) == env.rewards).all()


def test_an_unpicklable_environment_cannot_go_to_workers(env):
    env.lock = (i for i in ())
    with pytest.raises(UsageError, match="cannot be copied to 2 workers.*use workers=1"):
        RewardTable.build(env, workers=2)


def test_threads_fill_the_same_table_and_count_the_calls(env, tmp_path):
    env.concurrency, env.reasoner_calls = 4, 0
    table = RewardTable.build(env, tmp_path / "t.parquet", workers=3)
    assert (table.rewards_for(env) == env.rewards).all()


# --------------------------------------------------------------------------------------------------------- staleness


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        (
            {"tools": "ruler, scales, sundial"},
            "tools: table 'ruler, scales, clock', environment 'ruler, scales, sundial'",
        ),
        ({"tools": "ruler, scales, clock", "tool ruler": "2"}, "tool ruler: table 'absent', environment '2'"),
    ],
)
def test_other_versions_are_refused_with_what_changed(env, tmp_path, versions, message):
    path = tmp_path / "t.parquet"
    table = RewardTable.build(env, path)
    build_killed(env, tmp_path / "killed.parquet", 3)
    env.versions = versions
    for use in (
        lambda: table.check_versions(env),
        lambda: table.rewards_for(env),
        lambda: RewardTable.build(env, path),
        lambda: RewardTable.build(env, tmp_path / "killed.parquet"),
    ):
        with pytest.raises(StaleTableError, match=message):
            use()
    assert RewardTable.build(env, path, resume=False).header.versions == versions


def test_fewer_tools_are_refused(env, subset_bandit):
    with pytest.raises(StaleTableError, match="table: 8 actions with outcomes, environment: 4 actions with outcomes"):
        RewardTable.build(env).check_versions(subset_bandit(CHOICES[:, :4]))


def test_a_changed_question_is_missed(env):
    table = RewardTable.build(env)
    record = env.question_record
    env.question_record = lambda id: record(id) | ({"key": "changed"} if id == "q4" else {})
    with pytest.raises(StaleTableError, match="lacks 1 of 30 questions, such as 'q4'.*were changed since"):
        table.rewards_for(env)


# ------------------------------------------------------------------------------------------------------------- files


def many_rows(n, actions=4):
    rng = np.random.default_rng(1)
    keys = [f"{key:016x}" for key in rng.permutation(n).tolist()]
    columns = {
        "key": keys,
        "id": [f"id-{key}" for key in keys],
        "family": ["f"] * n,
        "split": ["train"] * n,
        "gold": rng.integers(0, 4, n),
        "values": rng.integers(-2, 4, (n, actions)).astype(np.int8),
    }
    return Header("outcomes", actions, ("x", "y"), {"tools": "x, y"}), MemoryRows(columns)


def test_a_file_gives_the_rows_back_and_reads_only_the_groups_it_needs(tmp_path):
    header, rows = many_rows(10 * table_file.ROWS_PER_GROUP + 5)
    RewardTable(header, rows).save(tmp_path / "t.parquet")
    table = RewardTable.open(tmp_path / "t.parquet")
    assert table.header == header and len(table) == len(rows)
    for name in COLUMNS:
        assert (table.rows.column(name) == rows.column(name)).all()
    group_reads = []
    read = table.rows._read_group
    table.rows._read_group = lambda number: (group_reads.append(number), read(number))[1]
    keys = rows.column("key")[[0, 5, 4095, 4096, -1]].tolist()
    assert (table.outcomes(keys) == rows.find(keys)[1]).all()
    assert group_reads == [0, 1, 10]
    there, values, gold = table.rows.find(["", "zz", "0000000000000000x"])
    assert not there.any() and not values.any() and not gold.any()


def test_an_open_table_can_be_pickled(env, tmp_path):
    table = RewardTable.build(env, tmp_path / "t.parquet")
    table.outcomes(["q1"])
    assert (pickle.loads(pickle.dumps(table)).rewards_for(env) == env.rewards).all()


@pytest.mark.parametrize("damage", ["missing", "torn", "foreign", "later", "text", "empty", "folder"])
def test_what_is_no_table_is_refused_in_one_line(env, tmp_path, damage):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "t.parquet"
    RewardTable.build(env, path)
    if damage == "missing":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "text":
        path.write_text("key,values\n" * 10)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        content = pyarrow.parquet.read_table(path)
        about = json.loads(content.schema.metadata[b"toolcredit"])
        about = {b"toolcredit": json.dumps(about | {"format": 99})} if damage == "later" else {b"other": b"{}"}
        pyarrow.parquet.write_table(content.replace_schema_metadata(about), path)
    with pytest.raises(TableError, match="t.parquet") as caught:
        RewardTable.open(path)
    assert "\n" not in str(caught.value)


def test_a_foreign_journal_is_refused(env, tmp_path):
    (tmp_path / "t.parquet.journal").write_text('{"something": "else"}\n')
    with pytest.raises(StaleTableError, match="no journal of a reward table"):
        RewardTable.build(env, tmp_path / "t.parquet")


def test_a_place_that_cannot_be_written_is_named(env, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(TableError, match="t.parquet cannot be written"):
        RewardTable.build(env, tmp_path / "file" / "t.parquet")
    with pytest.raises(TableError, match="is a folder: give the name of the table file"):
        RewardTable.build(env, tmp_path / "folder")


def test_without_pyarrow_tables_live_in_memory(env, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    table = RewardTable.build(env)
    assert (table.rewards_for(env) == env.rewards).all()
    steps = count_steps(env)
    for use in (
        lambda: RewardTable.build(env, tmp_path / "t.parquet"),
        lambda: table.save(tmp_path / "t.parquet"),
        lambda: RewardTable.open(tmp_path / "t.parquet"),
    ):
        with pytest.raises(MissingExtraError, match=r"toolcredit\[table\]"):
            use()
    assert not steps  # the build was refused before the work, not after it


# ----------------------------------------------------------------------------------------------------------- summary


def test_summary_by_hand(subset_bandit):
    # two tools; subsets {}, {ruler}, {scales}, both; option 0 is right
    choices = [[1, 0, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [-1, 1, 2, -2]]
    env = subset_bandit(choices, families=["a", "a", "b", "b", "b"], down=[("q4", 3)])
    result = summary(RewardTable.build(env))
    assert (result["questions"], result["failed"], result["unparsed"]) == (5, 1, 1)
    subsets = {tuple(entry["subset"]): (entry["accuracy"], round(entry["reward"], 9)) for entry in result["subsets"]}
    assert subsets == {
        (): (0.2, -0.5),
        ("ruler",): (0.6, 0.2),
        ("scales",): (0.4, -0.2),
        ("ruler", "scales"): (0.8, 0.5),
    }
    strategies = result["strategies"]
    assert list(strategies) == ["none", "ruler", "scales", "all", "best_fixed", "best_per_family", "oracle"]
    assert strategies["best_fixed"]["subset"] == ["ruler", "scales"] and strategies["best_fixed"]["ceiling"]
    assert strategies["best_per_family"]["accuracy"] == 0.8
    assert strategies["oracle"]["tools_per_question"] == pytest.approx(3 / 5)
    assert strategies["oracle"]["reward"] == pytest.approx((1 + 1 + 1 + 1.1 - 0.9) / 5)
    assert result["families"]["a"]["best"]["subset"] == ["ruler"]
    # ruler alone tells q0, q1 apart, scales alone q2, both together all three of five
    assert result["degenerate_share"] == {"1": pytest.approx((3 / 5 + 4 / 5) / 2), "2": pytest.approx(2 / 5)}
    assert result["informative_share"] == pytest.approx(3 / 5)
    json.dumps(result, allow_nan=False)


def test_degenerate_shares_do_not_grow_with_the_library():
    correct = np.random.default_rng(3).random((200, 16)) < 0.4
    shares = degenerate_shares(correct, 4)
    assert list(shares) == [1, 2, 3, 4] and list(shares.values()) == sorted(shares.values(), reverse=True)
    assert shares[1] == pytest.approx(0.4**2 + 0.6**2, abs=0.05)


def test_unparsed_is_wrong(env):
    table = RewardTable.build(env)
    assert (table.outcomes() == UNPARSED).any() and not table.correct()[table.outcomes() == UNPARSED].any()
