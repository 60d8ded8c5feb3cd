"""Mondrian: cut groups of records, each where it suits that group, while every part satisfies the requirement.

algorithm.py         Mondrian itself: its parameters; and the variant for m-privacy, which also cuts between providers
method.py            which allowed cut is made: by certainty, width, class, or for a purpose
multidimensional.py  one QID: large groups are cut by counts, then each is whole in one memory
counted_cuts.py      the loop over groups of which no memory has all records, by how many have each rank; and the cuts
                     of records that several QIDs link, and whether they are allowed
partition.py         the loop over groups in one memory, and what is known of finished ones
linked.py            which QIDs are cut together, and from where; the loop for several QIDs that share attributes
axes.py              the dimensions: what a group covers along each or all taxonomies at once, and where it would be cut
cuts.py              the cuts that groups may have, the parts that they would make, and the best of them; and which cuts
                     between providers are undone, because their parts look alike and violate as one group
judge.py             whether parts satisfy
"""
