//! A case in memory: every tensor's bytes, where the case puts them.

use frazil_core::{DType, Geometry, Role};
use rayon::prelude::*;

use crate::case::Case;
use crate::data;
use crate::declare::{CaseError, Declared, DeclaredTensor};
use crate::image::{GUARD_BYTES, Image, Run};
use crate::ints::SideInts;
use crate::limits;
use crate::live::Live;
use crate::sizes::Sizes;

/// A case in memory, before it is run.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) images: Vec<Image>,
    pub(crate) tensors: Vec<Placed>,
    pub(crate) live: Live,
    /// Whether an element of Q, K or V may stand for two, so that they hold what was written last.
    pub(crate) shared_inputs: bool,
}

/// A tensor and its image.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) tensor: DeclaredTensor,
    /// Index of the image.
    pub(crate) image: usize,
}

impl Placed {
    /// Elements of the tensor from one on, at a stride in elements.
    pub(crate) fn run(&self, element: u64, stride: u64) -> Run {
        let bytes = self.tensor.dtype.bytes();
        let size = |bytes: u64| usize::try_from(bytes).expect("inside an image");
        Run {
            dtype: self.tensor.dtype,
            at: GUARD_BYTES + size(self.tensor.offset_bytes + element * bytes),
            step: size(stride * bytes),
        }
    }

    /// Bytes that the tensor spans.
    pub(crate) fn span_bytes(&self) -> u64 {
        self.tensor.geometry.span() * self.tensor.dtype.bytes()
    }

    /// A row of Q, K, V or O.
    pub(crate) fn row(&self, live: &Live, b: u64, h: u64, i: u64) -> Run {
        let Self { tensor: DeclaredTensor { role, geometry, .. }, .. } = self;
        let (element, stride) = live.side(*role).row(*role, geometry, b, h, i);
        self.run(element, stride)
    }
}

/// Entries of a device tensor, where the role is one of those.
fn ints_of<'a>(role: Role, q: &'a SideInts, kv: &'a SideInts) -> Option<&'a [i32]> {
    Some(match role {
        Role::QLengths => &q.lengths,
        Role::QPrefix => &q.prefix,
        Role::QStarts => &q.starts,
        Role::KvLengths => &kv.lengths,
        Role::KvPrefix => &kv.prefix,
        Role::KvStarts => &kv.starts,
        Role::TableK => &kv.table_k,
        Role::TableV => &kv.table_v,
        _ => return None,
    })
}

/// Calls `visit` with the byte of every entry of a device tensor, and the entry.
fn for_each_int(placed: &Placed, ints: &[i32], visit: &mut dyn FnMut(usize, i32)) {
    let geometry = &placed.tensor.geometry;
    let last = geometry.rank() - 1;
    let columns = usize::try_from(geometry.extent(last)).unwrap_or(0);
    for (b, row) in (0..).zip(ints.chunks(columns.max(1))) {
        let first = if last > 0 { b * geometry.stride(0) } else { 0 };
        let run = placed.run(first, geometry.stride(last));
        for (column, value) in row.iter().enumerate() {
            visit(run.at + column * run.step, *value);
        }
    }
}

/// Calls `visit` with the element at column 0 of every row of a tensor.
fn for_each_row(geometry: &Geometry, visit: &mut dyn FnMut(u64)) {
    fn walk(geometry: &Geometry, axis: usize, at: u64, visit: &mut dyn FnMut(u64)) {
        if axis + 1 == geometry.rank() {
            return visit(at);
        }
        for index in 0..geometry.extent(axis) {
            walk(geometry, axis + 1, at + index * geometry.stride(axis), visit);
        }
    }
    if geometry.span() > 0 {
        walk(geometry, 0, 0, visit);
    }
}

