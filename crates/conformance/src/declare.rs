//! From a case to the graph that it asks about.

use std::sync::Arc;

use frazil_core::{
    BlockMask, DType, Dropout, Facts, Geometry, Graph, GraphBuilder, InvalidGraph, Role, SdpaFwd,
    Sequences, Storage, TensorId, TensorSpec,
};

use crate::case::{AlibiCase, Case, PoolOrder, RowLayout, SideCase, TableOrder};
use crate::sizes::{SideSizes, Sizes};

/// Why a case cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// The graph means nothing: an answer, for cases that ask for it.
    #[error(transparent)]
    Graph(#[from] InvalidGraph),
    /// The case contradicts itself: names case, field and value.
    #[error("{0}")]
    Case(String),
}

/// A case as a graph, with what is needed to bind it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Declared {
    /// The graph.
    pub graph: Graph,
    /// Its facts.
    pub facts: Arc<Facts>,
    /// Every tensor, once.
    pub tensors: Vec<DeclaredTensor>,
}

/// A tensor of a case: what to bind and where it lies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeclaredTensor {
    /// Its key in bindings.
    pub id: TensorId,
    /// What it is for; a table of both K and V counts as K's.
    pub role: Role,
    /// Type of its elements.
    pub dtype: DType,
    /// Extents and strides to run with.
    pub geometry: Geometry,
    /// Whether `geometry` overrides the declaration and must be bound with it.
    pub overridden: bool,
    /// Name of the buffer it lies in; roles with a buffer of their own give it their name.
    pub buffer: String,
    /// From the start of the buffer, in bytes.
    pub offset_bytes: u64,
}

/// Declares the graph of a case.
///
/// # Errors
///
/// [`CaseError::Graph`] when core refuses the graph; [`CaseError::Case`] when the case contradicts
/// itself.
pub fn declare(case: &Case) -> Result<Declared, CaseError> {
    check_counts(case)?;
    let (run, declared) = (Sizes::of_run(case), Sizes::of_declaration(case));
    let mut declaring =
        Declaring { case, run, declared, builder: GraphBuilder::new(), tensors: Vec::new() };
    let op = declaring.op()?;
    let Declaring { mut builder, tensors, .. } = declaring;
    for role in case.place.0.keys() {
        if !tensors.iter().any(|tensor| tensor.role.name() == role) {
            return Err(CaseError::Case(format!(
                "{}: place of `{role}`, no such tensor",
                case.name
            )));
        }
    }
    builder.sdpa_fwd(op)?;
    if case.declared.is_some() {
        builder.overridable();
    }
    let graph = builder.finish()?;
    let facts = Arc::new(Facts::read(&graph)?);
    Ok(Declared { graph, facts, tensors })
}

/// Every list of the case has an entry for each sequence.
fn check_counts(case: &Case) -> Result<(), CaseError> {
    for (name, side) in [("q", &case.q), ("kv", &case.kv)] {
        let mut lists: Vec<(&str, usize, u64)> = Vec::new();
        match side {
            SideCase::Dense => {}
            SideCase::Padded { lengths, .. }
            | SideCase::PackedLengths { lengths, .. }
            | SideCase::Paged { lengths, .. } => lists.push(("lengths", lengths.len(), case.batch)),
            SideCase::PackedPrefix { lengths, prefix, .. } => {
                lists.push(("lengths", lengths.len(), case.batch));
                if let Some(prefix) = prefix {
                    lists.push(("prefix", prefix.len(), case.batch.saturating_add(1)));
                }
            }
            SideCase::PackedStarts { starts, lengths, .. } => {
                lists.push(("starts", starts.len(), case.batch));
                lists.push(("lengths", lengths.len(), case.batch));
            }
        }
        for (field, found, need) in lists {
            if found as u64 != need {
                return Err(CaseError::Case(format!(
                    "{}: {name}.{field} has {found} entries, batch {} needs {need}",
                    case.name, case.batch
                )));
            }
        }
    }
    Ok(())
}

struct Declaring<'a> {
    case: &'a Case,
    run: Sizes,
    declared: Sizes,
    builder: GraphBuilder,
    tensors: Vec<DeclaredTensor>,
}

/// Extents, and strides where they are not row-major, in elements.
type Form = (Vec<u64>, Option<Vec<u64>>);

/// As the builder takes them; what an i64 cannot hold becomes its greatest value, which core
/// refuses by name.
fn signed(numbers: &[u64]) -> Vec<i64> {
    numbers.iter().map(|&number| i64::try_from(number).unwrap_or(i64::MAX)).collect()
}

