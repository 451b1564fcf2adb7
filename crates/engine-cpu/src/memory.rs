//! Host memory by address: the one module that dereferences what a [`Call`] names.
//!
//! The types here are made from a [`Call`], which core alone makes and only after it has checked
//! every span against its buffer. They check each index against the extents, so that their reads
//! and writes are safe for the caller.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use frazil_core::{Call, DType, Region, Role};
use half::{bf16, f16};

use crate::vector::{Isa, Number, Widen};

/// A row of a tensor: index of batch or page, of head, of row.
pub(crate) type RowIndex = [u64; 3];

/// Which axis of a tensor is which of (batch or page, head, row, column); `None`: it has none.
pub(crate) type Axes = [Option<usize>; 4];

/// Four axes in host memory, addressed in elements. Every index within the extents lies in the
/// buffer that was bound.
#[derive(Clone, Copy, Debug)]
struct Grid {
    addr: u64,
    extents: [u64; 4],
    strides: [u64; 4],
}

impl Grid {
    fn of(call: &Call<'_>, role: Role, axes: Axes) -> Option<Self> {
        let view = call.view(role)?;
        let extents = axes.map(|axis| axis.map_or(1, |axis| view.geometry.extent(axis)));
        let strides = axes.map(|axis| axis.map_or(0, |axis| view.geometry.stride(axis)));
        Some(Self { addr: view.addr, extents, strides })
    }

    /// Elements from the first of the tensor to that of a row, whose `columns` are in bounds.
    fn offset(&self, index: RowIndex, columns: &Range<u64>) -> u64 {
        let [outer, head, row] = index;
        let inside = outer < self.extents[0] && head < self.extents[1] && row < self.extents[2];
        assert!(inside && columns.end <= self.extents[3], "{index:?} {columns:?} of {self:?}");
        outer * self.strides[0]
            + head * self.strides[1]
            + row * self.strides[2]
            + columns.start * self.strides[3]
    }

    /// Address of an element as a pointer.
    fn pointer<T>(&self, offset: u64) -> *mut T {
        with_exposed_provenance_mut(as_usize(self.addr + offset * size_of::<T>() as u64))
    }

    /// Reads `to.len()` columns from an element on, through `widen`.
    ///
    /// # Safety
    ///
    /// The columns lie in the tensor, which is an input of that type.
    unsafe fn gather<T: Copy>(
        &self,
        offset: u64,
        to: &mut [f32],
        widen: impl Fn(&mut [f32], &[T]),
    ) {
        let (first, stride) = (self.pointer::<T>(offset), as_usize(self.strides[3]));
        if stride == 1 {
            // SAFETY: the caller's promise; core checked span and alignment (`Call`), and no output
            // shares an element with an input.
            return widen(to, unsafe { std::slice::from_raw_parts(first, to.len()) });
        }
        // SAFETY: as above; the element lies `at` strides after the first.
        let read = |at: usize| unsafe { first.wrapping_add(at * stride).read() };
        let (chunks, tail) = to.as_chunks_mut::<16>();
        let tail_begin = chunks.len() * 16;
        for (at, chunk) in (0..).step_by(16).zip(chunks) {
            widen(chunk, &std::array::from_fn::<T, 16, _>(|within| read(at + within)));
        }
        for (at, to) in (tail_begin..).zip(tail) {
            widen(std::slice::from_mut(to), &[read(at)]);
        }
    }

    /// Stores one element.
    ///
    /// # Safety
    ///
    /// It lies in the tensor, which is an output of that size.
    unsafe fn store_u16(&self, offset: u64, bits: u16) {
        // SAFETY: the caller's promise; core checked span, alignment and that the tensor may be
        // written (`Call`); all accesses to outputs during the call are atomic, of one width.
        unsafe { AtomicU16::from_ptr(self.pointer(offset)) }.store(bits, Ordering::Relaxed);
    }

    /// Stores one element.
    ///
    /// # Safety
    ///
    /// It lies in the tensor, which is an output of that size.
    unsafe fn store_u32(&self, offset: u64, bits: u32) {
        // SAFETY: as in `store_u16`.
        unsafe { AtomicU32::from_ptr(self.pointer(offset)) }.store(bits, Ordering::Relaxed);
    }
}

/// Addresses and extents in memory fit the host's words.
#[expect(clippy::cast_possible_truncation, reason = "an address of this process")]
pub(crate) fn as_usize(value: u64) -> usize {
    value as usize
}

