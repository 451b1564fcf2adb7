//! Bytes of a buffer as the host sees them: guard zones, fills, elements.

use frazil_core::DType;
use half::{bf16, f16};

/// Bytes before and after what may be bound.
pub(crate) const GUARD_BYTES: usize = 512;

/// Two bytes repeated over guard zones: a NaN in every float type, far below zero as an int32.
pub(crate) const GUARD: [u8; 2] = 0xfffe_u16.to_le_bytes();

/// Two bytes repeated over what nobody may count on: a NaN, far outside of everything as an int32.
pub(crate) const DEAD: [u8; 2] = 0x7fc1_u16.to_le_bytes();

/// Two bytes repeated over outputs before they are written: a NaN that no computation makes.
pub(crate) const POISON: [u8; 2] = 0x7fd5_u16.to_le_bytes();

/// A buffer with its guard zones.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Its name in the case.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Fills with two bytes repeated.
pub(crate) fn fill(bytes: &mut [u8], pair: [u8; 2]) {
    let (pairs, rest) = bytes.as_chunks_mut::<2>();
    pairs.fill(pair);
    rest.copy_from_slice(&pair[..rest.len()]);
}

impl Image {
    /// `body` dead bytes between guard zones.
    pub(crate) fn new(name: String, body: usize) -> Self {
        let mut bytes = vec![0; body + 2 * GUARD_BYTES];
        let (front, rest) = bytes.split_at_mut(GUARD_BYTES);
        let (middle, back) = rest.split_at_mut(body);
        fill(front, GUARD);
        fill(middle, DEAD);
        fill(back, GUARD);
        Self { name, bytes }
    }
}

/// Elements of one type from an offset on, at a stride: where a tensor's row lies in an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) dtype: DType,
    /// Byte of the first element in the image, guard zone included.
    pub(crate) at: usize,
    /// Bytes from element to element.
    pub(crate) step: usize,
}

impl Run {
    fn size(&self) -> usize {
        match self.dtype {
            DType::F16 | DType::Bf16 => 2,
            _ => 4,
        }
    }

    fn element(&self, index: usize) -> std::ops::Range<usize> {
        let at = self.at + index * self.step;
        at..at + self.size()
    }

    /// The bytes of elements, of which there are `count`, where nothing lies between them.
    fn dense(&self, count: usize) -> Option<std::ops::Range<usize>> {
        (self.step == self.size()).then(|| self.at..self.at + count * self.step)
    }

    pub(crate) fn store(&self, image: &mut [u8], values: &[f32]) {
        for (index, &value) in values.iter().enumerate() {
            let element = &mut image[self.element(index)];
            match self.dtype {
                DType::F16 => element.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
                DType::Bf16 => element.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
                _ => element.copy_from_slice(&value.to_le_bytes()),
            }
        }
    }

    /// Writes what stands for an output not yet written.
    pub(crate) fn poison(&self, image: &mut [u8], count: usize) {
        match self.dense(count) {
            Some(row) => fill(&mut image[row], POISON),
            None => (0..count).for_each(|index| fill(&mut image[self.element(index)], POISON)),
        }
    }

    /// Appends elements, widened.
    pub(crate) fn load(&self, image: &[u8], count: usize, values: &mut Vec<f32>) {
        let two = |at: usize| [image[at], image[at + 1]];
        let places = (0..count).map(|index| self.at + index * self.step);
        match self.dtype {
            DType::F16 => values.extend(places.map(|at| f16::from_le_bytes(two(at)).to_f32())),
            DType::Bf16 => values.extend(places.map(|at| bf16::from_le_bytes(two(at)).to_f32())),
            _ => values.extend(places.map(|at| {
                let ([a, b], [c, d]) = (two(at), two(at + 2));
                f32::from_le_bytes([a, b, c, d])
            })),
        }
    }

    /// Whether an element still holds what outputs are filled with.
    pub(crate) fn is_poison(&self, image: &[u8], index: usize) -> bool {
        image[self.element(index)].chunks(2).all(|pair| pair == POISON)
    }

    /// Copies elements from one image to another.
    pub(crate) fn copy(&self, from: &[u8], to: &mut [u8], count: usize) {
        if let Some(row) = self.dense(count) {
            return to[row.clone()].copy_from_slice(&from[row]);
        }
        for element in (0..count).map(|index| self.element(index)) {
            to[element.clone()].copy_from_slice(&from[element]);
        }
    }
}
