//! Memory with guard zones.

use bytemuck::{cast_slice, cast_slice_mut};
use frazil::{Buffer, DType};
use half::{bf16, f16};

/// What lies around a tensor and in the gaps of an input: a NaN in every float type, -1 as an int32.
pub(super) const GUARD: u8 = 0xFF;

/// Two bytes repeated over outputs before they are written: a NaN that no computation makes.
pub(super) const POISON: [u8; 2] = 0x7fd5_u16.to_le_bytes();

/// Bytes of a guard zone.
const ZONE: usize = 256;

/// Bytes of a word of the allocation.
const WORD: usize = size_of::<u128>();

/// A tensor's bytes inside an allocation of their own.
#[derive(Debug)]
pub(super) struct Memory {
    words: Vec<u128>,
    /// What the words held when they were last kept.
    kept: Vec<u128>,
    at: usize,
    len: usize,
}

impl Memory {
    /// `len` bytes at an alignment. Between guard zones; or, `tight`, at the very end of the
    /// allocation, where a sanitizer sees reads as well.
    pub(super) fn new(len: usize, align: u32, tight: bool) -> Self {
        let align = usize::try_from(align).expect("small");
        let zone = if tight { 0 } else { ZONE };
        // Room to move the tensor to its alignment; in tight memory to the last place that has it.
        let words =
            vec![u128::from_ne_bytes([GUARD; WORD]); (len + align + 2 * zone).div_ceil(WORD)];
        let base = words.as_ptr().addr();
        let at = match tight {
            true => (base + words.len() * WORD - len) / align * align - base,
            false => (base + zone).next_multiple_of(align) - base,
        };
        Self { words, kept: Vec::new(), at, len }
    }

    /// The whole allocation.
    pub(super) fn all(&self) -> &[u8] {
        cast_slice(&self.words)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.all()[self.at..][..self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut cast_slice_mut(&mut self.words)[self.at..][..self.len]
    }

    /// Remembers what the memory holds.
    pub(super) fn keep(&mut self) {
        self.kept.clone_from(&self.words);
    }

    /// Puts back what was remembered.
    pub(super) fn restore(&mut self) {
        self.words.clone_from(&self.kept);
    }

    pub(super) fn is_unchanged(&self) -> bool {
        self.words == self.kept
    }

    /// Whether nothing was written around the tensor.
    pub(super) fn is_whole_outside(&self) -> bool {
        let (front, back) = (&self.all()[..self.at], &self.all()[self.at + self.len..]);
        front.iter().chain(back).all(|byte| *byte == GUARD)
    }

    /// As an engine would that writes past its tensor.
    #[cfg(test)]
    pub(super) fn spoil_outside(&mut self) -> Option<()> {
        let at = self.at.checked_sub(1)?;
        cast_slice_mut(&mut self.words)[at] = 0_u8;
        Some(())
    }

    /// The tensor as it was remembered.
    pub(super) fn kept_bytes(&self) -> &[u8] {
        &cast_slice(&self.kept)[self.at..][..self.len]
    }

    /// To be bound as a tensor of that type.
    pub(super) fn buffer(&mut self, dtype: DType) -> Buffer<'_> {
        let bytes = self.bytes_mut();
        match dtype {
            DType::F16 => Buffer::from_slice_mut::<f16>(cast_slice_mut(bytes)),
            DType::Bf16 => Buffer::from_slice_mut::<bf16>(cast_slice_mut(bytes)),
            DType::F32 => Buffer::from_slice_mut::<f32>(cast_slice_mut(bytes)),
            DType::I32 => Buffer::from_slice_mut::<i32>(cast_slice_mut(bytes)),
            DType::U8 => Buffer::from_slice_mut::<u8>(bytes),
            other => panic!("no executed graph has {other}"),
        }
    }
}
