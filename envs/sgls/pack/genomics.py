"""Genomics: invented genes and variants, and real sequence arithmetic."""

from __future__ import annotations

from random import Random
from typing import Any

from .base import Dice, Domain, Named, State, known, refuse
from .params import NAME, Param, array, enum, identifier, integer, name, number

GENOMICS = Domain("genomics")

GENES = tuple(
    f"{stem}{number}"
    for stem in ("ABRX", "CALD", "DUNM", "FARO", "KESR", "LINQ", "PELG", "TAVR")
    for number in range(1, 10)
)
GENE = name(GENES, words=("gene", "symbol"))
INDEX = Named.of("GEN", "gene", GENES)
GENE_ID = identifier("GEN", INDEX.ids.sample, words=("gene",))
TISSUES = ("brain", "heart", "kidney", "liver", "lung", "muscle")
TISSUE = enum(*TISSUES, words=("tissue", "organ", "where"))
CHROMOSOME = name()
_COMPLEMENT = str.maketrans("ACGT", "TGCA")
_CODE = dict(
    zip(
        (a + b + c for a in "TCAG" for b in "TCAG" for c in "TCAG"),
        "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG",
        strict=True,
    )
)


def _sequence(rng: Random, state: State) -> str:
    return "".join(rng.choices("ACGT", k=3 * rng.randint(3, 6)))


SEQUENCE = Param(
    {"type": "string", "pattern": "^[ACGT]+$", "minLength": 3, "maxLength": 3000},
    "name",
    _sequence,
    words=("sequence", "dna"),
)


@GENOMICS.tool(
    params={"symbol": GENE("Symbol of the gene.")},
    returns={"gene_id": GENE_ID, "symbol": NAME, "full_name": NAME},
    asks=(
        "What is the id of the gene {symbol}?",
        "What does the gene symbol {symbol} stand for?",
        "Find the gene {symbol} in the database.",
    ),
    reply="{symbol} has the id {.gene_id} and stands for {.full_name}.",
)
def find_gene(state: State, symbol: str) -> dict[str, Any]:
    """Find a gene by its symbol: gene id and full name."""
    symbol = known(GENES, symbol, "gene", "symbol")
    dice = Dice(state, "gene", symbol)
    kind = dice.choice(("kinase", "transporter", "receptor", "ligase", "channel"))
    return {
        "gene_id": INDEX.id(state, symbol),
        "symbol": symbol,
        "full_name": f"{symbol.lower()} {kind} {dice.integer(1, 19)}",
    }


@GENOMICS.tool(
    params={
        "gene_id": GENE_ID("Id of the gene, as GEN-12345."),
        "assembly": enum("current", "previous", words=("assembly",))("Genome assembly.").optional("current"),
    },
    returns={
        "gene_id": GENE_ID,
        "chromosome": CHROMOSOME,
        "start": integer(1, 300_000_000),
        "strand": enum("plus", "minus"),
    },
    asks=(
        "On which chromosome is gene {gene_id}, and where does it start?",
        "Give me the location of {gene_id}.",
        "Where does {gene_id} start in the {assembly} assembly?",
    ),
    reply="{gene_id} is on chromosome {.chromosome}, starting at {.start} on the {.strand} strand.",
)
def get_gene_location(state: State, gene_id: str, assembly: str = "current") -> dict[str, Any]:
    """Chromosome, start and strand of a gene, by gene id."""
    INDEX.name(state, gene_id)
    dice = Dice(state, "location", gene_id)
    chromosome, start = str(dice.integer(1, 22)), dice.integer(100_000, 90_000_000)
    shift = Dice(state, "assembly", chromosome).integer(1000, 90_000) if assembly == "previous" else 0
    return {
        "gene_id": gene_id,
        "chromosome": chromosome,
        "start": start - shift,
        "strand": dice.choice(("plus", "minus")),
    }