/// Type of the elements that tiles are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    F16,
    Bf16,
    F32,
}

impl Float {
    fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F16 => Some(Self::F16),
            DType::Bf16 => Some(Self::Bf16),
            DType::F32 => Some(Self::F32),
            _ => None,
        }
    }
}

/// A type that tensors may be made of.
pub(crate) trait Element: Number {
    /// Its name.
    const FLOAT: Float;
}

impl Element for f16 {
    const FLOAT: Float = Float::F16;
}

impl Element for bf16 {
    const FLOAT: Float = Float::Bf16;
}

impl Element for f32 {
    const FLOAT: Float = Float::F32;
}

/// A tensor of floats that is only read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    grid: Grid,
    float: Float,
}

impl Input {
    /// The tensor of a role, where the graph has it.
    pub(crate) fn of(
        call: &Call<'_>,
        role: Role,
        dtype: Option<DType>,
        axes: Axes,
    ) -> Option<Self> {
        Some(Self { grid: Grid::of(call, role, axes)?, float: Float::of(dtype?)? })
    }

    /// Extents of (batch or page, head, row, column).
    pub(crate) fn extents(&self) -> [u64; 4] {
        self.grid.extents
    }

    /// The type of the elements, where the columns of a row lie together.
    pub(crate) fn contiguous(&self) -> Option<Float> {
        (self.grid.strides[3] == 1).then_some(self.float)
    }

    /// Some rows from one on where they lie, of a tensor of that type that is
    /// [contiguous](Input::contiguous).
    pub(crate) fn strided<T: Element>(&self, first: RowIndex, count: u64) -> Strided<'_, T> {
        assert!(self.contiguous() == Some(T::FLOAT), "{:?} of {self:?}", T::FLOAT);
        let columns = 0..self.grid.extents[3];
        let [outer, head, row] = first;
        let offset = self.grid.offset(first, &columns);
        if let Some(more) = count.checked_sub(1) {
            // The last in bounds: all are.
            self.grid.offset([outer, head, row + more], &columns);
        }
        Strided {
            first: self.grid.pointer(offset),
            pitch: as_usize(self.grid.strides[2]),
            columns: as_usize(columns.end),
            count: as_usize(count),
            numbers: PhantomData,
        }
    }

    /// Address of a row, and bytes from row to row and of a row, where rows are
    /// [contiguous](Input::contiguous).
    pub(crate) fn span(&self, row: RowIndex) -> [usize; 3] {
        let columns = 0..self.grid.extents[3];
        let bytes = match self.float {
            Float::F16 | Float::Bf16 => 2,
            Float::F32 => 4,
        };
        let address = self.grid.addr + self.grid.offset(row, &columns) * bytes;
        [address, self.grid.strides[2] * bytes, columns.end * bytes].map(as_usize)
    }

    /// Copies columns of a row from `first_column` on, as f32.
    pub(crate) fn read(&self, isa: Isa, index: RowIndex, first_column: u64, to: &mut [f32]) {
        let columns = first_column..first_column + to.len() as u64;
        let offset = self.grid.offset(index, &columns);
        match self.float {
            // SAFETY: `Grid::offset` checked that the columns lie in the tensor, of this type.
            Float::F32 => unsafe { self.grid.gather(offset, to, <[f32]>::copy_from_slice) },
            Float::F16 => {
                let widen = |to: &mut [f32], from: &[f16]| isa.run(isa.lanes(), Widen { from, to });
                // SAFETY: as above.
                unsafe { self.grid.gather(offset, to, widen) }
            }
            Float::Bf16 => {
                let widen =
                    |to: &mut [f32], from: &[bf16]| isa.run(isa.lanes(), Widen { from, to });
                // SAFETY: as above.
                unsafe { self.grid.gather(offset, to, widen) }
            }
        }
    }

    /// The one column of a row, repeated as in [`Input::broadcast`].
    pub(crate) fn read_value(&self, isa: Isa, index: RowIndex) -> f32 {
        let mut value = [0.0];
        self.read(isa, self.broadcast(index), 0, &mut value);
        value[0]
    }

    /// The index with 0 where the extent is 1.
    pub(crate) fn broadcast(&self, index: RowIndex) -> RowIndex {
        std::array::from_fn(|axis| if self.grid.extents[axis] == 1 { 0 } else { index[axis] })
    }
}

