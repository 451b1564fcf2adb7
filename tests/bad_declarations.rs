//! Graphs that mean nothing are refused when declared, by a variant that names the tensor, the
//! value and the limit. One row each.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use frazil::{
    Align, Band, BlockMask, DType, Dropout, GeometryError, Graph, GraphBuilder, InvalidGraph,
    LengthBounds, LseForm, SdpaFwd, Sequences, Storage, TensorId, TensorSpec,
};

type Extents = Vec<i64>;

/// A declaration that is fine until one thing is changed.
#[derive(Clone)]
struct Declaration {
    q: Extents,
    k: Extents,
    v: Extents,
    o: Extents,
    o_strides: Option<Extents>,
    q_lengths: Option<(DType, Extents)>,
    table: Option<(DType, Extents)>,
    lse: Option<(DType, Extents, Option<Extents>)>,
    bias: Option<(DType, Extents)>,
    sink: Option<(DType, Extents)>,
    slopes: Option<(DType, Extents)>,
    mask: Option<Extents>,
    align: u32,
    storage: fn(TensorId, TensorId) -> (Storage, Storage),
    op: fn(SdpaFwd) -> SdpaFwd,
}

impl Declaration {
    /// `[2, 4, 8, 16]` queries on `[2, 2, 8, 16]` keys.
    fn dense() -> Self {
        Self {
            q: vec![2, 4, 8, 16],
            k: vec![2, 2, 8, 16],
            v: vec![2, 2, 8, 16],
            o: vec![2, 4, 8, 16],
            o_strides: None,
            q_lengths: None,
            table: None,
            lse: None,
            bias: None,
            sink: None,
            slopes: None,
            mask: None,
            align: 16,
            storage: |_, _| (Storage::Dense, Storage::Dense),
            op: |op| op,
        }
    }

    /// 20 packed rows of Q in 2 sequences, found by `sequences`; dense keys.
    fn packed(sequences: fn(TensorId) -> Sequences) -> Self {
        // A closure cannot be a function pointer with a captured form, so each form is a function.
        let storage: fn(TensorId, TensorId) -> (Storage, Storage) = match sequences(TensorId(0)) {
            Sequences::Prefix(_) => |id, _| {
                let sequences = Sequences::Prefix(id);
                let bounds = LengthBounds::up_to(12);
                (Storage::Packed { sequences, bounds, max_total: 20 }, Storage::Dense)
            },
            _ => |id, _| {
                let sequences = Sequences::Lengths(id);
                let bounds = LengthBounds::up_to(12);
                (Storage::Packed { sequences, bounds, max_total: 20 }, Storage::Dense)
            },
        };
        let entries = if matches!(sequences(TensorId(0)), Sequences::Prefix(_)) { 3 } else { 2 };
        Self {
            q: vec![20, 4, 16],
            o: vec![20, 4, 16],
            q_lengths: Some((DType::I32, vec![entries])),
            storage,
            ..Self::dense()
        }
    }

    /// Keys in 5 pages of 8 rows, two per sequence at most.
    fn paged() -> Self {
        Self {
            k: vec![5, 2, 8, 16],
            v: vec![5, 2, 8, 16],
            q_lengths: Some((DType::I32, vec![2])),
            table: Some((DType::I32, vec![2, 2])),
            storage: |lengths, table| {
                let bounds = LengthBounds::up_to(16);
                (Storage::Dense, Storage::Paged { table_k: table, table_v: table, lengths, bounds })
            },
            ..Self::dense()
        }
    }