@GENOMICS.tool(
    params={"gene_id": GENE_ID("Id of the gene."), "tissue": TISSUE("Tissue.")},
    returns={"gene_id": GENE_ID, "tissue": TISSUE, "tpm": number(0, 100_000)},
    asks=(
        "How strongly is gene {gene_id} expressed in the {tissue}?",
        "What's the expression of {gene_id} in {tissue}?",
    ),
    reply="{gene_id} is expressed in the {tissue} at {.tpm} TPM.",
    vague=("How strongly is gene {gene_id} expressed in the tissue I study?",),
)
def get_expression(state: State, gene_id: str, tissue: str) -> dict[str, Any]:
    """Expression of a gene in a tissue, in transcripts per million, by gene id."""
    INDEX.name(state, gene_id)
    return {"gene_id": gene_id, "tissue": tissue, "tpm": Dice(state, "expression", gene_id, tissue).number(0.1, 240)}


@GENOMICS.tool(
    params={
        "gene_id": GENE_ID("Id of the gene."),
        "limit": integer(1, 5, words=("many", "number"))("Most to list.").optional(3),
    },
    returns={"gene_id": GENE_ID, "total": integer(0, 1000), "transcript_ids": array(identifier("TSC"), 0, 5)},
    asks=(
        "Which transcripts does gene {gene_id} have?",
        "List {limit} transcripts of {gene_id}.",
    ),
    reply="{gene_id} has {.total} transcripts, among them {.transcript_ids}.",
)
def list_transcripts(state: State, gene_id: str, limit: int = 3) -> dict[str, Any]:
    """Ids of transcripts of a gene and their total number, by gene id."""
    INDEX.name(state, gene_id)
    total = Dice(state, "transcripts", gene_id).integer(5, 14)
    ids = [f"TSC-{Dice(state, 'transcript', gene_id, number).integer(0, 99_999):05}" for number in range(limit)]
    return {"gene_id": gene_id, "total": total, "transcript_ids": ids}


@GENOMICS.tool(
    params={
        "gene_id": GENE_ID("Id of the gene."),
        "position": integer(1, 3000, words=("position", "where"))("Position in the protein."),
        "change": enum("missense", "nonsense", "silent", words=("change", "kind"))("Kind of change."),
    },
    returns={"effect": enum("benign", "uncertain", "harmful"), "score": number(0, 1)},
    asks=(
        "What is the effect of a {change} change at position {position} of gene {gene_id}?",
        "Predict how harmful a {change} variant at position {position} in {gene_id} is.",
    ),
    reply="The {change} change at {position} is predicted to be {.effect}, with a score of {.score}.",
    vague=("Predict how harmful a {change} variant in {gene_id} is.",),
)
def predict_variant_effect(state: State, gene_id: str, position: int, change: str) -> dict[str, Any]:
    """Predicted effect of a change in the protein of a gene, by gene id."""
    INDEX.name(state, gene_id)
    low, high = {"missense": (0.1, 0.9), "nonsense": (0.75, 0.99), "silent": (0.0, 0.2)}[change]
    score = Dice(state, "effect", gene_id, position, change).number(low, high, 2)
    return {"effect": "benign" if score < 0.34 else "uncertain" if score < 0.67 else "harmful", "score": score}


@GENOMICS.tool(
    params={"sequence": SEQUENCE("DNA sequence, letters ACGT.")},
    returns={"gc_percent": number(0, 100), "length": integer(1, 3000)},
    asks=("What is the GC content of {sequence}?", "Compute the GC percentage and the length of {sequence}."),
    reply="The sequence has {.length} bases and a GC content of {.gc_percent} percent.",
    vague=("What is the GC content of my sequence?",),
)
def compute_gc_content(state: State, sequence: str) -> dict[str, Any]:
    """GC content in percent and length of a DNA sequence."""
    share = (sequence.count("G") + sequence.count("C")) / len(sequence)
    return {"gc_percent": round(100 * share, 1), "length": len(sequence)}