/// Rows of one type, one distance apart, that are only read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strided<'a, T> {
    first: *const T,
    /// Elements from row to row.
    pitch: usize,
    columns: usize,
    count: usize,
    numbers: PhantomData<&'a [T]>,
}

impl<'a, T> Strided<'a, T> {
    /// The rows of a matrix in scratch.
    pub(crate) fn of(numbers: &'a [T], columns: usize, pitch: usize) -> Self {
        assert!(columns <= pitch);
        let count = numbers.len() / pitch;
        Self { first: numbers.as_ptr(), pitch, columns, count, numbers: PhantomData }
    }

    /// The columns of a row.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &'a [T] {
        let [columns] = self.group(row);
        columns
    }

    /// The columns of some rows, one after another.
    #[inline(always)]
    pub(crate) fn group<const N: usize>(&self, first: usize) -> [&'a [T]; N] {
        assert!(first < self.count && N <= self.count - first);
        let mut rows: [&[T]; N] = [&[]; N];
        let mut address = self.first.wrapping_add(first * self.pitch);
        for row in &mut rows {
            // SAFETY: the rows from `first` on are as many as the assertion says.
            *row = unsafe { self.columns(address) };
            address = address.wrapping_add(self.pitch);
        }
        rows
    }

    /// The columns of a row.
    ///
    /// # Safety
    ///
    /// A row of this value begins at that address.
    #[inline(always)]
    unsafe fn columns(&self, first: *const T) -> &'a [T] {
        // SAFETY: the row is of a borrowed slice, or of an input whose rows were found in bounds.
        // Core checked span and alignment (`Call`), and no output shares an element with an input,
        // so that nothing writes them during the call, which the reference cannot outlive: an
        // `Input` is made from a `Call` and dropped with the launch.
        unsafe { std::slice::from_raw_parts(first, self.columns) }
    }
}

/// A tensor of floats that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    grid: Grid,
    float: Float,
}

impl Output {
    /// The tensor of a role, where the graph has it.
    pub(crate) fn of(
        call: &Call<'_>,
        role: Role,
        dtype: Option<DType>,
        axes: Axes,
    ) -> Option<Self> {
        Some(Self { grid: Grid::of(call, role, axes)?, float: Float::of(dtype?)? })
    }

    /// Extents of (batch, head, row, column).
    pub(crate) fn extents(&self) -> [u64; 4] {
        self.grid.extents
    }

    /// Writes +0 in every column of a row.
    pub(crate) fn write_zeros(&self, index: RowIndex) {
        const ZEROS: [f32; 64] = [0.0; 64];
        let columns = self.grid.extents[3];
        for first in (0..columns).step_by(ZEROS.len()) {
            let len = ZEROS.len().min(as_usize(columns - first));
            self.write_from(index, first, &ZEROS[..len]);
        }
    }

    /// Writes a row from its first column on, rounded to nearest.
    pub(crate) fn write(&self, index: RowIndex, from: &[f32]) {
        self.write_from(index, 0, from);
    }

    /// Writes columns of a row from `first_column` on.
    ///
    /// Elements are stored with relaxed atomic stores: hostile starts may give two sequences the
    /// same rows, and what then lands there is undefined, but writing it is not.
    fn write_from(&self, index: RowIndex, first_column: u64, from: &[f32]) {
        let columns = first_column..first_column + from.len() as u64;
        let offset = self.grid.offset(index, &columns);
        let offsets = (0..).map(|at: u64| offset + at * self.grid.strides[3]);
        for (&value, offset) in from.iter().zip(offsets) {
            match self.float {
                // SAFETY: `Grid::offset` checked that the columns lie in the tensor, of this type.
                Float::F32 => unsafe { self.grid.store_u32(offset, value.to_bits()) },
                Float::F16 => {
                    let bits = f16::from_f32(value).to_bits();
                    // SAFETY: as above.
                    unsafe { self.grid.store_u16(offset, bits) }
                }
                Float::Bf16 => {
                    let bits = bf16::from_f32(value).to_bits();
                    // SAFETY: as above.
                    unsafe { self.grid.store_u16(offset, bits) }
                }
            }
        }
    }
}

/// A tensor of int32 that is only read: lengths, prefix, starts, or a page table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ints {
    grid: Grid,
}

