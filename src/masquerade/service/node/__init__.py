"""The party node: it keeps its tables, answers by its policy, signs, and takes part in sessions."""
