from .chunks import (
    LEAST_MEMORY as LEAST_MEMORY,
    Arrays as Arrays,
    Chunk as Chunk,
    Chunks as Chunks,
    Engine as Engine,
    Here as Here,
    Kernel as Kernel,
    SparseCounts as SparseCounts,
    read_size as read_size,
    size_text as size_text,
    summed as summed,
)
from .cluster import DaskEngine as DaskEngine
from .counts import (
    Counts as Counts,
    Flags as Flags,
    Ints as Ints,
    Rows as Rows,
    distinct_rows as distinct_rows,
    distinct_values as distinct_values,
    first_rows as first_rows,
    group_rows as group_rows,
    look_up as look_up,
    occurring as occurring,
    pair_counts as pair_counts,
    renumber as renumber,
    rows_by_rank as rows_by_rank,
    value_counts as value_counts,
    weighted_counts as weighted_counts,
    which_occur as which_occur,
)
from .local import LocalEngine as LocalEngine
from .shares import counted_keys as counted_keys, counted_shares as counted_shares
