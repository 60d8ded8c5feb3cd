from .attacks import HOMOGENEITY as HOMOGENEITY, SKEWNESS as SKEWNESS, attack as attack
from .keys import Keys as Keys, Question as Question, find_keys as find_keys, greedy_key as greedy_key
from .masking import (
    FuzzyDuplicates as FuzzyDuplicates,
    Masked as Masked,
    RatioLimit as RatioLimit,
    Weights as Weights,
    checked_weights as checked_weights,
    choose_columns as choose_columns,
    fuzzy_duplicates as fuzzy_duplicates,
    read_weights as read_weights,
    weights_of as weights_of,
)
from .sampling import HELD_BYTES as HELD_BYTES, RowSample as RowSample, SampleSize as SampleSize
from .scene import Finding as Finding, GroupCounts as GroupCounts, Scene as Scene
from .separation import (
    MEASURES as MEASURES,
    CodedRows as CodedRows,
    Measure as Measure,
    SeparatedRows as SeparatedRows,
    cell_codes as cell_codes,
    read_rows as read_rows,
)
