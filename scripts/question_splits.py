"""Leak-free splits of labelled sequences: similar groups are joined, groups dealt to splits, shared words refused."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from question_sources import Sample
from toolcredit.envs.genome.sequence import canonical, crop_centre

SHARED_LENGTH = 30  # no word of this length may stand in two splits
CLUSTER_LENGTH = 20  # groups that share a word of this length belong together
CLUSTER_CORE = 80
DEAL = ("train", "test", "train", "dev", "train", "test", "train", "train", "test", "train")


def words(sequence: str, length: int) -> Iterator[str]:
    """The words of a sequence, each as the strand that comes first; a shorter sequence is one word."""
    return (canonical(sequence[i : i + length]) for i in range(max(1, len(sequence) - length + 1)))


def clusters(samples: Sequence[Sample]) -> dict[str, str]:
    """Group → name of its cluster; groups are joined that share a word of `CLUSTER_LENGTH` in their centres."""
    parent = {sample.group: sample.group for sample in samples}

    def root(group: str) -> str:
        while parent[group] != group:
            parent[group] = group = parent[parent[group]]
        return group

    owner: dict[str, str] = {}
    for sample in samples:
        for word in words(crop_centre(sample.sequence, CLUSTER_CORE), CLUSTER_LENGTH):
            other = owner.setdefault(word, sample.group)
            parent[root(sample.group)] = root(other)
    return {group: root(group) for group in parent}


def assign_splits(groups: Iterable[str], seed: str) -> dict[str, str]:
    """Group → split: of each ten groups in random order six are for training, one for dev, three for test."""
    order = sorted(set(groups))
    random.Random(seed).shuffle(order)
    return {group: DEAL[position % len(DEAL)] for position, group in enumerate(order)}


def splits_per_label(samples: Sequence[Sample], seed: str) -> dict[str, str]:
    """`assign_splits` for each label on its own, where no group has two labels."""
    split_of: dict[str, str] = {}
    for label in sorted({sample.label for sample in samples}):
        split_of |= assign_splits((s.group for s in samples if s.label == label), f"{seed} {label}")
    return split_of


class Guard:
    """Keeps words of `SHARED_LENGTH` (shorter sequences as a whole) from standing in two splits."""

    def __init__(self) -> None:
        self._split_of_word: dict[str, str] = {}

    def admit(self, sequence: str, split: str) -> bool:
        """Whether `sequence` may be used in `split`; if so its words belong to that split from now on."""
        found = set(words(sequence, SHARED_LENGTH))
        if any(self._split_of_word.get(word, split) != split for word in found):
            return False
        self._split_of_word.update(dict.fromkeys(found, split))
        return True


class Pool:
    """Samples by (split, label), dealt in random order, each at most once."""

    def __init__(self, samples: Iterable[Sample], split_of: Callable[[Sample], str], guard: Guard, seed: str):
        self._guard = guard
        self._left: dict[tuple[str, str], list[Sample]] = defaultdict(list)
        for sample in samples:
            self._left[split_of(sample), sample.label].append(sample)
        for key, waiting in sorted(self._left.items()):
            random.Random(f"{seed} {key}").shuffle(waiting)

    def take(self, split: str, label: str) -> Sample:
        """The next sample that shares no word with another split."""
        waiting = self._left[split, label]
        while waiting:
            sample = waiting.pop()
            if self._guard.admit(sample.sequence, split):
                return sample
        raise SystemExit(f"no {label!r} sample is left for {split}: lower a quota")
