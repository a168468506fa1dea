"""Raw material of the embedded questions: pinned public packages, read into plain sequences with labels.

`sources.json` pins each Debian package by version and SHA-256. Packages are unpacked, never installed.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolcredit.envs.genome.sequence import reverse_complement

PINS = json.loads((Path(__file__).parent / "sources.json").read_text(encoding="utf-8"))
SITE_CONTEXT = 200
DECOY_DISTANCE = 30
CC_BY = "CC BY 4.0"
INSDC = "INSDC, free of restrictions"


class Packages:
    """Unpacked Debian packages; what is not in `folder` yet is fetched with `apt-get download`."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._unpacked = tempfile.TemporaryDirectory()

    def path(self, package: str, inner: str) -> Path:
        """Path of the file that `package` would install as `/usr/{inner}`."""
        root = Path(self._unpacked.name) / package
        if not root.exists():
            subprocess.run(["dpkg-deb", "-x", str(self._verified(package)), str(root)], check=True)
        return root / "usr" / inner

    def _verified(self, package: str) -> Path:
        pin = PINS["debian"][package]
        file = self.folder / pin["file"]
        if not file.exists():
            subprocess.run(["apt-get", "download", f"{package}={pin['version']}"], cwd=self.folder, check=True)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest != pin["sha256"]:
            raise SystemExit(f"{file}: SHA-256 is {digest}, expected {pin['sha256']}: remove the file")
        return file


@dataclass(frozen=True)
class Sample:
    """A labelled sequence.

    Attributes:
        sequence: over `A C G T`.
        label: what it is.
        group: what must not be torn apart by a split (gene, genomic block, matrix, row of a table).
        source: where it comes from, for people.
        licence: under which terms.
    """

    sequence: str
    label: str
    group: str
    source: str
    licence: str


def uci_splice(packages: Packages) -> list[Sample]:
    """UCI splice junctions, 60 nt with the junction after base 30: `donor`, `acceptor` or `neither`.

    The table has three indicator bits a base; its class EI (exon to intron) is the donor.
    """
    base = {"100": "A", "010": "C", "001": "G", "000": "T"}
    label = {"ei": "donor", "ie": "acceptor", "n": "neither"}
    table = _r_object(packages.path("r-cran-mlbench", "lib/R/site-library/mlbench/data/DNA.rda"))
    samples = []
    for number, row in enumerate(table.astype(str).values.tolist(), start=1):
        bits, kind = "".join(row[:-1]), row[-1]
        sequence = "".join(base[bits[i : i + 3]] for i in range(0, len(bits), 3))
        source = f"UCI splice junctions, row {number} of DNA in mlbench"
        samples.append(Sample(sequence, label[kind], f"uci splice {number}", source, CC_BY))
    return samples


def uci_promoters(packages: Packages) -> list[Sample]:
    """UCI E. coli promoters, 57 nt: `promoter` or `other`."""
    label = {"+": "promoter", "-": "other"}
    table = _r_object(packages.path("r-cran-kernlab", "lib/R/site-library/kernlab/data/promotergene.rda"))
    return [
        Sample(
            "".join(row[1:]).upper(),
            label[row[0]],
            f"uci promoter {number}",
            f"UCI E. coli promoter gene sequences, row {number} of promotergene in kernlab",
            CC_BY,
        )
        for number, row in enumerate(table.astype(str).values.tolist(), start=1)
    ]


def _r_object(path: Path):
    import pyreadr

    (table,) = pyreadr.read_r(str(path)).values()
    return table


def genomes(packages: Packages) -> dict[str, tuple[str, str]]:
    """Organism → (where the sequence comes from, upper-case genome sequence)."""
    examples = "share/doc"
    fly = packages.path("augustus-doc", f"{examples}/augustus/tutorial/data/chr2R.2M-7M.fa")
    coli = packages.path("bowtie-examples", f"{examples}/bowtie/examples/genomes/NC_008253.fna.gz")
    phage = packages.path("bowtie2-examples", f"{examples}/bowtie2/examples/reference/lambda_virus.fa.gz")
    human = packages.path("hisat2", f"{examples}/hisat2/examples/reference/22_20-21M.fa")
    worm = packages.path("r-bioc-bsgenome", "lib/R/site-library/BSgenome/extdata/ce2chrX.fa.gz")
    yeast = packages.path("r-bioc-biostrings", "lib/R/site-library/Biostrings/data/yeastSEQCHR1.rda")
    return {
        "Homo sapiens (human)": ("chromosome 22, 20-21 Mb", _fasta(human)),
        "Drosophila melanogaster (fruit fly)": ("dm3 chromosome 2R, 2-7 Mb", _fasta(fly)),
        "Caenorhabditis elegans (nematode)": ("ce2 chromosome X", _fasta(worm)),
        "Saccharomyces cerevisiae (budding yeast)": ("chromosome I", str(_r_object(yeast).values[0][0]).upper()),
        "Escherichia coli (bacterium)": ("strain 536, NC_008253", _fasta(coli)),
        "Escherichia phage lambda (virus)": ("NC_001416", _fasta(phage)),
    }


