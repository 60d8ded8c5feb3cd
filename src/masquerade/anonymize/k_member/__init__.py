"""Clusters of k records that lose least (Byun et al.), and GreedyCKA, which makes them within boundaries.

algorithm.py   the two methods
growth.py      the greedy growth of one cluster after the other
losses.py      what a cluster loses when it takes in another record
variety.py     which sensitive values a cluster still needs
"""