impl Instance {
    /// # Errors
    ///
    /// [`CaseError::Case`] when the case contradicts itself, holds types without values or would take
    /// too much memory.
    pub(crate) fn new(case: &Case, declared: &Declared) -> Result<Self, CaseError> {
        for dtype in [case.dtype, case.o_dtype()] {
            if !matches!(dtype, DType::F16 | DType::Bf16 | DType::F32) {
                return Err(CaseError::Case(format!("{}: no values in {dtype}", case.name)));
            }
        }
        limits::check(case, declared)?;
        let sizes = Sizes::of_run(case);
        let q = SideInts::new(case, &case.q, sizes.q)?;
        let kv = SideInts::new(case, &case.kv, sizes.kv)?;
        let live = Live::new(case, &sizes, (&q, &kv))?;
        let (images, tensors) = lay_out(declared);
        let input = |placed: &&Placed| !placed.tensor.role.is_output();
        let shared_inputs = live.q.rows_overlap()
            || live.kv.rows_overlap()
            || tensors.iter().filter(input).any(|placed| {
                let DeclaredTensor { role, buffer, geometry, .. } = &placed.tensor;
                buffer != role.name() || geometry.may_overlap_itself()
            });
        let mut instance = Self { images, tensors, live, shared_inputs };
        instance.poison_outputs();
        for at in 0..instance.tensors.len() {
            instance.write(case, &instance.tensors[at].clone(), (&q, &kv));
        }
        instance
            .tensors
            .iter()
            .try_for_each(|placed| instance.check_ints(case, placed, (&q, &kv)))?;
        Ok(instance)
    }

    pub(crate) fn tensor(&self, role: Role) -> Option<&Placed> {
        self.tensors.iter().find(|placed| placed.tensor.role == role)
    }

    fn poison_outputs(&mut self) {
        for placed in &self.tensors {
            if !placed.tensor.role.is_output() {
                continue;
            }
            let geometry = &placed.tensor.geometry;
            let last = geometry.rank() - 1;
            let image = &mut self.images[placed.image].bytes;
            let columns = usize::try_from(geometry.extent(last)).unwrap_or(0);
            for_each_row(geometry, &mut |element| {
                placed.run(element, geometry.stride(last)).poison(image, columns);
            });
        }
    }

    fn write(&mut self, case: &Case, placed: &Placed, (q, kv): (&SideInts, &SideInts)) {
        let DeclaredTensor { role, geometry, .. } = placed.tensor;
        match role {
            Role::Q => return self.write_rows(case, placed, case.num_q_heads, case.head_dim_qk),
            Role::K => return self.write_rows(case, placed, case.num_kv_heads, case.head_dim_qk),
            Role::V => return self.write_rows(case, placed, case.num_v_heads(), case.head_dim_v()),
            Role::Bias => return self.write_bias(case, placed),
            Role::Sink => {
                let run = placed.run(0, geometry.stride(0));
                return run.store(&mut self.images[placed.image].bytes, &data::sink(case));
            }
            Role::AlibiSlopes => {
                let per_batch = geometry.rank() == 2;
                for b in 0..if per_batch { geometry.extent(0) } else { 1 } {
                    let first = if per_batch { b * geometry.stride(0) } else { 0 };
                    let run = placed.run(first, geometry.stride(geometry.rank() - 1));
                    run.store(&mut self.images[placed.image].bytes, &data::slopes(case, b));
                }
                return;
            }
            _ => {}
        }
        // Outputs, and tensors of features that nothing here computes, stay dead.
        let Some(ints) = ints_of(role, q, kv) else { return };
        let image = &mut self.images[placed.image].bytes;
        for_each_int(placed, ints, &mut |at, value| {
            image[at..at + 4].copy_from_slice(&value.to_le_bytes());
        });
    }

    /// Refuses a place at which a device tensor cannot hold its entries: two of them are one element,
    /// or another tensor lies there.
    fn check_ints(
        &self,
        case: &Case,
        placed: &Placed,
        (q, kv): (&SideInts, &SideInts),
    ) -> Result<(), CaseError> {
        let role = placed.tensor.role;
        let Some(ints) = ints_of(role, q, kv) else { return Ok(()) };
        let image = &self.images[placed.image].bytes;
        let mut lost = None;
        for_each_int(placed, ints, &mut |at, value| {
            if image[at..at + 4] != value.to_le_bytes() {
                lost.get_or_insert(value);
            }
        });
        let Some(value) = lost else { return Ok(()) };
        Err(CaseError::Case(format!(
            "{}: place of `{}`: its entry {value} shares memory with another entry or tensor",
            case.name,
            role.name()
        )))
    }

