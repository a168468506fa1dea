"""Building question sets from labelled sequences that users bring: GenBench-X and BM4 (arXiv 2609.10221).

    built = build_set("bm4", {"deepstarr": LabelledFiles("deepstarr_test.csv", "deepstarr_train.csv"), …})
    write_questions("bm4.jsonl.gz", built.questions)

The recipe: so many questions from each dataset, the same number for each class, longer sequences cropped to their
middle 1,000 bases, options in an order drawn for each question, and no sequence twice, on neither strand, among the
questions, the training part and whatever else is to be kept apart. The training part is what tools compare with.

What a label means is taken from its name. Where files hold numbers only it is settled by measurement: the classes of
some datasets differ in a known direction (coding sequence has longer open frames, open chromatin more CpG), and the
labels follow if the difference is beyond doubt. Where no direction is known the file must name its classes.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean, variance
from typing import Any

from ..envs.genome.questions import PublicQuestion, Question
from ..envs.genome.sequence import canonical, clean, crop_centre
from ..errors import QuestionError, UnknownNameError, UsageError
from .labelled_sequences import read_labelled

LONGEST = 1_000
TRAIN_PER_DATASET = 1_000
#: standard errors between two class means from which a label's meaning counts as settled
SETTLED = 5.0
_STOP = ("TAA", "TAG", "TGA")


def gc_content(sequence: str) -> float:
    """Share of G and C."""
    return (sequence.count("G") + sequence.count("C")) / len(sequence)


def cpg_ratio(sequence: str) -> float:
    """CpG observed over expected; 0 without C or G."""
    expected = sequence.count("C") * sequence.count("G")
    return sequence.count("CG") * len(sequence) / expected if expected else 0.0


def open_frame(sequence: str) -> float:
    """Longest stretch of codons without a stop in the three forward frames, as a share of the codons."""
    longest = 0
    for frame in range(3):
        run = 0
        for start in range(frame, len(sequence) - 2, 3):
            run = 0 if sequence[start : start + 3] in _STOP else run + 1
            longest = max(longest, run)
    return longest / max(1, len(sequence) // 3)


@dataclass(frozen=True)
class Measure:
    """What tells two classes apart: the class `higher` has the higher mean of `function`."""

    name: str
    function: Callable[[str], float]
    higher: str


@dataclass(frozen=True)
class Dataset:
    """One dataset of a recipe.

    Attributes:
        name: for ids and families.
        question: the wording.
        classes: option's text → names under which files may have it, in lower case.
        measure: settles the meaning of numbers; None if nothing is known that could.
    """

    name: str
    question: str
    classes: Mapping[str, tuple[str, ...]]
    measure: Measure | None = None


_REGULATORY = "Is this DNA fragment {}?"
RECIPES: dict[str, tuple[int, tuple[Dataset, ...]]] = {
    "genbench-x": (
        200,
        (
            Dataset(
                "demo_human_or_worm",
                "Does this DNA fragment come from the human genome or from the worm C. elegans?",
                {"human": ("human", "homo_sapiens"), "worm": ("worm", "c_elegans", "caenorhabditis_elegans")},
                Measure("GC content", gc_content, "human"),
            ),
            Dataset(
                "human_ensembl_regulatory",
                "Which kind of regulatory element is this human DNA fragment?",
                {
                    "enhancer": ("enhancer",),
                    "open chromatin region": ("ocr", "open_chromatin", "open chromatin region"),
                    "promoter": ("promoter",),
                },
            ),
            Dataset(
                "human_ocr_ensembl",
                _REGULATORY.format("a human open chromatin region"),
                {"yes, open chromatin": ("positive", "ocr"), "no": ("negative", "random")},
                Measure("CpG observed/expected", cpg_ratio, "yes, open chromatin"),
            ),
            Dataset(
                "drosophila_enhancers_stark",
                _REGULATORY.format("a Drosophila enhancer"),
                {"yes, an enhancer": ("positive", "enhancer"), "no": ("negative", "random")},
            ),
            Dataset(
                "demo_coding_vs_intergenomic",
                "Is this human DNA fragment from coding sequence or from between genes?",
                {
                    "coding": ("coding", "coding_seqs", "coding_sequence"),
                    "intergenic": ("intergenic", "intergenomic", "intergenomic_seqs"),
                },
                Measure("longest open frame", open_frame, "coding"),
            ),
        ),
    ),
    "bm4": (
        250,
        (
            Dataset(
                "sigma70_promoters",
                _REGULATORY.format("a bacterial sigma-70 promoter"),
                {"yes, a promoter": ("promoter", "positive"), "no": ("non-promoter", "nonpromoter", "negative")},
                Measure("AT content", lambda sequence: 1 - gc_content(sequence), "yes, a promoter"),
            ),
            Dataset(
                "bacteria_vs_archaea",
                "Does this DNA fragment come from a bacterium or from an archaeon?",
                {"bacterium": ("bacteria", "bacterium"), "archaeon": ("archaea", "archaeon")},
            ),
            Dataset(
                "deepstarr",
                _REGULATORY.format("an active enhancer in Drosophila S2 cells"),
                {"yes, active": ("active", "positive", "enhancer"), "no": ("inactive", "negative", "control")},
            ),
            Dataset(
                "mouse_ensembl_enhancers",
                _REGULATORY.format("a mouse enhancer"),
                {"yes, an enhancer": ("positive", "enhancer"), "no": ("negative", "random")},
                Measure("GC content", gc_content, "yes, an enhancer"),
            ),
        ),
    ),
}


@dataclass(frozen=True)
class LabelledFiles:
    """Where a dataset's sequences are: the part that questions come from, and the part that tools compare with."""

    test: str | Path
    train: str | Path | None = None


