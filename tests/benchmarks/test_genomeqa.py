"""The suite genomeqa: files of released benchmarks, leaks, built sets, both modes, the transfer grid."""

import gzip
import json
import random

import pytest
from toolcredit.benchmarks.genome_questions import read_questions
from toolcredit.benchmarks.genome_sets import RECIPES, LabelledFiles, build_set, cpg_ratio, gc_content, open_frame
from toolcredit.benchmarks.labelled_sequences import read_labelled
from toolcredit.benchmarks.players import make_player
from toolcredit.benchmarks.registry import make_suite
from toolcredit.benchmarks.runner import run_suite
from toolcredit.benchmarks.suite import Selection
from toolcredit.envs.genome.questions import load_questions, write_questions
from toolcredit.envs.genome.sequence import canonical, reverse_complement
from toolcredit.errors import QuestionError, UnknownNameError, UsageError
from toolcredit.runs import read_jsonl

DNA = "ACGTTGCATGCATTTGACCATGGCATGC"
DESCRIBE = {
    "id": 7,
    "question": f"Which organism does the sequence {DNA} come from?",
    "options": {"A": "human", "B": "yeast", "C": "fly"},
    "answer": "b",
    "true_label": "LEAK-yeast",
    "truth": "LEAK",
    "metadata": {"target": "LEAK"},
}
SELECT = {
    "id": 7,
    "question": "Which sequence is a promoter?",
    "choices": "A) TATAATGCGCGC\nB) GGGGGGCCCCCC\nC) ACGTACGTACGT\nD) TTTTTTTTTTTT",
    "answer": "(A)",
    "target": "LEAK",
}
PHAGE = {
    "id": "p1",
    "task": "lifestyle",
    "question": "Temperate or virulent?",
    "sequence": DNA * 40,
    "choices": "A. temperate\nB. virulent",
    "answer": "B",
    "metadata": {"answer_text": "LEAK"},
}
SEQQA = {
    "id": "e3a1",
    "question": f"What is the GC content of the sequence {DNA}?",
    "ideal": "46",
    "distractors": ["40", "52", "60"],
    "subtask": "Prop-seq-gcpercent",
    "canary": "LEAK",
}


