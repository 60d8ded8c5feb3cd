from . import table as table
from .boundary import Boundary as Boundary, named_boundary as named_boundary, pruned as pruned
from .column import (
    Coded as Coded,
    Column as Column,
    Domain as Domain,
    Generalised as Generalised,
    allowed_cells as allowed_cells,
    released_range as released_range,
)
from .continuum import (
    ANYTHING as ANYTHING,
    DATE as DATE,
    ISO_DATE as ISO_DATE,
    ISO_TIMES as ISO_TIMES,
    MISSING_CELL as MISSING_CELL,
    NUMBER as NUMBER,
    USUAL_NUMBERS as USUAL_NUMBERS,
    Continuum as Continuum,
    Kind as Kind,
    Number as Number,
    NumberStyle as NumberStyle,
    days as days,
    read_date as read_date,
    read_interval as read_interval,
    read_number as read_number,
    write_interval as write_interval,
    write_number as write_number,
)
from .encoding import (
    MISSING_VALUES as MISSING_VALUES,
    SPACE as SPACE,
    Codes as Codes,
    code as code,
    distinct as distinct,
    encode as encode,
    is_text as is_text,
    missing_rows as missing_rows,
    texts as texts,
    without_unused as without_unused,
)
from .file_kinds import (
    CSV_SUFFIXES as CSV_SUFFIXES,
    EXCEL_SUFFIXES as EXCEL_SUFFIXES,
    FILE_SCHEMES as FILE_SCHEMES,
    PARQUET_SUFFIXES as PARQUET_SUFFIXES,
    database_path as database_path,
    database_scheme as database_scheme,
    is_partitioned as is_partitioned,
)
from .fingerprinting import (
    Fingerprints as Fingerprints,
    coded_fingerprints as coded_fingerprints,
    equal_cells as equal_cells,
    fingerprints as fingerprints,
    mixed as mixed,
)
from .people import (
    MOST_PEOPLE as MOST_PEOPLE,
    common_people as common_people,
    generate_people as generate_people,
    people_taxonomies as people_taxonomies,
    split_people as split_people,
)
from .private_copy import MappedParts as MappedParts, mapped_columns as mapped_columns, staged_parquet as staged_parquet
from .query_log import (
    All as All,
    Compared as Compared,
    Condition as Condition,
    Not as Not,
    QueryLog as QueryLog,
    Some as Some,
    comparisons as comparisons,
    kept_query_log as kept_query_log,
    read_query_log as read_query_log,
)
from .read import Batches as Batches, TableFile as TableFile
from .read_csv import likely_separator as likely_separator, rows as rows
from .read_parquet import (
    Part as Part,
    PartitionedFiles as PartitionedFiles,
    is_listed as is_listed,
    is_part_name as is_part_name,
    listed_files as listed_files,
    part_name as part_name,
    partitioned_files as partitioned_files,
)
from .read_sql import PostgresUrl as PostgresUrl, partitioned_query as partitioned_query
from .reading import RawTable as RawTable, chosen as chosen, why_unreadable as why_unreadable
from .records import (
    KEPT as KEPT,
    Histograms as Histograms,
    Partitioned as Partitioned,
    Records as Records,
    TablePart as TablePart,
    Told as Told,
    Wanted as Wanted,
    codes_of as codes_of,
    complete_rows as complete_rows,
    encoded as encoded,
    gathered as gathered,
    joined_chunks as joined_chunks,
    merged_labels as merged_labels,
    narrowed as narrowed,
    packed as packed,
    parts_for as parts_for,
    placed as placed,
    ranks_of as ranks_of,
    read_chunks as read_chunks,
    rows_of_chunks as rows_of_chunks,
    sent_back as sent_back,
    with_products as with_products,
)
from .released import (
    Choice as Choice,
    FailedMethod as FailedMethod,
    OnStep as OnStep,
    Outcome as Outcome,
    ReleasedCodes as ReleasedCodes,
    Step as Step,
    Tried as Tried,
    by_cut as by_cut,
)
from .schema import Attribute as Attribute, AttributeKind as AttributeKind, Schema as Schema, repeated as repeated
from .table import (
    Combination as Combination,
    Missing as Missing,
    Origin as Origin,
    ProductColumn as ProductColumn,
    Table as Table,
    columns_of as columns_of,
    infer_schema as infer_schema,
)
from .taxonomy import FLAT as FLAT, Branch as Branch, Node as Node, Taxonomy as Taxonomy
from .taxonomy_files import (
    MAX_LEVELS as MAX_LEVELS,
    Taxonomies as Taxonomies,
    interval_taxonomy as interval_taxonomy,
    outline_of_rows as outline_of_rows,
    read_taxonomy as read_taxonomy,
    with_taxonomies as with_taxonomies,
)
from .write import (
    WrittenFile as WrittenFile,
    as_json as as_json,
    check_target as check_target,
    count_formulas as count_formulas,
    csv_lines as csv_lines,
    digest_of as digest_of,
    encode_table as encode_table,
    escape_formulas as escape_formulas,
    remove_withheld as remove_withheld,
    sample_of as sample_of,
    unescape_formulas as unescape_formulas,
    write_release as write_release,
    write_table as write_table,
)
