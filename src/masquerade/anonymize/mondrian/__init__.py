"""Mondrian: cut groups of records, each where it suits that group, while every part satisfies the requirement.

algorithm.py         Mondrian itself: its parameters
providers.py         the variant for m-privacy, which also cuts between providers
method.py            which allowed cut is made: by certainty, width, class, or for a purpose
qids.py              which QIDs are cut together, and from where
multidimensional.py  one QID: large groups are cut by counts, then each is whole in one memory
counted_cuts.py      the loop over groups of which no memory has all records, by how many have each rank
partition.py         the loop over groups in one memory, and what is known of finished ones
linked.py            the loop for several QIDs that share attributes
linked_counts.py     the cuts of records that these QIDs link, and whether they are allowed
hidden_cuts.py       undoes cuts between providers whose parts look alike and violate as one group
axes.py              the dimensions: what a group covers along each, and where it would be cut
cuts.py              the cuts that groups may have, the parts that they would make, and the best of them
tally.py             what groups cover along all taxonomies at once, from counts
judge.py             whether parts satisfy
"""