    fn declare(self) -> Result<Graph, InvalidGraph> {
        let mut builder = GraphBuilder::new();
        let align = self.align;
        let mut tensor = |name: &str, dtype, extents: &Extents| {
            builder.tensor(TensorSpec::contiguous(name, dtype, extents).align(align))
        };
        let q = tensor("q", DType::F16, &self.q)?;
        let k = tensor("k", DType::F16, &self.k)?;
        let v = tensor("v", DType::F16, &self.v)?;
        let mut optional = |name: &str, spec: Option<(DType, Extents)>| {
            spec.map(|(dtype, extents)| tensor(name, dtype, &extents)).transpose()
        };
        let lengths = optional("lengths", self.q_lengths)?;
        let table = optional("table", self.table)?;
        let bias = optional("bias", self.bias)?;
        let sink = optional("sink", self.sink)?;
        let slopes = optional("slopes", self.slopes)?;
        let mask = optional("mask", self.mask.map(|extents| (DType::U8, extents)))?;
        let mut output = |name: &str, dtype, extents: &Extents, strides: Option<Extents>| {
            let spec = match strides {
                Some(strides) => TensorSpec::strided(name, dtype, extents, strides),
                None => TensorSpec::contiguous(name, dtype, extents),
            };
            builder.tensor(spec)
        };
        let o = output("o", DType::F16, &self.o, self.o_strides)?;
        let lse = self.lse.map(|(dtype, extents, strides)| output("lse", dtype, &extents, strides));
        let unused = TensorId(i64::MAX);
        let (q_storage, kv_storage) =
            (self.storage)(lengths.unwrap_or(unused), table.unwrap_or(unused));
        let mut op = SdpaFwd::new(q, k, v, o).storage(q_storage, kv_storage);
        if let Some(bias) = bias {
            op = op.bias(bias);
        }
        if let Some(sink) = sink {
            op = op.sink(sink);
        }
        if let Some(slopes) = slopes {
            op = op.alibi(slopes);
        }
        if let Some(bits) = mask {
            op = op.block_mask(BlockMask { bits });
        }
        if let Some(lse) = lse.transpose()? {
            op = op.lse(lse, LseForm::Natural);
        }
        builder.sdpa_fwd((self.op)(op))?;
        builder.finish()
    }
}

/// `refused!(declaration, pattern)`: the declaration is refused with an error of that pattern.
macro_rules! refused {
    ($declaration:expr, $pattern:pat $(if $guard:expr)?) => {
        match $declaration.declare() {
            Err($pattern) $(if $guard)? => {}
            other => panic!("expected {}, got {other:?}", stringify!($pattern)),
        }
    };
}

fn with(change: impl FnOnce(&mut Declaration)) -> Declaration {
    changed(Declaration::dense(), change)
}

fn changed(mut declaration: Declaration, change: impl FnOnce(&mut Declaration)) -> Declaration {
    change(&mut declaration);
    declaration
}

#[test]
fn the_unchanged_declarations_are_fine() {
    Declaration::dense().declare().unwrap();
    Declaration::packed(Sequences::Lengths).declare().unwrap();
    Declaration::packed(Sequences::Prefix).declare().unwrap();
    Declaration::paged().declare().unwrap();
}

#[test]
fn extents_and_strides() {
    use GeometryError as G;
    use InvalidGraph as E;
    refused!(with(|d| d.q = vec![2, 4, -8, 16]), E::Geometry { tensor, source: G::NegativeExtent { axis: 2, value: -8 } } if tensor == "q");
    refused!(with(|d| d.q = vec![]), E::Geometry { source: G::Rank { rank: 0 }, .. });
    refused!(with(|d| d.k = vec![1; 5]), E::Geometry { source: G::Rank { rank: 5 }, .. });
    refused!(with(|d| d.k = vec![2, 2, 1 << 40, 16]), E::Geometry { source: G::HugeExtent { axis: 2, value }, .. } if value == 1 << 40);
    refused!(
        with(|d| d.o_strides = Some(vec![i64::MAX / 2, i64::MAX / 2, 16, 1])),
        E::Geometry { source: G::Overflow { .. }, .. }
    );
    refused!(
        with(|d| d.o_strides = Some(vec![512, 128, -16, 1])),
        E::Geometry { source: G::NegativeStride { axis: 2, value: -16 }, .. }
    );
    refused!(
        with(|d| d.o_strides = Some(vec![512, 128, 16])),
        E::Geometry { source: G::StrideCount { extents: 4, strides: 3 }, .. }
    );
    refused!(with(|d| d.align = 12), E::Align { align: 12, least: 2, .. });
    refused!(with(|d| d.align = 1), E::Align { align: 1, least: 2, .. });
}

