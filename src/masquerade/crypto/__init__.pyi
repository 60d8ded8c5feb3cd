from . import words as words
from .bits import Bits as Bits, digits as digits, pack as pack, unpack as unpack
from .circuit import (
    FALSE as FALSE,
    TRUE as TRUE,
    Builder as Builder,
    Circuit as Circuit,
    Literal as Literal,
    Word as Word,
    layers as layers,
    to_bits as to_bits,
)
from .circuits_library import (
    MANTISSA as MANTISSA,
    BidWords as BidWords,
    compare_bids as compare_bids,
    masked_threshold as masked_threshold,
    reciprocal_circuit as reciprocal_circuit,
    undefeated as undefeated,
)
from .count_circuits import (
    all_equal as all_equal,
    all_of_blocks as all_of_blocks,
    at_most as at_most,
    both as both,
    close as close,
    log2 as log2,
    mixed as mixed,
    public_log2 as public_log2,
    reached as reached,
    recursive as recursive,
    row_bounded as row_bounded,
    row_close as row_close,
    row_distinct as row_distinct,
    row_mixed as row_mixed,
    row_recursive as row_recursive,
    sized as sized,
)
from .equality import EqualityTest as EqualityTest
from .garble import (
    Delta as Delta,
    Evaluation as Evaluation,
    Evaluator as Evaluator,
    Garbler as Garbler,
    Garbling as Garbling,
    Labels as Labels,
    corrected as corrected,
)
from .gmw import (
    HeldCircuit as HeldCircuit,
    InputMasks as InputMasks,
    SharedEvaluation as SharedEvaluation,
    TripleMaking as TripleMaking,
    Triples as Triples,
    ZeroShares as ZeroShares,
    hold as hold,
    opened as opened,
    share_message as share_message,
)
from .group import (
    POINT_BYTES as POINT_BYTES,
    Blinding as Blinding,
    NotAPoint as NotAPoint,
    OnDone as OnDone,
    Points as Points,
    as_points as as_points,
    hash_texts as hash_texts,
)
from .hashing import (
    BLOCK_BYTES as BLOCK_BYTES,
    Blocks as Blocks,
    TweakedHash as TweakedHash,
    derive_key as derive_key,
    expand as expand,
    random_bytes as random_bytes,
)
from .homomorphic import (
    OkamotoUchiyamaPublic as OkamotoUchiyamaPublic,
    PaillierPublic as PaillierPublic,
    SecretKey as SecretKey,
    Slots as Slots,
    generate_okamoto_uchiyama as generate_okamoto_uchiyama,
    generate_paillier as generate_paillier,
)
from .key_value_store import (
    Buckets as Buckets,
    SlotPositions as SlotPositions,
    StoreLayout as StoreLayout,
    decode as decode,
    digest_items as digest_items,
    encode as encode,
    zero_shares as zero_shares,
)
from .logarithm import (
    Precision as Precision,
    from_bits as from_bits,
    main_offset as main_offset,
    needed_bits as needed_bits,
    scaled_logarithms as scaled_logarithms,
    shifted_coefficients as shifted_coefficients,
    split_circuit as split_circuit,
)
from .oblivious_permutation import (
    Orderer as Orderer,
    Owner as Owner,
    batches as batches,
    depth_for as depth_for,
    stages_of as stages_of,
)
from .oblivious_prf import (
    HeldStore as HeldStore,
    ItemStore as ItemStore,
    PrfReceiver as PrfReceiver,
    PrfSender as PrfSender,
)
from .one_of_n import TableReceiver as TableReceiver, TableSender as TableSender, as_indices as as_indices
from .products import ProductReceiver as ProductReceiver, ProductSender as ProductSender
from .punctured_trees import Words as Words, WordType as WordType, random_words as random_words, word_for as word_for
from .rings import Elements as Elements, PowerOfTwo as PowerOfTwo, WidePowerOfTwo as WidePowerOfTwo
from .secure_sum import MaskKey as MaskKey, PairwiseMasks as PairwiseMasks, unmask_sum as unmask_sum
from .split_counts import (
    PartReceiver as PartReceiver,
    Rows as Rows,
    Tags as Tags,
    ValueSender as ValueSender,
    tree_batches as tree_batches,
)
from .transfer_extension import (
    ReceivedBatch as ReceivedBatch,
    SentBatch as SentBatch,
    TransferReceiver as TransferReceiver,
    TransferSender as TransferSender,
)
from .unit_products import (
    BlockReceiver as BlockReceiver,
    BlockSender as BlockSender,
    UnitReceiver as UnitReceiver,
    UnitSender as UnitSender,
    batch_size as batch_size,
)
from .unit_vectors import LANES as LANES, UnitVectors as UnitVectors
