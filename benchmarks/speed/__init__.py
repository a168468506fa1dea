"""Side-by-side speed measurements, one file each; run one with `python -m toolcredit.benchmarks.speed.NAME`."""