    /// Writes the live rows of Q, K or V.
    fn write_rows(&mut self, case: &Case, placed: &Placed, heads: u64, columns: u64) {
        let role = placed.tensor.role;
        let lens = &self.live.side(role).lens;
        let columns = usize::try_from(columns).unwrap_or(0);
        let units = (0_u64..).zip(lens).flat_map(|(b, &len)| (0..heads).map(move |h| (b, h, len)));
        let units: Vec<(u64, u64, u64)> = units.collect();
        // A few heads at a time: drawn side by side, written one after another.
        for some in units.chunks(4 * rayon::current_num_threads()) {
            let drawn: Vec<Vec<f32>> = some
                .par_iter()
                .map(|&(b, h, len)| {
                    let rows = usize::try_from(len).unwrap_or(0);
                    data::head(case, role, (b, h), (rows, columns))
                })
                .collect();
            for (&(b, h, _), values) in some.iter().zip(&drawn) {
                for (i, row) in (0_u64..).zip(values.chunks_exact(columns.max(1))) {
                    let run = placed.row(&self.live, b, h, i);
                    run.store(&mut self.images[placed.image].bytes, row);
                }
            }
        }
    }

    /// Writes the part of the bias that some sequence's live queries and keys meet in.
    fn write_bias(&mut self, case: &Case, placed: &Placed) {
        let geometry = placed.tensor.geometry;
        let (batch, heads) = (geometry.extent(0), geometry.extent(1));
        let columns = usize::try_from(geometry.extent(3)).unwrap_or(0);
        for b in 0..batch {
            let live = self.live.q.lens.iter().zip(&self.live.kv.lens);
            let live: Vec<(u64, u64)> = (0_u64..)
                .zip(live)
                .filter(|(sequence, _)| batch == 1 || *sequence == b)
                .map(|(_, (&q, &kv))| (q, kv))
                .collect();
            let rows = live.iter().map(|&(q, _)| q).max().unwrap_or(0);
            for h in 0..heads {
                let size = (usize::try_from(rows).unwrap_or(0), columns);
                let values = data::head(case, Role::Bias, (b, h), size);
                for (i, row) in (0_u64..).zip(values.chunks_exact(columns.max(1))) {
                    let reach = live.iter().filter(|&&(q, _)| q > i).map(|&(_, kv)| kv).max();
                    let reach = usize::try_from(reach.unwrap_or(0)).unwrap_or(0).min(columns);
                    let first =
                        b * geometry.stride(0) + h * geometry.stride(1) + i * geometry.stride(2);
                    let run = placed.run(first, geometry.stride(3));
                    run.store(&mut self.images[placed.image].bytes, &row[..reach]);
                }
            }
        }
    }
}

/// One image for each buffer, large enough for its tensors.
fn lay_out(declared: &Declared) -> (Vec<Image>, Vec<Placed>) {
    let mut bodies: Vec<(&str, u64)> = Vec::new();
    let mut tensors = Vec::new();
    for tensor in &declared.tensors {
        let end = tensor.offset_bytes + tensor.geometry.span() * tensor.dtype.bytes();
        let known = bodies.iter().position(|(name, _)| *name == tensor.buffer);
        let image = known.unwrap_or_else(|| {
            bodies.push((&tensor.buffer, 0));
            bodies.len() - 1
        });
        bodies[image].1 = bodies[image].1.max(end);
        tensors.push(Placed { tensor: tensor.clone(), image });
    }
    let images = bodies.into_iter().map(|(name, body)| {
        Image::new(name.into(), usize::try_from(body).expect("within the limits"))
    });
    (images.collect(), tensors)
}