@dataclass(frozen=True)
class Built:
    """A question set and how it was made.

    Attributes:
        questions: of the splits `test` and `train`.
        report: per dataset `test`, `train`, `labels` (what each label was taken for), `settled_by`, and how many
            sequences were left out as `unusable`, `repeated` or `kept_apart`.
    """

    questions: tuple[Question, ...]
    report: dict[str, dict[str, Any]] = field(default_factory=dict)


def build_set(
    recipe: str,
    sources: Mapping[str, LabelledFiles],
    *,
    seed: int = 0,
    apart: Iterable[Question] = (),
) -> Built:
    """The questions of a recipe from labelled sequences.

    Args:
        recipe: a name of `RECIPES`.
        sources: dataset name to its files, see `read_labelled`; every dataset of the recipe.
        seed: of the choice of sequences.
        apart: questions whose sequences must not occur: what a policy was trained on.

    Raises:
        UnknownNameError: there is no such recipe, or it has no such dataset.
        QuestionError: a file cannot be read, its labels cannot be told, or it has too few sequences.
    """
    if recipe not in RECIPES:
        raise UnknownNameError("recipe", recipe, RECIPES)
    count, datasets = RECIPES[recipe]
    names = [dataset.name for dataset in datasets]
    for name in sources:
        if name not in names:
            raise UnknownNameError(f"dataset of {recipe}", name, names)
    missing = [name for name in names if name not in sources]
    if missing:
        raise UsageError(f"{recipe} also needs a source for {', '.join(missing)}")
    taken = {canonical(clean(s).sequence) for q in apart for _, s in q.public.sequences()}
    questions: list[Question] = []
    report = {}
    for dataset in datasets:
        made, told = _build(dataset, sources[dataset.name], count, seed, taken)
        questions += made
        report[dataset.name] = told
    return Built(tuple(questions), report)


