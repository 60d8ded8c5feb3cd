"""DkA: two parties make the join of their tables k-anonymous, and learn nothing but the result (Jiang, Clifton)."""