impl Ints {
    /// The vector of a role, where the graph has it.
    pub(crate) fn vector(call: &Call<'_>, role: Role) -> Option<Self> {
        Grid::of(call, role, [None, None, Some(0), None]).map(|grid| Self { grid })
    }

    /// The table `[batch, pages]` of a role, where the graph has it.
    pub(crate) fn table(call: &Call<'_>, role: Role) -> Option<Self> {
        Grid::of(call, role, [Some(0), None, Some(1), None]).map(|grid| Self { grid })
    }

    /// Entries of a vector, or of a line of a table.
    pub(crate) fn len(&self) -> u64 {
        self.grid.extents[2]
    }

    /// An entry of a vector (line 0), or of a line of a table.
    pub(crate) fn get(&self, line: u64, at: u64) -> i64 {
        let offset = self.grid.offset([line, 0, at], &(0..1));
        // SAFETY: the index is within the extents, core checked span and alignment of the tensor
        // (`Call`), and no output shares an element with an input.
        unsafe { self.grid.pointer::<i32>(offset).read() }.into()
    }
}

/// Plain data without padding or invalid bit patterns, as workspaces hold it.
///
/// # Safety
///
/// Every bit pattern is a value, there is no padding, and the alignment is at most that of a
/// workspace.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: every bit pattern is a number.
unsafe impl Plain for f32 {}

/// Elements of a region of the workspace, which begins at `addr`.
///
/// # Safety
///
/// Region and address are those of one call. For `'a`, nothing else refers to these elements.
pub(crate) unsafe fn workspace_slice<'a, T: Plain>(
    addr: u64,
    region: Region,
    elements: Range<usize>,
) -> &'a mut [T] {
    let size = size_of::<T>() as u64;
    let (start, end) = (elements.start as u64 * size, elements.end as u64 * size);
    assert!(start <= end && end <= region.bytes(), "{elements:?} of {region:?}");
    let first = with_exposed_provenance_mut(as_usize(addr + start));
    // SAFETY: core checked that the workspace holds every region of the plan, is aligned and may be
    // written; the caller vouches for the rest.
    unsafe { std::slice::from_raw_parts_mut(first, elements.len()) }
}

/// The first numbers of a region of the workspace.
///
/// # Safety
///
/// The region belongs to the plan of the call, and its memory is referred to in this way alone.
pub(crate) unsafe fn workspace_u32s<'a>(
    call: &'a Call<'_>,
    region: Region,
    count: usize,
) -> &'a [AtomicU32] {
    assert!(count as u64 <= region.bytes() / 4, "{count} of {region:?}");
    let first = with_exposed_provenance_mut(as_usize(call.region(region)));
    // SAFETY: as in `workspace_slice`; atomics are laid out as their numbers, and all accesses are
    // atomic.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// The first number of a region of the workspace.
///
/// # Safety
///
/// The region belongs to the plan of the call, and its memory is referred to in this way alone.
pub(crate) unsafe fn workspace_u64<'a>(call: &'a Call<'_>, region: Region) -> &'a AtomicU64 {
    assert!(region.bytes() >= 8);
    // SAFETY: as in `workspace_slice`; all accesses are atomic.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(as_usize(call.region(region)))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PP-21, PP-68: offsets past 2^31 and 2^32 elements, which no 32-bit product survives.
    #[test]
    fn offsets_have_64_bits() {
        let at = |extents, strides, index, first_column| {
            let grid = Grid { addr: 1 << 40, extents, strides };
            let offset = grid.offset(index, &(first_column..first_column + 1));
            (offset, grid.pointer::<u16>(offset).addr() as u64)
        };
        // 600,000 packed rows of 32 heads of 128 columns.
        let packed = at([1, 32, 600_000, 128], [0, 128, 4096, 1], [0, 31, 599_999], 127);
        assert_eq!(packed.0, 600_000 * 32 * 128 - 1);
        assert_eq!(packed.1, (1 << 40) + 2 * packed.0);
        // A row stride of 9728 and a batch stride of 2^27 elements.
        let strided = at([1, 1, 225_305, 128], [0, 0, 9728, 1], [0, 0, 225_304], 0);
        assert_eq!(strided.0, 225_304 * 9728);
        let batch = at([64, 1, 1, 64], [1 << 27, 0, 0, 1], [63, 0, 0], 0);
        assert_eq!(batch.0, 63 << 27);
    }
}
