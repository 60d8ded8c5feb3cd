"""Keys of several parties: how far columns of theirs and ours together identify the common records.

method.py          the question as a contract has it: the sets of columns, the measure, how exact the answers are
party.py           one party's part, and the assembler's
ratios.py          what comes out: a ratio for each set, and what it means
sorted_ratios.py   a set's ratio under sharing, of which nothing but the ratio is opened
"""