#[test]
fn ranks_heads_and_head_dims() {
    use InvalidGraph as E;
    refused!(with(|d| d.q = vec![2, 4, 8]), E::Rank { tensor, found: 3, .. } if tensor == "q");
    refused!(with(|d| d.o = vec![16, 4, 16]), E::Rank { tensor, found: 3, .. } if tensor == "o");
    refused!(
        with(|d| (d.q, d.o) = (vec![2, 0, 8, 16], vec![2, 0, 8, 16])),
        E::Zero { axis: "heads", .. }
    );
    refused!(with(|d| (d.k, d.v) = (vec![2, 0, 8, 16], vec![2, 0, 8, 16])), E::Zero { tensor, axis: "heads", .. } if tensor == "k");
    refused!(
        with(|d| (d.q, d.k) = (vec![2, 4, 8, 0], vec![2, 2, 8, 0])),
        E::Zero { axis: "head_dim", .. }
    );
    refused!(with(|d| (d.v, d.o) = (vec![2, 2, 8, 0], vec![2, 4, 8, 0])), E::Zero { tensor, axis: "head_dim", .. } if tensor == "v");
    refused!(
        with(|d| (d.k, d.v) = (vec![2, 3, 8, 16], vec![2, 3, 8, 16])),
        E::HeadGroups { num_q_heads: 4, num_kv_heads: 3, .. }
    );
    refused!(
        with(|d| d.v = vec![2, 4, 8, 16]),
        E::Extent { axis: "heads", found: 4, expected: 2, .. }
    );
    refused!(
        with(|d| d.k = vec![2, 2, 8, 24]),
        E::Extent { axis: "head_dim", found: 24, expected: 16, .. }
    );
    refused!(with(|d| d.o = vec![2, 4, 8, 24]), E::Extent { tensor, found: 24, .. } if tensor == "o");
    refused!(
        with(|d| (d.k, d.v) = (vec![3, 2, 8, 16], vec![3, 2, 8, 16])),
        E::Extent { axis: "batch", found: 3, expected: 2, .. }
    );
    refused!(
        with(|d| d.v = vec![2, 2, 9, 16]),
        E::Extent { axis: "rows", found: 9, expected: 8, .. }
    );
}