def write(path, *records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


# ------------------------------------------------------------------------------------------------------------ files


def test_the_released_files_of_genomeqa(tmp_path):
    write(tmp_path / "taxonomy_describe.jsonl", DESCRIBE, {**DESCRIBE, "id": 8, "answer": "fly"})
    write(tmp_path / "promoter_select.jsonl", SELECT, {**SELECT, "id": 8, "answer": 3})
    questions = {question.id: question for question in read_questions(tmp_path)}
    assert list(questions) == [
        "promoter_select/7", "promoter_select/8", "taxonomy_describe/7", "taxonomy_describe/8",
    ]  # fmt: skip
    describe, select = questions["taxonomy_describe/7"], questions["promoter_select/7"]
    assert (describe.public.sequence, describe.public.choices, describe.answer) == (DNA, ("human", "yeast", "fly"), 1)
    assert describe.public.text == "Which organism does the sequence [sequence] come from?"
    assert (describe.family, describe.split) == ("taxonomy_describe", "test")
    assert (select.public.sequence, len(select.public.choices), select.answer) == (None, 4, 0)
    assert questions["taxonomy_describe/8"].answer == 2 and questions["promoter_select/8"].answer == 3


def test_phagebench_and_seqqa(tmp_path):
    (phage,) = read_questions(write(tmp_path / "phage.jsonl", PHAGE))
    assert (phage.family, phage.public.choices, phage.answer) == ("lifestyle", ("temperate", "virulent"), 1)
    write(tmp_path / "seqqa.jsonl", SEQQA, {**SEQQA, "id": "x", "question": "Which enzyme cuts GAATTC?"})
    first, second = read_questions(tmp_path / "seqqa.jsonl")
    assert first.public.choices[first.answer] == "46" and set(first.public.choices) == {"46", "40", "52", "60"}
    assert (first.public.sequence, first.family) == (DNA, "Prop-seq-gcpercent")
    assert second.public.sequence is None and second.public.text == "Which enzyme cuts GAATTC?"
    orders = {read_questions(write(tmp_path / "o.jsonl", {**SEQQA, "id": i}))[0].answer for i in range(20)}
    assert orders == {0, 1, 2, 3}  # the right option stands at every place


def test_the_generic_format_goes_through_its_own_loader(tmp_path):
    write_questions(tmp_path / "own.jsonl.gz", load_questions()[:5])
    assert read_questions(tmp_path / "own.jsonl.gz") == load_questions()[:5]


@pytest.mark.parametrize("record", [DESCRIBE, SELECT, PHAGE, SEQQA])
def test_no_prompt_ever_shows_what_leaks_the_answer(record, tmp_path, chat_server):
    path = write(tmp_path / "q.jsonl", record)
    for mode in ("plain", "selector"):
        suite = make_suite("genomeqa", {"questions": str(path), "mode": mode, "tools": "sequence_statistics"})
        player = make_player("openai:fake", suite, {"base_url": chat_server.url})
        result = run_suite(suite, player, tmp_path / mode, references=())
        assert result["completed"] == 1, result["failures"]
    assert len(chat_server.bodies) == 2
    assert "LEAK" not in json.dumps(chat_server.bodies)


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({**DESCRIBE, "answer": "E"}, "'7'"),
        ({**DESCRIBE, "answer": None}, "answer"),
        ({**DESCRIBE, "options": ["human"]}, "options"),
        ({**DESCRIBE, "question": "Which organism?"}, "sequence"),
        ({**SEQQA, "distractors": []}, "distractors"),
        ({**SEQQA, "distractors": ["46"]}, "same"),
        ({**SEQQA, "ideal": 46}, "ideal"),
        ({**PHAGE, "sequence": "EQLF"}, "nucleotide"),
    ],
)
def test_a_question_that_cannot_be_used_is_refused_by_name(record, named, tmp_path):
    with pytest.raises(QuestionError, match=named) as error:
        read_questions(write(tmp_path / "bad.jsonl", record))
    assert "bad.jsonl:1" in str(error.value)


def test_files_that_cannot_be_used_are_refused(tmp_path):
    for source, named in ((tmp_path / "none.jsonl", "none.jsonl"), (tmp_path, "no .jsonl file")):
        with pytest.raises(QuestionError, match=named):
            read_questions(source)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(QuestionError, match="empty"):
        read_questions(tmp_path / "empty.jsonl")
    with pytest.raises(QuestionError, match="same id"):
        read_questions(write(tmp_path / "twice.jsonl", DESCRIBE, DESCRIBE))
    with pytest.raises(UnknownNameError, match="genomeqa"):
        read_questions(tmp_path, "genomqa")


# ------------------------------------------------------------------------------------------------------------ modes


def test_plain_answers_of_an_endpoint(tmp_path, chat_server, fake_chat):
    suite = make_suite("genomeqa", {"split": "dev"})
    right = {q.public.text + str(q.public.sequence): q.answer for q in load_questions() if q.split == "dev"}

    def model(body):
        said = body["messages"][-1]["content"]
        answer = next((a for text, a in right.items() if all(part in said for part in text.split("None")[:1])), 0)
        return "ABCD"[answer] if len(said) % 2 else "I cannot tell."

    chat_server.script(fake_chat.answer(model))
    player = make_player("openai:fake", suite, {"base_url": chat_server.url})
    result = run_suite(suite, player, tmp_path / "run", selection=Selection(limit=24))
    assert result["completed"] == 24
    assert set(result["references"]) == {"nothing", "random", "gold"}
    assert result["references"]["gold"]["aggregates"]["micro"] == 1.0
    assert result["references"]["nothing"]["aggregates"]["micro"] == 0.0
    records = list(read_jsonl(tmp_path / "run" / "results.jsonl"))
    unread = [record for record in records if record["detail"]["said"] is None]
    assert unread and all(record["metrics"]["read"] == 0.0 and not record["success"] for record in unread)
    read = [record for record in records if record["detail"]["said"] is not None]
    assert all(record["success"] == (record["detail"]["said"] == record["detail"]["right"]) for record in read)


