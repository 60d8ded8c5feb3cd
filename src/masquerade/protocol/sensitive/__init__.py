"""Joint histograms of two parties: secret shares of how often each pair of their labels occurs, and tests on them.

protocol/pairs.py                what two parties set up to compute together
histogram.py           the table by oblivious transfers; a shared bit for each record
sorted_histogram.py    the same of records that are sorted first, where groups are large; unit vectors at shared places
homomorphic.py         the same by homomorphic encryption
costs.py               the cost of each
back_ends.py           the choice of the cheapest
checks.py              requirements on another party's sensitive values: counts of the parts of public groups
verdict.py             one bit of such counts: does every group satisfy?
"""