fn geometry_of(tensor: &str, (extents, strides): &Form) -> Result<Geometry, InvalidGraph> {
    let geometry = match strides {
        Some(strides) => Geometry::strided(&signed(extents), &signed(strides)),
        None => Geometry::contiguous(&signed(extents)),
    };
    geometry.map_err(|source| InvalidGraph::Geometry { tensor: tensor.into(), source })
}

impl Declaring<'_> {
    fn op(&mut self) -> Result<SdpaFwd, CaseError> {
        let case = self.case;
        let q = self.tensor(Role::Q, case.dtype)?;
        let k = self.tensor(Role::K, case.dtype)?;
        let v = self.tensor(Role::V, case.dtype)?;
        let o = self.tensor(Role::O, case.o_dtype())?;
        let q_roles = (Role::QLengths, Role::QPrefix, Role::QStarts);
        let kv_roles = (Role::KvLengths, Role::KvPrefix, Role::KvStarts);
        let q_storage = self.storage(&case.q, self.declared.q, q_roles)?;
        let kv_storage = self.storage(&case.kv, self.declared.kv, kv_roles)?;
        let mut op = SdpaFwd::new(q, k, v, o).storage(q_storage, kv_storage);
        if let Some(scale) = case.softmax_scale {
            op = op.softmax_scale(scale);
        }
        if let Some(band) = case.band {
            op = op.band(band);
        }
        if let Some(cap) = case.soft_cap {
            op = op.soft_cap(cap);
        }
        if let Some(bias) = case.bias {
            op = op.bias(self.tensor(Role::Bias, bias.dtype)?);
        }
        if case.alibi.is_some() {
            op = op.alibi(self.tensor(Role::AlibiSlopes, DType::F32)?);
        }
        if case.sink.is_some() {
            op = op.sink(self.tensor(Role::Sink, DType::F32)?);
        }
        if case.block_mask {
            op = op.block_mask(BlockMask { bits: self.tensor(Role::BlockMask, DType::U8)? });
        }
        if let Some(probability) = case.dropout {
            let seed = self.tensor(Role::DropoutSeed, DType::I64)?;
            let offset = self.tensor(Role::DropoutOffset, DType::I64)?;
            op = op.dropout(Dropout { probability, seed, offset });
        }
        if let Some(form) = case.lse {
            op = op.lse(self.tensor(Role::Lse, DType::F32)?, form);
        }
        if case.max {
            op = op.max(self.tensor(Role::Max, DType::F32)?);
        }
        if case.sum_exp {
            op = op.sum_exp(self.tensor(Role::SumExp, DType::F32)?);
        }
        Ok(op)
    }

    fn storage(
        &mut self,
        side: &SideCase,
        sizes: SideSizes,
        (lengths, prefix, starts): (Role, Role, Role),
    ) -> Result<Storage, CaseError> {
        let bounds = side.bounds(sizes.seqlen, self.case)?;
        let sequences = match side {
            SideCase::Dense => return Ok(Storage::Dense),
            SideCase::Padded { .. } => {
                return Ok(Storage::Padded { lengths: self.tensor(lengths, DType::I32)?, bounds });
            }
            SideCase::Paged { one_table, .. } => {
                let lengths = self.tensor(lengths, DType::I32)?;
                let table_k = self.tensor(Role::TableK, DType::I32)?;
                let table_v = match one_table {
                    true => table_k,
                    false => self.tensor(Role::TableV, DType::I32)?,
                };
                return Ok(Storage::Paged { table_k, table_v, lengths, bounds });
            }
            SideCase::PackedLengths { .. } => Sequences::Lengths(self.tensor(lengths, DType::I32)?),
            SideCase::PackedPrefix { .. } => Sequences::Prefix(self.tensor(prefix, DType::I32)?),
            SideCase::PackedStarts { .. } => Sequences::Starts {
                starts: self.tensor(starts, DType::I32)?,
                lengths: self.tensor(lengths, DType::I32)?,
            },
        };
        let max_total = side.max_total();
        let max_total = max_total.unwrap_or_else(|| u32::try_from(sizes.rows).unwrap_or(u32::MAX));
        Ok(Storage::Packed { sequences, bounds, max_total })
    }

    fn tensor(&mut self, role: Role, dtype: DType) -> Result<TensorId, CaseError> {
        let (case, name) = (self.case, role.name());
        let place = case.place.get(name).cloned().unwrap_or_default();
        let mut run = self.form(role, &self.run);
        let mut declared = self.form(role, &self.declared);
        if let Some(strides) = &place.strides {
            let unsigned = strides.iter().map(|&stride| u64::try_from(stride));
            // Core says what is wrong with a negative stride.
            let Ok(unsigned) = unsigned.collect() else {
                let spec = TensorSpec::strided(name, dtype, signed(&run.0), strides);
                return Ok(self.builder.tensor(spec)?);
            };
            run.1 = Some(unsigned);
            if case.declared.is_none() {
                declared = run.clone();
            }
        }
        let offset_bytes = place.offset.checked_mul(dtype.bytes()).ok_or_else(|| {
            let elements = place.offset;
            let text = format!("{}: place.{name}.offset {elements} is above 2^64 bytes", case.name);
            CaseError::Case(text)
        })?;
        let kept = 1_u32 << (offset_bytes | 16).trailing_zeros();
        let (extents, strides) = (signed(&declared.0), declared.1.as_deref().map(signed));
        let spec = match strides {
            Some(strides) => TensorSpec::strided(name, dtype, extents, strides),
            None => TensorSpec::contiguous(name, dtype, extents),
        };
        let id = self.builder.tensor(spec.align(place.align.unwrap_or(kept)))?;
        self.tensors.push(DeclaredTensor {
            id,
            role,
            dtype,
            geometry: geometry_of(name, &run)?,
            overridden: case.declared.is_some(),
            buffer: place.buffer.unwrap_or_else(|| name.into()),
            offset_bytes,
        });
        Ok(id)
    }

    /// Extents and plain strides of a tensor.
    fn form(&self, role: Role, sizes: &Sizes) -> Form {
        let case = self.case;
        let Sizes { batch, q, kv } = *sizes;
        let (heads, columns_v) = (case.num_q_heads, case.head_dim_v());
        let extents = match role {
            Role::Q => return rows_form(&case.q, (batch, q), heads, case.head_dim_qk),
            Role::O => return rows_form(&case.q, (batch, q), heads, columns_v),
            Role::K => {
                return rows_form(&case.kv, (batch, kv), case.num_kv_heads, case.head_dim_qk);
            }
            Role::V => return rows_form(&case.kv, (batch, kv), case.num_v_heads(), columns_v),
            Role::QPrefix | Role::KvPrefix => vec![batch.saturating_add(1)],
            Role::TableK | Role::TableV => return self.table_form(sizes),
            Role::Bias => {
                let bias = case.bias;
                let (per_batch, per_head) =
                    bias.map_or((false, false), |bias| (bias.per_batch, bias.per_head));
                let or_one = |each, count| if each { count } else { 1 };
                vec![or_one(per_batch, batch), or_one(per_head, heads), q.max_len, kv.max_len]
            }
            Role::AlibiSlopes => match case.alibi {
                Some(AlibiCase::PerBatchAndHead) => vec![batch, heads],
                _ => vec![heads],
            },
            Role::Sink => vec![heads],
            Role::BlockMask => {
                let tiles = |rows: u64| rows.div_ceil(128);
                vec![batch, heads, tiles(q.max_len), tiles(kv.max_len).div_ceil(8)]
            }
            Role::DropoutSeed | Role::DropoutOffset => vec![1],
            Role::Lse | Role::Max | Role::SumExp => match case.row_outputs {
                RowLayout::HeadMajor { pitch } => {
                    // A declaration larger than the run needs room between its heads as well.
                    let pitch = pitch.max(if case.declared.is_some() { q.rows } else { 0 });
                    return (vec![q.rows, heads], Some(vec![1, pitch]));
                }
                RowLayout::Natural if case.q.is_packed() => vec![q.rows, heads],
                RowLayout::Natural | RowLayout::Padded => vec![batch, heads, q.max_len],
            },
            // Lengths and starts.
            _ => vec![batch],
        };
        (extents, None)
    }

    fn table_form(&self, sizes: &Sizes) -> Form {
        let pages = match (&self.case.q, &self.case.kv) {
            (_, SideCase::Paged { .. }) => sizes.kv.pages,
            _ => sizes.q.pages,
        };
        let strides = match &self.case.kv {
            SideCase::Paged { table: TableOrder::ColumnMajor, .. } => Some(vec![1, sizes.batch]),
            _ => None,
        };
        (vec![sizes.batch, pages], strides)
    }
}

/// Q, K, V or O.
fn rows_form(side: &SideCase, (batch, sizes): (u64, SideSizes), heads: u64, columns: u64) -> Form {
    match side {
        SideCase::Dense | SideCase::Padded { .. } => {
            (vec![batch, heads, sizes.rows, columns], None)
        }
        SideCase::Paged { page_size, pool, .. } => {
            let strides = match pool {
                PoolOrder::Hnd => None,
                PoolOrder::Nhd => {
                    let row = heads.saturating_mul(columns);
                    Some(vec![page_size.saturating_mul(row), columns, row, 1])
                }
            };
            (vec![sizes.rows, heads, *page_size, columns], strides)
        }
        _ => (vec![sizes.rows, heads, columns], None),
    }
}