def _build(
    dataset: Dataset, files: LabelledFiles, count: int, seed: int, taken: set[str]
) -> tuple[list[Question], dict[str, Any]]:
    told: dict[str, Any] = {"unusable": 0, "repeated": 0, "kept_apart": 0}
    test = _usable(files.test, told)
    train = [] if files.train is None else _usable(files.train, told)
    meaning, told["settled_by"] = settle_labels(dataset, test)
    told["labels"] = meaning
    quota = {text: count // len(dataset.classes) for text in dataset.classes}
    for text in list(quota)[: count % len(dataset.classes)]:
        quota[text] += 1
    questions = []
    for split, pool, wanted in (
        ("test", test, quota),
        ("train", train, dict.fromkeys(quota, TRAIN_PER_DATASET // len(quota))),
    ):
        chosen = _choose([(s, meaning.get(label, label)) for s, label in pool], wanted, seed, taken, told)
        short = {text: number - len(chosen[text]) for text, number in wanted.items() if len(chosen[text]) < number}
        if split == "test" and short:
            raise QuestionError(
                f"{dataset.name}: {files.test} has too few sequences that may be used: "
                + ", ".join(f"{number} more of {text!r}" for text, number in short.items())
            )
        told[split] = {text: len(sequences) for text, sequences in chosen.items()}
        questions += [_question(dataset, s, text, split) for text, part in chosen.items() for s in part]
    return sorted(questions, key=lambda question: question.id), told


def _usable(path: str | Path, told: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for sequence, label in read_labelled(path):
        try:
            cleaned = crop_centre(clean(sequence).sequence, LONGEST)
        except QuestionError:
            cleaned = ""
        if set(cleaned) & set("ACGT"):
            found.append((cleaned, label))
        else:
            told["unusable"] += 1
    return found


def _choose(
    pool: Sequence[tuple[str, str]], wanted: Mapping[str, int], seed: int, taken: set[str], told: dict[str, Any]
) -> dict[str, list[str]]:
    """So many sequences of each class, in an order that depends on their content and the seed only."""
    chosen: dict[str, list[str]] = {text: [] for text in wanted}
    classes: dict[str, set[str]] = {}
    for sequence, text in pool:
        classes.setdefault(canonical(sequence), set()).add(text)
    before, own = set(taken), set()
    for sequence, text in sorted(pool, key=lambda pair: hashlib.sha256(f"{seed} {pair[0]}".encode()).digest()):
        key = canonical(sequence)
        if text not in chosen or len(chosen[text]) >= wanted[text]:
            continue
        if key in before:
            told["kept_apart"] += 1
        elif key in own or len(classes[key]) > 1:  # a repeat, or one sequence with two labels
            told["repeated"] += 1
        else:
            own.add(key)
            chosen[text].append(sequence)
    taken |= own
    return chosen


def _question(dataset: Dataset, sequence: str, text: str, split: str) -> Question:
    digest = hashlib.sha256(f"{dataset.name} {sequence}".encode()).hexdigest()
    choices = list(dataset.classes)
    Random(digest).shuffle(choices)
    public = PublicQuestion(dataset.question, tuple(choices), sequence)
    return Question(f"{dataset.name}-{digest[:12]}", public, choices.index(text), dataset.name, split, dataset.name)


def settle_labels(dataset: Dataset, pairs: Sequence[tuple[str, str]]) -> tuple[dict[str, str], str]:
    """What each label of a file means, and how that was found out.

    Args:
        dataset: the classes.
        pairs: (sequence, label).

    Returns:
        label → option's text; and `names`, or the measurement in words.

    Raises:
        QuestionError: a label is no name of a class, and no measurement settles it.
    """
    labels = sorted({label for _, label in pairs})
    by_name = {name: text for text, names in dataset.classes.items() for name in (*names, text.lower())}
    if labels and all(label.lower() in by_name for label in labels):
        return {label: by_name[label.lower()] for label in labels}, "names"
    names = "; ".join(f"{text}: {', '.join(known)}" for text, known in dataset.classes.items())
    expected = f"{dataset.name} has the labels {', '.join(labels) or '(none)'}: name the classes ({names})"
    if dataset.measure is None or len(labels) != 2 or not all(re.fullmatch(r"[0-9]+(\.0)?", label) for label in labels):
        raise QuestionError(expected)
    measure = dataset.measure
    values = [[measure.function(sequence) for sequence, label in pairs if label == own] for own in labels]
    if min(map(len, values)) < 2:
        raise QuestionError(f"{expected}; too few sequences to measure")
    error = math.sqrt(sum(variance(part) / len(part) for part in values))
    means = [fmean(part) for part in values]
    distance = abs(means[0] - means[1]) / error if error else math.inf
    words = f"{measure.name}: mean {means[0]:.3f} for {labels[0]}, {means[1]:.3f} for {labels[1]}"
    if not distance >= SETTLED or means[0] == means[1]:
        raise QuestionError(f"{expected}; {words}, which settles nothing ({distance:.1f} standard errors)")
    higher, lower = (labels[0], labels[1]) if means[0] > means[1] else (labels[1], labels[0])
    other = next(text for text in dataset.classes if text != measure.higher)
    return {higher: measure.higher, lower: other}, f"{words} ({distance:.1f} standard errors)"