def test_a_selector_is_measured_like_the_strategies_are(tmp_path):
    """The same accuracy and reward as `benchmarks.strategies` finds on the same environment."""
    import gymnasium as gym
    from toolcredit.benchmarks.strategies import evaluate, reference_agents
    from toolcredit.envs.table import RewardTable

    suite = make_suite("genomeqa", {"mode": "selector", "split": "dev"})
    result = run_suite(suite, make_player("all", suite), tmp_path / "run")
    env = gym.make("GenomeToolSubset-v0", split="dev")
    table = RewardTable.build(env)
    expected = evaluate(env, reference_agents(table)).summary()["strategies"]
    rewards = [record["metrics"]["reward"] for record in read_jsonl(tmp_path / "run" / "results.jsonl")]
    assert result["aggregates"]["micro"] == pytest.approx(expected["all"]["accuracy"])
    assert sum(rewards) / len(rewards) == pytest.approx(expected["all"]["reward"])
    for ours, theirs in (("nothing", "none"), ("gold", "oracle"), ("best_fixed", "best_fixed")):
        assert result["references"][ours]["aggregates"]["micro"] == pytest.approx(expected[theirs]["accuracy"])


def test_a_transfer_grid_puts_the_same_choices_before_every_reasoner(tmp_path, chat_server):
    reasoners = ["evidence", {"name": "chat", "model": "frozen", "base_url": chat_server.url}]
    suite = make_suite("genomeqa", {"mode": "selector", "split": "dev", "reasoner": reasoners})
    assert suite.beside == ("nothing", "random", "all")  # ceilings would ask the endpoint for every subset
    result = run_suite(
        suite, make_player("fixed", suite, {"tools": ["motif_scanner"]}), tmp_path / "run", references=()
    )
    n = len({q.id for q in load_questions() if q.split == "dev"})
    assert result["completed"] == 2 * n
    assert set(suite.groups) == {"evidence", "chat:frozen"}
    assert {"evidence", "chat:frozen", "macro", "micro"} == set(result["aggregates"])
    assert "evidence/splice" in result["categories"]
    assert {body["model"] for body in chat_server.bodies} == {"frozen"} and len(chat_server.bodies) == n
    assert result["usage"]["fake"]["calls"] == n  # the reasoner's tokens are counted, too
    subsets = {tuple(record["detail"]["subset"]) for record in read_jsonl(tmp_path / "run" / "results.jsonl")}
    assert subsets == {("motif_scanner",)}


def test_a_model_that_chats_can_choose_tools(tmp_path, chat_server, fake_chat):
    suite = make_suite("genomeqa", {"mode": "selector", "split": "dev"})
    chat_server.script(fake_chat.reply("I would take <answer>1,2</answer>."))
    player = make_player("openai:fake", suite, {"base_url": chat_server.url})
    run_suite(suite, player, tmp_path / "run", selection=Selection(limit=4), references=())
    subsets = [record["detail"]["subset"] for record in read_jsonl(tmp_path / "run" / "results.jsonl")]
    assert subsets == [["motif_scanner", "splice_analyzer"]] * 4


def test_a_reasoner_that_is_down_leaves_questions_unresolved(tmp_path, chat_server, fake_chat):
    chat_server.script(fake_chat.status(401))
    reasoner = {"name": "chat", "model": "m", "base_url": chat_server.url}
    suite = make_suite("genomeqa", {"mode": "selector", "split": "dev", "reasoner": reasoner})
    result = run_suite(suite, make_player("all", suite), tmp_path / "run", selection=Selection(limit=3), references=())
    assert (result["failed"], result["unresolved"]) == (0, 3)