#[test]
fn lengths_prefixes_and_tables() {
    use InvalidGraph as E;
    let lengths = || Declaration::packed(Sequences::Lengths);
    let prefix = || Declaration::packed(Sequences::Prefix);
    // PP-23: a prefix has one entry more than there are sequences, so two entries are one sequence.
    refused!(
        changed(prefix(), |d| d.q_lengths = Some((DType::I32, vec![2]))),
        E::Extent { axis: "batch", found: 2, expected: 1, .. }
    );
    refused!(
        changed(prefix(), |d| d.q_lengths = Some((DType::I32, vec![0]))),
        E::TooSmall { found: 0, least: 1, .. }
    );
    refused!(changed(lengths(), |d| d.q_lengths = Some((DType::I64, vec![2]))), E::DType { tensor, found: DType::I64, expected: "i32", .. } if tensor == "lengths");
    refused!(
        changed(lengths(), |d| d.q_lengths = Some((DType::I32, vec![2, 1]))),
        E::Rank { found: 2, .. }
    );
    refused!(
        changed(lengths(), |d| d.q_lengths = None),
        E::UnknownTensor { role: "q_lengths", .. }
    );
    refused!(changed(lengths(), |d| d.q = vec![19, 4, 16]), E::TooSmall { tensor, axis: "rows", found: 19, least: 20, .. } if tensor == "q");
    refused!(changed(Declaration::paged(), |d| d.table = Some((DType::I64, vec![2, 2]))), E::DType { tensor, .. } if tensor == "table");
    refused!(changed(Declaration::paged(), |d| d.table = Some((DType::I32, vec![3, 2]))), E::Extent { tensor, found: 3, expected: 2, .. } if tensor == "table");
    refused!(
        changed(Declaration::paged(), |d| d.table = Some((DType::I32, vec![2, 1]))),
        E::Bound { value: 16, limit: 8, .. }
    );
    refused!(
        changed(Declaration::paged(), |d| (d.k, d.v) = (vec![5, 2, 0, 16], vec![5, 2, 0, 16])),
        E::Zero { axis: "page_size", .. }
    );
    refused!(
        changed(Declaration::paged(), |d| d.v = vec![5, 2, 4, 16]),
        E::Extent { axis: "page_size", found: 4, expected: 8, .. }
    );
    let paged_q = |lengths, table| {
        let bounds = LengthBounds::up_to(8);
        (Storage::Paged { table_k: table, table_v: table, lengths, bounds }, Storage::Dense)
    };
    refused!(
        changed(Declaration::paged(), |d| d.storage = paged_q),
        E::Storage { side: "q", storage: "paged", .. }
    );
    let long =
        |lengths, _| (Storage::Padded { lengths, bounds: LengthBounds::up_to(9) }, Storage::Dense);
    refused!(
        changed(with(|d| d.q_lengths = Some((DType::I32, vec![2]))), |d| d.storage = long),
        E::Bound { value: 9, limit: 8, .. }
    );
    let crossed = |lengths, _| {
        (Storage::Padded { lengths, bounds: LengthBounds { min: 5, max: 4 } }, Storage::Dense)
    };
    refused!(
        changed(with(|d| d.q_lengths = Some((DType::I32, vec![2]))), |d| d.storage = crossed),
        E::Bound { what: "least length", value: 5, limit: 4, .. }
    );
    let huge = |id, _| {
        let (sequences, bounds) = (Sequences::Lengths(id), LengthBounds::up_to(12));
        (Storage::Packed { sequences, bounds, max_total: u32::MAX }, Storage::Dense)
    };
    refused!(
        changed(lengths(), |d| d.storage = huge),
        E::Bound { what: "max_total", limit: 0x7fff_ffff, .. }
    );
}

/// PP-29: lengths on one side never make the other side packed.
#[test]
fn one_packed_side_alone() {
    use InvalidGraph as E;
    let packed_kv = |id, _| {
        let (sequences, bounds) = (Sequences::Lengths(id), LengthBounds::up_to(12));
        (Storage::Dense, Storage::Packed { sequences, bounds, max_total: 20 })
    };
    let declaration = |q: Extents, batch| {
        with(|d| {
            (d.k, d.v) = (vec![20, 2, 16], vec![20, 2, 16]);
            (d.q, d.o) = (q.clone(), q);
            d.q_lengths = Some((DType::I32, vec![batch]));
            d.storage = packed_kv;
        })
    };
    declaration(vec![2, 4, 8, 16], 2).declare().unwrap();
    refused!(declaration(vec![20, 4, 16], 2), E::Rank { tensor, found: 3, .. } if tensor == "q");
    refused!(
        declaration(vec![2, 4, 8, 16], 3),
        E::Extent { axis: "batch", found: 3, expected: 2, .. }
    );
}

