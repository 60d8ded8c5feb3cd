from .auto import (
    BestRelease as BestRelease,
    MethodResult as MethodResult,
    SideBySide as SideBySide,
    side_by_side as side_by_side,
)
from .cheapest_box.method import CheapestBox as CheapestBox
from .datafly import BottomUpColumns as BottomUpColumns, Datafly as Datafly, without_steps as without_steps
from .k_member import GreedyCka as GreedyCka, KMember as KMember
from .method import Method as Method, TableMethod as TableMethod, insist as insist
from .mondrian.algorithm import (
    Mondrian as Mondrian,
    ProviderAwareMondrian as ProviderAwareMondrian,
    may_cut_providers as may_cut_providers,
)
from .mondrian.axes import (
    Axis as Axis,
    Batch as Batch,
    Cells as Cells,
    ContinuousAxis as ContinuousAxis,
    Shares as Shares,
    TaxonomyAxis as TaxonomyAxis,
    axes_of as axes_of,
)
from .mondrian.counted_cuts import (
    CountedGroups as CountedGroups,
    CountRanks as CountRanks,
    Test as Test,
    WeightedRanks as WeightedRanks,
    cuts_along as cuts_along,
    weighted_ranks as weighted_ranks,
)
from .mondrian.cuts import AxisCandidates as AxisCandidates, Choice as Choice, candidates_along as candidates_along
from .mondrian.judge import Judge as Judge, Merge as Merge, judge_of as judge_of
from .mondrian.linked import begins_with_union as begins_with_union, by_qid as by_qid, linked as linked
from .mondrian.method import (
    BY_CLASS as BY_CLASS,
    CHOICES as CHOICES,
    CLASS_FIRST as CLASS_FIRST,
    GAIN as GAIN,
    INFORMATION_GAIN as INFORMATION_GAIN,
    MERGE_HELP as MERGE_HELP,
    by_priority as by_priority,
    choice_named as choice_named,
    priority as priority,
    priority_problems as priority_problems,
    strict as strict,
    weight_problems as weight_problems,
    without_class as without_class,
)
from .mondrian.multidimensional import (
    Dimensions as Dimensions,
    JudgeOf as JudgeOf,
    judge_of_records as judge_of_records,
)
from .mondrian.partition import Partition as Partition, partition as partition, released_column as released_column
from .preparation import (
    boundary_codes as boundary_codes,
    hopeless_at_once as hopeless_at_once,
    prepare as prepare,
    reachable_rows as reachable_rows,
    refuse_violating_whole as refuse_violating_whole,
    start_groups as start_groups,
)
from .publication import (
    Folder as Folder,
    Order as Order,
    anonymised as anonymised,
    publish as publish,
    publish_records as publish_records,
    published_columns as published_columns,
    wanted_of as wanted_of,
)
from .read_back import read_release_back as read_release_back
from .release import (
    HELP as HELP,
    IN_A_QID as IN_A_QID,
    OVER_ALL as OVER_ALL,
    PROTECT as PROTECT,
    PROTECT_CLASS as PROTECT_CLASS,
    Provenance as Provenance,
    VerifiedRelease as VerifiedRelease,
    cautions as cautions,
    class_is_sensitive as class_is_sensitive,
    nearly_lost as nearly_lost,
    other_cautions as other_cautions,
    said_of_loss as said_of_loss,
    shuffled as shuffled,
)
from .rollup import CertainRecords as CertainRecords, roll_up as roll_up, with_marks as with_marks
from .tds.groups import (
    Children as Children,
    Instruction as Instruction,
    PublicState as PublicState,
    QidGroups as QidGroups,
    Split as Split,
    child_numbers as child_numbers,
)
from .tds.method import (
    Candidate as Candidate,
    LocalView as LocalView,
    TopDownSpecialization as TopDownSpecialization,
    anonymity_loss as anonymity_loss,
)
