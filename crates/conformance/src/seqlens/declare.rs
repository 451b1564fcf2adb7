//! A problem as a graph, and as the tensors of one call.

use frazil_core::{
    DType, Geometry, Graph, GraphBuilder, InvalidGraph, LseForm, Role, SdpaFwd, Sequences, Storage,
    TensorId, TensorSpec,
};

use super::{Content, PAGE_SIZE, Problem, SideProblem};

/// Columns of Q, K, V and O.
pub const HEAD_DIM: u64 = 8;

/// A tensor of a problem.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) id: TensorId,
    pub(super) role: Role,
    pub(super) dtype: DType,
    declared: [Vec<i64>; 2],
    bound: [Vec<i64>; 2],
    /// int32 values, one for each element along the first axis; empty for floats.
    pub(super) values: Vec<i32>,
}

impl Tensor {
    pub(super) fn bound(&self) -> Result<Geometry, frazil_core::GeometryError> {
        Geometry::strided(&self.bound[0], &self.bound[1])
    }

    pub(super) fn is_overridden(&self) -> bool {
        self.bound != self.declared
    }
}

/// Extents at execute, with what is declared beyond, and strides.
type Axes<'a> = &'a [(u64, u64, u64)];

#[derive(Default)]
struct Tensors(Vec<Tensor>);

impl Tensors {
    fn add(&mut self, role: Role, dtype: DType, axes: Axes<'_>, values: &[i32]) -> TensorId {
        let id = TensorId(signed(self.0.len() as u64));
        let of = |each: fn(&(u64, u64, u64)) -> u64| axes.iter().map(|a| signed(each(a))).collect();
        let strides: Vec<i64> = of(|&(.., stride)| stride);
        let declared = [of(|&(extent, spare, _)| extent + spare), strides.clone()];
        let bound = [of(|&(extent, ..)| extent), strides];
        self.0.push(Tensor { id, role, dtype, declared, bound, values: values.to_vec() });
        id
    }

    fn ints(&mut self, role: Role, spare: u64, stride: u64, values: &[i32]) -> TensorId {
        self.add(role, DType::I32, &[(values.len() as u64, spare, stride)], values)
    }

    /// Q, K, V or O; `pitch` elements from row to row.
    fn rows(&mut self, role: Role, problem: &Problem, pitch: u64) -> TensorId {
        let is_kv = matches!(role, Role::K | Role::V);
        let (side, second) = if is_kv { (&problem.kv, Role::V) } else { (&problem.q, Role::O) };
        let (head, column) = ((problem.num_heads, 0, HEAD_DIM), (HEAD_DIM, 0, 1));
        if side.content.is_packed() {
            let rows = (side.rows[usize::from(role == second)], side.spare_rows, pitch);
            return self.add(role, DType::F16, &[rows, head, column], &[]);
        }
        let (outer, rows) = match side.content {
            Content::Paged(_) => ((1, 0), (PAGE_SIZE, 0)),
            _ => ((problem.batch, problem.spare_batch), (side.rows[0], side.spare_rows)),
        };
        let outer = (outer.0, outer.1, pitch * (rows.0 + rows.1));
        self.add(role, DType::F16, &[outer, head, (rows.0, rows.1, pitch), column], &[])
    }
}

/// Elements from row to row of Q, K and V, for each head; those of O and LSE are their own.
const PITCHES: [(Role, u64); 3] =
    [(Role::Q, HEAD_DIM), (Role::K, 3 * HEAD_DIM), (Role::V, 5 * HEAD_DIM)];

impl Problem {
    fn is_overridden(&self) -> bool {
        self.spare_batch + self.q.spare_rows + self.kv.spare_rows > 0
    }

    /// The graph.
    ///
    /// # Errors
    ///
    /// Where the host numbers contradict one another.
    pub fn graph(&self) -> Result<Graph, InvalidGraph> {
        let (tensors, op) = self.tensors();
        let mut graph = GraphBuilder::new();
        for tensor in tensors {
            let [extents, strides] = &tensor.declared;
            let spec = TensorSpec::strided(tensor.role.name(), tensor.dtype, extents, strides);
            graph.tensor(spec.id(tensor.id))?;
        }
        graph.sdpa_fwd(op)?;
        if self.is_overridden() {
            graph.overridable();
        }
        graph.finish()
    }

    /// Tensors in the order of their ids, and the operation on them.
    pub(super) fn tensors(&self) -> (Vec<Tensor>, SdpaFwd) {
        let mut tensors = Tensors::default();
        let [q, k, v] = PITCHES.map(|(role, pitch)| {
            let side = if role == Role::Q { &self.q } else { &self.kv };
            tensors.rows(role, self, if side.repeated { 0 } else { pitch * self.num_heads })
        });
        let o = tensors.rows(Role::O, self, HEAD_DIM * self.num_heads + 4);
        let batch = (self.batch, self.spare_batch);
        let q_rows = (self.q.rows[0], self.q.spare_rows);
        let lse = if self.q.content.is_packed() {
            let rows = (self.q.rows[2], self.q.spare_rows, self.num_heads + 2);
            tensors.add(Role::Lse, DType::F32, &[rows, (self.num_heads, 0, 1)], &[])
        } else {
            let pitch = q_rows.0 + q_rows.1;
            let heads = (self.num_heads, 0, pitch);
            let axes = [(batch.0, batch.1, pitch * self.num_heads), heads, (q_rows.0, q_rows.1, 1)];
            tensors.add(Role::Lse, DType::F32, &axes, &[])
        };
        let q_roles = [Role::QLengths, Role::QPrefix, Role::QStarts];
        let kv_roles = [Role::KvLengths, Role::KvPrefix, Role::KvStarts];
        let q_storage = self.storage(&self.q, q_roles, &mut tensors);
        let kv_storage = self.storage(&self.kv, kv_roles, &mut tensors);
        let op = SdpaFwd::new(q, k, v, o).storage(q_storage, kv_storage).lse(lse, LseForm::Natural);
        let op = match self.band {
            Some(band) => op.band(band),
            None => op,
        };
        (tensors.0, op)
    }

    fn storage(&self, side: &SideProblem, roles: [Role; 3], tensors: &mut Tensors) -> Storage {
        let [lengths_role, prefix_role, starts_role] = roles;
        let SideProblem { bounds, max_total, .. } = *side;
        let mut ints =
            |role, values: &[i32]| tensors.ints(role, self.spare_batch, side.int_stride, values);
        let sequences = match &side.content {
            Content::Dense => return Storage::Dense,
            Content::Padded(lengths) => {
                return Storage::Padded { lengths: ints(lengths_role, lengths), bounds };
            }
            Content::Paged(lengths) => {
                let lengths_len = lengths.len();
                let lengths = ints(lengths_role, lengths);
                // One page holds the rows of all.
                let axes = [(self.batch, self.spare_batch, 1), (side.rows[0], side.spare_rows, 0)];
                let zeros = vec![0; lengths_len];
                let table_k = tensors.add(Role::TableK, DType::I32, &axes, &zeros);
                return Storage::Paged { table_k, table_v: table_k, lengths, bounds };
            }
            Content::PackedLengths(lengths) => Sequences::Lengths(ints(lengths_role, lengths)),
            Content::PackedPrefix(prefix) => Sequences::Prefix(ints(prefix_role, prefix)),
            Content::PackedStarts { starts, lengths } => {
                let lengths = ints(lengths_role, lengths);
                Sequences::Starts { starts: ints(starts_role, starts), lengths }
            }
        };
        Storage::Packed { sequences, bounds, max_total }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
