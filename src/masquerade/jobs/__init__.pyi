from .attacking import attack as attack, attack_job as attack_job
from .comparing import compare as compare
from .drafts.draft import DEFAULT_K as DEFAULT_K, DIVERSITY as DIVERSITY, Draft as Draft
from .drafts.drafting import anonymize_table as anonymize_table, draft as draft
from .drafts.roles import (
    ANOTHER_CLASS as ANOTHER_CLASS,
    DescribedColumn as DescribedColumn,
    RoleProposal as RoleProposal,
    propose_by_name as propose_by_name,
)
from .evaluation import evaluate as evaluate
from .guessing import Table as Table
from .joint_key_discovery import JointKeysFound as JointKeysFound, joint_keys as joint_keys
from .key_discovery import (
    fuzzy_duplicates as fuzzy_duplicates,
    keys as keys,
    mask as mask,
    opened_engine as opened_engine,
    ratios as ratios,
)
from .learn import (
    SITE_KEY as SITE_KEY,
    Learning as Learning,
    Predictions as Predictions,
    learn_job as learn_job,
    predict as predict,
    read_model_file as read_model_file,
    read_site_key as read_site_key,
)
from .mashup import Mashup as Mashup, mashup_job as mashup_job
from .model import (
    EngineSection as EngineSection,
    Job as Job,
    TableSection as TableSection,
    engine_of as engine_of,
    schema_of as schema_of,
)
from .one_table import anonymize as anonymize, read as read, roll_up as roll_up
from .outputs import section_file as section_file
from .plan import requirement_of as requirement_of
from .processes import Child as Child, Supervisor as Supervisor
from .release import Release as Release
from .rows import AskedTable as AskedTable, is_about_parties as is_about_parties, opened_job_table as opened_job_table
from .run import (
    Written as Written,
    anonymize_job as anonymize_job,
    compare_job as compare_job,
    evaluate_job as evaluate_job,
    verify_job as verify_job,
)
from .verifying import Verification as Verification, verify as verify
from .weights import weights_job as weights_job
from .without_pandas import hide_pandas as hide_pandas