def _fasta(path: Path) -> str:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("ascii")
    header, _, sequence = text.partition("\n")
    if not header.startswith(">") or ">" in sequence:
        raise SystemExit(f"{path}: expected FASTA with one record")
    return "".join(sequence.split()).upper()


def human_records(packages: Packages) -> list:
    """Annotated human GenBank records (Biopython `SeqRecord`)."""
    from Bio import SeqIO

    path = packages.path("emboss-test", "share/EMBOSS/test/genbank/gbpri1.seq")
    return list(SeqIO.parse(path, "genbank"))


def human_splice(packages: Packages) -> list[Sample]:
    """Human splice sites in 400 nt of their gene, the junction after base 200, and decoys.

    A decoy (`neither`) is a `GT` or `AG` at the same place, between start and stop codon of an annotated gene, on its
    strand, at least 30 nt away from each annotated exon end.
    """
    return [sample for record in human_records(packages) for sample in _record_sites(record)]


def _record_sites(record) -> Iterator[Sample]:
    sequence = str(record.seq).upper()
    coding = [f for f in record.features if f.type == "CDS" and "pseudo" not in f.qualifiers]
    ends = {
        int(end)
        for f in record.features
        if f.type in ("CDS", "exon", "mRNA")
        for p in f.location.parts
        for end in (p.start, p.end)
    }
    near_end = {end + shift for end in ends for shift in range(-DECOY_DISTANCE, DECOY_DISTANCE + 1)}
    seen = set()
    for feature in coding:
        parts = sorted(feature.location.parts, key=lambda part: int(part.start))
        forward = feature.location.strand == 1
        gene = f"{record.id} {feature.qualifiers.get('gene', [str(int(parts[0].start))])[0]}"
        sites = []
        for exon, following in zip(parts, parts[1:], strict=False):
            first, last = ("donor", "acceptor") if forward else ("acceptor", "donor")
            sites += [(int(exon.end), first), (int(following.start), last)]
        if not sites:
            continue
        donor, acceptor = ("(?=GT)", "(?<=AG)") if forward else ("(?<=AC)", "(?=CT)")
        for pattern in (donor, acceptor):
            found = re.compile(pattern).finditer(sequence, int(parts[0].start), int(parts[-1].end))
            sites += [(match.start(), "neither") for match in found if match.start() not in near_end]
        for position, label in sites:
            window = sequence[max(0, position - SITE_CONTEXT) : position + SITE_CONTEXT]
            if (position, forward) in seen or len(window) < 2 * SITE_CONTEXT or set(window) - set("ACGT"):
                continue
            seen.add((position, forward))
            source = f"GenBank {gene}, {'+' if forward else '-'} strand, junction after base {position}"
            yield Sample(window if forward else reverse_complement(window), label, gene, source, INSDC)


@dataclass(frozen=True)
class Matrix:
    """A JASPAR count matrix: `counts[i]` are the counts of A, C, G, T at position i."""

    id: str
    name: str
    classes: frozenset[str]
    counts: tuple[tuple[float, ...], ...]
    licence: str = CC_BY

    @property
    def source(self) -> str:
        """Where a site drawn from the matrix comes from, for people."""
        return f"site drawn from the JASPAR 2024 matrix {self.id} ({self.name})"


def jaspar_matrices() -> list[Matrix]:
    """JASPAR 2024 CORE vertebrates, sorted by id."""
    from pyjaspar import jaspardb

    pinned = PINS["pypi"]["pyjaspar"]
    if importlib.metadata.version("pyjaspar") != pinned:
        raise SystemExit(f"expected pyjaspar {pinned}: pip install pyjaspar=={pinned}")
    motifs = jaspardb(release="JASPAR2024").fetch_motifs(collection="CORE", tax_group=["vertebrates"])
    matrices = [
        Matrix(
            motif.matrix_id,
            motif.name,
            frozenset([*(motif.tf_family or ()), *(motif.tf_class or ())]),
            tuple(zip(*(motif.counts[base] for base in "ACGT"), strict=True)),
        )
        for motif in motifs
    ]
    return sorted(matrices, key=lambda matrix: matrix.id)
