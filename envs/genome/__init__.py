"""`GenomeToolSubset-v0`: which tools should be called before a frozen reasoner answers a question about DNA?"""