#[test]
fn modifiers_and_numbers() {
    use InvalidGraph as E;
    refused!(with(|d| d.bias = Some((DType::Bf16, vec![2, 4, 8, 8]))), E::DType { tensor, .. } if tensor == "bias");
    refused!(
        with(|d| d.bias = Some((DType::F32, vec![3, 4, 8, 8]))),
        E::Extent { axis: "batch", found: 3, .. }
    );
    refused!(
        with(|d| d.bias = Some((DType::F32, vec![1, 1, 8, 7]))),
        E::Extent { axis: "rows of k", found: 7, expected: 8, .. }
    );
    refused!(with(|d| d.bias = Some((DType::F32, vec![8, 8]))), E::Rank { found: 2, .. });
    refused!(
        changed(Declaration::packed(Sequences::Lengths), |d| d.bias =
            Some((DType::F32, vec![1, 1, 11, 8]))),
        E::TooSmall { axis: "rows of q", found: 11, least: 12, .. }
    );
    refused!(with(|d| d.sink = Some((DType::F16, vec![4]))), E::DType { tensor, .. } if tensor == "sink");
    refused!(
        with(|d| d.sink = Some((DType::F32, vec![2]))),
        E::Extent { found: 2, expected: 4, .. }
    );
    refused!(
        with(|d| d.slopes = Some((DType::F32, vec![2]))),
        E::Extent { found: 2, expected: 4, .. }
    );
    refused!(
        with(|d| d.slopes = Some((DType::F32, vec![3, 4]))),
        E::Extent { axis: "batch", found: 3, .. }
    );
    refused!(with(|d| d.slopes = Some((DType::F32, vec![1, 2, 4]))), E::Rank { found: 3, .. });
    refused!(
        with(|d| d.mask = Some(vec![2, 4, 1, 2])),
        E::Extent { axis: "bytes of tiles of k", found: 2, expected: 1, .. }
    );
    refused!(
        with(|d| d.op = |op| op.softmax_scale(f32::NAN)),
        E::Value { what: "softmax_scale", .. }
    );
    refused!(
        with(|d| d.op = |op| op.softmax_scale(f32::INFINITY)),
        E::Value { what: "softmax_scale", .. }
    );
    refused!(with(|d| d.op = |op| op.soft_cap(0.0)), E::Value { what: "soft_cap", .. });
    refused!(with(|d| d.op = |op| op.soft_cap(-1.0)), E::Value { what: "soft_cap", .. });
    refused!(
        with(|d| d.bias = Some((DType::I32, vec![1, 1, 8, 8]))),
        E::DType { found: DType::I32, .. }
    );
    // The builder of this test has no tensors for a seed; q's id shows what is wrong with it.
    let seeded = |op: SdpaFwd| {
        op.dropout(Dropout { probability: 0.1, seed: TensorId(0), offset: TensorId(0) })
    };
    refused!(with(|d| d.op = seeded), E::DType { found: DType::F16, expected: "i64", .. });
    let dropout = |op: SdpaFwd| {
        op.dropout(Dropout { probability: 0.1, seed: TensorId(99), offset: TensorId(98) })
    };
    refused!(
        with(|d| d.op = dropout),
        E::UnknownTensor { role: "dropout_seed", id: TensorId(99), .. }
    );
}

#[test]
fn outputs() {
    use InvalidGraph as E;
    refused!(with(|d| d.o_strides = Some(vec![512, 0, 16, 1])), E::OutputOverlapsItself { tensor, .. } if tensor == "o");
    refused!(with(|d| d.o_strides = Some(vec![512, 128, 8, 1])), E::OutputOverlapsItself { .. });
    refused!(with(|d| d.lse = Some((DType::F16, vec![2, 4, 8], None))), E::DType { tensor, .. } if tensor == "lse");
    refused!(
        with(|d| d.lse = Some((DType::F32, vec![2, 4, 9], None))),
        E::Extent { axis: "rows", found: 9, expected: 8, .. }
    );
    refused!(with(|d| d.lse = Some((DType::F32, vec![8, 4], None))), E::Rank { found: 2, .. });
    let packed = |lse| changed(Declaration::packed(Sequences::Lengths), |d| d.lse = Some(lse));
    refused!(
        packed((DType::F32, vec![19, 4], None)),
        E::TooSmall { axis: "rows", found: 19, least: 20, .. }
    );
    // PP-10: a head pitch that holds the total but not the capacity of q.
    let head_major =
        changed(packed((DType::F32, vec![20, 4], Some(vec![1, 20]))), |d| d.q = vec![24, 4, 16]);
    refused!(head_major, E::TooSmall { axis: "head pitch", found: 20, least: 24, .. });
    refused!(
        packed((DType::F32, vec![2, 4, 11], None)),
        E::TooSmall { axis: "rows", found: 11, least: 12, .. }
    );
    refused!(with(|d| d.op = |op| op.max(TensorId(3))), E::OutputShared { .. } | E::DType { .. });
}