@GENOMICS.tool(
    params={"sequence": SEQUENCE("DNA sequence, letters ACGT.")},
    returns={"sequence": SEQUENCE},
    asks=("What is the reverse complement of {sequence}?", "Give me the opposite strand of {sequence}, read 5' to 3'."),
    reply="The reverse complement is {.sequence}.",
)
def reverse_complement(state: State, sequence: str) -> dict[str, Any]:
    """Reverse complement of a DNA sequence."""
    return {"sequence": sequence.translate(_COMPLEMENT)[::-1]}


@GENOMICS.tool(
    params={
        "sequence": SEQUENCE("DNA sequence, letters ACGT."),
        "frame": integer(1, 3, words=("frame",))("Reading frame.").optional(1),
    },
    returns={"protein": Param({"type": "string", "pattern": "^[A-Z*]*$", "maxLength": 1000}, "name")},
    asks=("Translate {sequence} into protein.", "Which protein does {sequence} encode in reading frame {frame}?"),
    reply="The sequence encodes {.protein}.",
)
def translate_dna(state: State, sequence: str, frame: int = 1) -> dict[str, Any]:
    """Translate DNA into protein with the standard genetic code; stops are shown as *."""
    start = frame - 1
    codons = (sequence[at : at + 3] for at in range(start, len(sequence) - 2, 3))
    protein = "".join(_CODE[codon] for codon in codons)
    return {"protein": protein} if protein else refuse("The sequence has no whole codon in that frame.")


GENOMICS.recipe(
    ("f", "find_gene", {"symbol": "$symbol"}),
    ("l", "get_gene_location", {"gene_id": "@f.gene_id"}),
    asks=("On which chromosome is {symbol}, and on which strand?", "Where in the genome does the gene {symbol} start?"),
    reply="{symbol} ({f.gene_id}) is on chromosome {l.chromosome}, starting at {l.start}, {l.strand} strand.",
)
GENOMICS.recipe(
    ("f", "find_gene", {"symbol": "$symbol"}),
    ("e", "get_expression", {"gene_id": "@f.gene_id", "tissue": "$tissue"}),
    asks=(
        "How strongly is {symbol} expressed in the {tissue}?",
        "I need the {tissue} expression of the gene {symbol}.",
    ),
    reply="{symbol} is expressed in the {tissue} at {e.tpm} TPM.",
)
GENOMICS.recipe(
    ("f", "find_gene", {"symbol": "$symbol"}),
    ("e", "get_expression", {"gene_id": "@f.gene_id", "tissue": "$tissue"}),
    ("v", "predict_variant_effect", {"gene_id": "@f.gene_id", "position": "$position", "change": "$change"}),
    asks=(
        "For {symbol}: its expression in the {tissue}, and the effect of a {change} change at position {position}.",
        "How is {symbol} expressed in {tissue}, and would a {change} variant at position {position} be harmful?",
    ),
    reply="{symbol} is expressed at {e.tpm} TPM in the {tissue}; the {change} change is predicted to be {v.effect} "
    "(score {v.score}).",
)
GENOMICS.recipe(
    ("f", "find_gene", {"symbol": "$symbol"}),
    ("g", "find_gene", {"symbol": "$other_symbol"}),
    ("e", "get_expression", {"gene_id": "@f.gene_id", "tissue": "$tissue"}),
    ("d", "get_expression", {"gene_id": "@g.gene_id", "tissue": "$tissue"}),
    asks=(
        "Which gene is expressed more strongly in the {tissue}, {symbol} or {other_symbol}? Give both values.",
        "Compare the {tissue} expression of {symbol} and {other_symbol}.",
    ),
    reply="In the {tissue} {symbol} is at {e.tpm} TPM and {other_symbol} at {d.tpm} TPM.",
)
GENOMICS.recipe(
    ("r", "reverse_complement", {"sequence": "$sequence"}),
    ("t", "translate_dna", {"sequence": "@r.sequence"}),
    asks=(
        "Translate the reverse complement of {sequence} into protein.",
        "Which protein does the opposite strand of {sequence} encode?",
    ),
    reply="The reverse complement is {r.sequence}, which encodes {t.protein}.",
)