def test_a_choice_that_is_none_is_the_agents_failure(tmp_path):
    suite = make_suite("genomeqa", {"mode": "selector", "split": "dev"})

    class Wild:
        kind, name, concurrency, identity = "env", "wild", None, {}

        def start(self, task, context):
            from toolcredit.agents.baselines import NoToolsAgent

            agent = NoToolsAgent()
            agent.act = lambda observation, info: 99
            return agent

    result = run_suite(suite, Wild(), tmp_path / "run", selection=Selection(limit=2), references=())
    assert result["failed"] == 2 and "99" in result["failures"][0]["error"]


@pytest.mark.parametrize("options", [{"mode": "choose"}, {"split": "val"}, {"reasoner": ""}, {"bases": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(UsageError):
        make_suite("genomeqa", options)


def test_a_split_without_questions_is_refused(tmp_path):
    path = write(tmp_path / "q.jsonl", DESCRIBE)
    with pytest.raises(UsageError, match="train"):
        make_suite("genomeqa", {"questions": str(path), "split": "train"}).tasks(Selection())


# ------------------------------------------------------------------------------------------------------- built sets


def dna(rng, n, gc=0.5):
    return "".join(rng.choices("ACGT", weights=[1 - gc, gc, gc, 1 - gc], k=n))


def coding(rng, n):
    codons = ("GCT", "GAA", "CTG", "AAG", "GGC")
    return "".join(rng.choice(codons) for _ in range(n // 3))


def genbench(tmp_path, rng, n=110):
    """Sources of every dataset in the forms that such data come in."""

    def csv_file(name, classes, train=False):
        paths = []
        for part in ("test", "train") if train else ("test",):
            rows = [f"{make()},{label}" for label, make in classes.items() for _ in range(n)]
            path = tmp_path / f"{name}-{part}.csv"
            path.write_text("\n".join(["sequence,label", *rows]))
            paths.append(path)
        return LabelledFiles(*paths)

    folder = tmp_path / "regulatory"
    for name in ("enhancer", "promoter", "ocr"):
        (folder / name).mkdir(parents=True)
        for i in range(n):
            (folder / name / f"{i}.txt").write_text(dna(rng, 1200))
    fasta = tmp_path / "coding.fa.gz"
    entries = [f">s{i}|{label}\n{make(rng, 201)}\n" for label, make in ((0, dna), (1, coding)) for i in range(n)]
    fasta.write_bytes(gzip.compress("".join(entries).encode()))
    return {
        "demo_human_or_worm": csv_file("hw", {0: lambda: dna(rng, 200, 0.42), 1: lambda: dna(rng, 200, 0.35)}, True),
        "human_ensembl_regulatory": LabelledFiles(folder),
        "human_ocr_ensembl": csv_file("ocr", {"positive": lambda: dna(rng, 300), "negative": lambda: dna(rng, 300)}),
        "drosophila_enhancers_stark": csv_file(
            "stark", {"positive": lambda: dna(rng, 2500), "negative": lambda: dna(rng, 2500)}
        ),
        "demo_coding_vs_intergenomic": LabelledFiles(fasta),
    }


def test_genbench_x_is_built_by_its_recipe(tmp_path):
    sources = genbench(tmp_path, random.Random(0))
    built = build_set("genbench-x", sources)
    tests = [q for q in built.questions if q.split == "test"]
    assert len(tests) == 1000 and {q.family for q in tests} == set(sources)
    for name in sources:
        own = [q for q in tests if q.family == name]
        counts = {text: sum(q.public.choices[q.answer] == text for q in own) for text in own[0].public.choices}
        assert sum(counts.values()) == 200 and max(counts.values()) - min(counts.values()) <= 1
        places = [q.answer for q in own]
        assert max(places.count(i) for i in set(places)) < 0.65 * len(places)
    assert max(len(q.public.sequence) for q in built.questions) == 1000
    assert {q.split for q in built.questions if q.family == "demo_human_or_worm"} == {"test", "train"}
    keys = [canonical(q.public.sequence) for q in built.questions]
    assert len(set(keys)) == len(keys)
    # numbers were settled by what the sequences are like
    assert built.report["demo_human_or_worm"]["labels"] == {"0": "human", "1": "worm"}
    assert built.report["demo_coding_vs_intergenomic"]["labels"] == {"0": "intergenic", "1": "coding"}
    assert "standard errors" in built.report["demo_coding_vs_intergenomic"]["settled_by"]
    assert built.report["human_ocr_ensembl"]["settled_by"] == "names"
    assert build_set("genbench-x", sources).questions == built.questions
    assert build_set("genbench-x", sources, seed=1).questions != built.questions


def test_sequences_of_other_sets_are_kept_apart_on_both_strands(tmp_path):
    sources = genbench(tmp_path, random.Random(1), n=130)
    first = build_set("genbench-x", sources)
    q = first.questions[0]
    path = write(tmp_path / "trained.jsonl", {**DESCRIBE, "sequence": reverse_complement(q.public.sequence)})
    second = build_set("genbench-x", sources, apart=read_questions(path))
    assert canonical(q.public.sequence) not in {canonical(o.public.sequence) for o in second.questions}
    assert sum(told["kept_apart"] for told in second.report.values()) == 1


def test_labels_that_nothing_settles_are_refused(tmp_path):
    sources = genbench(tmp_path, random.Random(2))
    same = tmp_path / "same.csv"
    rng = random.Random(3)
    same.write_text("\n".join(["seq,class", *(f"{dna(rng, 200)},{i % 2}" for i in range(300))]))
    with pytest.raises(QuestionError, match="settles nothing"):
        build_set("genbench-x", {**sources, "demo_human_or_worm": LabelledFiles(same)})
    with pytest.raises(QuestionError, match="name the classes"):
        build_set("genbench-x", {**sources, "drosophila_enhancers_stark": LabelledFiles(same)})


def test_sources_that_do_not_fit_are_refused(tmp_path):
    sources = genbench(tmp_path, random.Random(4), n=90)
    with pytest.raises(QuestionError, match="too few"):
        build_set("genbench-x", sources)
    with pytest.raises(UsageError, match="also needs a source for deepstarr"):
        build_set(
            "bm4",
            {k: LabelledFiles("x") for k in ("sigma70_promoters", "bacteria_vs_archaea", "mouse_ensembl_enhancers")},
        )
    for arguments, named in (
        (("genbench", {}), "genbench-x"),
        (("bm4", {"deepstar": LabelledFiles("x")}), "deepstarr"),
    ):
        with pytest.raises(UnknownNameError, match=named):
            build_set(*arguments)


def test_recipes_have_the_papers_counts():
    assert {name: count * len(datasets) for name, (count, datasets) in RECIPES.items()} == {
        "genbench-x": 1000,
        "bm4": 1000,
    }


def test_measures():
    assert gc_content("GGCA") == 0.75
    assert cpg_ratio("CGCG") == 2.0 and cpg_ratio("AAAA") == 0.0
    assert open_frame("GCTGCTGCT") == 1.0
    assert open_frame("TAATAATAATAATAA") < 1.0


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("x.csv", "a,b\n1,2\n", "columns"),
        ("x.fa", ">no label\nACGT\n", "LABEL"),
        ("x.jsonl", "[]\n{\n", "x.jsonl"),
        ("missing.csv", None, "missing.csv"),
        ("binary.csv", b"\xff\xfe\x00", "binary.csv"),
    ],
)
def test_files_without_labelled_sequences_are_refused(name, content, named, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(QuestionError, match=named):
        list(read_labelled(tmp_path / name))