#[test]
fn graphs_as_a_whole() {
    assert!(matches!(GraphBuilder::new().finish(), Err(InvalidGraph::NoOperation)));

    let mut builder = GraphBuilder::new();
    let spec = |name: &str| TensorSpec::contiguous(name, DType::F32, [1, 1, 1, 8]);
    let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| builder.tensor(spec(name)).unwrap());
    let twice = builder.tensor(spec("again").id(q));
    assert!(
        matches!(twice, Err(InvalidGraph::DuplicateId { id, holder, .. }) if id == q && holder == "q")
    );
    let own_output = builder.sdpa_fwd(SdpaFwd::new(q, k, v, q));
    assert!(matches!(own_output, Err(InvalidGraph::OutputShared { role: "o", other: "q", .. })));
    let unknown = builder.sdpa_fwd(SdpaFwd::new(q, k, TensorId(77), o));
    assert!(matches!(
        unknown,
        Err(InvalidGraph::UnknownTensor { role: "v", id: TensorId(77), .. })
    ));

    let mut two = builder.clone();
    let o2 = two.tensor(spec("o2")).unwrap();
    two.sdpa_fwd(SdpaFwd::new(q, k, v, o)).unwrap();
    two.sdpa_fwd(SdpaFwd::new(q, k, v, o2)).unwrap();
    let two = frazil::Facts::read(&two.finish().unwrap());
    assert!(matches!(two, Err(InvalidGraph::TooManyOperations { count: 2 })));

    let mut certain = builder.clone();
    let seed = certain.tensor(TensorSpec::contiguous("seed", DType::I64, [1])).unwrap();
    for probability in [1.0, -0.1, f32::NAN] {
        let dropout = Dropout { probability, seed, offset: seed };
        let refused = certain.sdpa_fwd(SdpaFwd::new(q, k, v, o).dropout(dropout));
        assert!(matches!(refused, Err(InvalidGraph::Value { what: "dropout probability", .. })));
    }

    let mut unused = builder.clone();
    unused.tensor(spec("stray")).unwrap();
    unused.sdpa_fwd(SdpaFwd::new(q, k, v, o)).unwrap();
    assert!(
        matches!(unused.finish(), Err(InvalidGraph::UnusedTensor { tensor }) if tensor == "stray")
    );

    for at in 4.. {
        match builder.tensor(spec("one too many")) {
            Ok(_) => assert!(at < frazil::MAX_BINDINGS),
            Err(InvalidGraph::TooManyTensors { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
}

/// PP-38: an alignment with no bound hides nothing and is no feature; PP-40: a window wider than
/// the context is a band like any other.
#[test]
fn a_band_without_bounds_is_no_feature() {
    let features = |op: fn(SdpaFwd) -> SdpaFwd| {
        let graph = with(|d| d.op = op).declare().unwrap();
        frazil::Facts::read(&graph).unwrap().features()
    };
    let unbounded =
        features(|op| op.band(Band { align: Align::BottomRight, left: None, right: None }));
    assert_eq!(unbounded, frazil::FeatureSet::EMPTY);
    let wide =
        features(|op| op.band(Band { align: Align::TopLeft, left: Some(4096), right: None }));
    assert_eq!(wide, frazil::FeatureSet::of(&[frazil::Feature::Band]));
}
