//! What the tensors of a cell hold: standard normal numbers, never zeros, on which processors run
//! faster.

use frazil::{DType, Role};
use frazil_conformance::declare::{Declared, DeclaredTensor};
use half::{bf16, f16};
use rayon::prelude::*;

use super::cell::{Cell, Shape};
use crate::failure::Failure;

/// A tensor and its bytes, as every device gets them.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) tensor: DeclaredTensor,
    /// The whole span, little-endian.
    pub(super) bytes: Vec<u8>,
}

/// Elements drawn by one generator.
const PIECE: usize = 1 << 16;

/// All bits set is NaN in every float type, so what an engine leaves unwritten is seen.
const UNWRITTEN: u8 = 0xff;

/// Bytes of all tensors.
pub(super) fn bytes(declared: &Declared) -> u64 {
    declared.tensors.iter().map(span_bytes).fold(0, u64::saturating_add)
}

/// Draws every tensor of a cell; another seed is other numbers.
pub(super) fn draw(cell: &Cell, declared: &Declared, seed: u64) -> Result<Vec<Image>, Failure> {
    let images = declared.tensors.iter().map(|tensor| {
        let mut bytes = memory(tensor)?;
        match tensor.role {
            Role::O => bytes.fill(UNWRITTEN),
            Role::QPrefix | Role::KvPrefix => prefix(&cell.shape, &mut bytes),
            Role::KvLengths => ints(&mut bytes, |_| cell.shape.seqlen_kv),
            Role::TableK => table(seed, &mut bytes),
            role => normals(tensor.dtype, seed.wrapping_mul(31) ^ role as u64, &mut bytes),
        }
        Ok(Image { tensor: tensor.clone(), bytes })
    });
    images.collect()
}

fn span_bytes(tensor: &DeclaredTensor) -> u64 {
    tensor.geometry.span().saturating_mul(tensor.dtype.bytes())
}

fn memory(tensor: &DeclaredTensor) -> Result<Vec<u8>, Failure> {
    let count = span_bytes(tensor);
    let refuse =
        || Failure::Fault(format!("{count} bytes for `{}`: none left", tensor.role.name()));
    let len = usize::try_from(count).map_err(|_| refuse())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| refuse())?;
    bytes.resize(len, 0);
    Ok(bytes)
}

fn normals(dtype: DType, seed: u64, bytes: &mut [u8]) {
    let size = usize::try_from(dtype.bytes()).unwrap_or(1);
    bytes.par_chunks_mut(PIECE * size).enumerate().for_each(|(piece, bytes)| {
        let mut random = fastrand::Rng::with_seed(seed ^ (piece as u64) << 32);
        for pair in bytes.chunks_mut(2 * size) {
            for (element, normal) in pair.chunks_exact_mut(size).zip(two_normals(&mut random)) {
                match dtype {
                    DType::F16 => element.copy_from_slice(&f16::from_f32(normal).to_le_bytes()),
                    DType::Bf16 => element.copy_from_slice(&bf16::from_f32(normal).to_le_bytes()),
                    _ => element.copy_from_slice(&normal.to_le_bytes()),
                }
            }
        }
    });
}

/// Box and Muller, 1958.
fn two_normals(random: &mut fastrand::Rng) -> [f32; 2] {
    // From (0, 1]: the logarithm stays finite.
    let radius = (-2.0 * (1.0 - random.f32()).ln()).sqrt();
    let angle = std::f32::consts::TAU * random.f32();
    [radius * angle.cos(), radius * angle.sin()]
}

fn ints(bytes: &mut [u8], value: impl Fn(u64) -> u64) {
    for (at, entry) in (0..).zip(bytes.as_chunks_mut::<4>().0) {
        // Lengths, running sums and pages are int32 on devices.
        *entry = i32::try_from(value(at)).unwrap_or(i32::MAX).to_le_bytes();
    }
}

fn prefix(shape: &Shape, bytes: &mut [u8]) {
    let ends = shape.lengths().into_iter().scan(0, |end, (length, _)| {
        *end += length;
        Some(*end)
    });
    let entries: Vec<u64> = std::iter::once(0).chain(ends).collect();
    ints(bytes, |at| usize::try_from(at).map_or(0, |at| entries[at]));
}

/// Every page of the pool once, in random order: as scattered as after hours of serving.
fn table(seed: u64, bytes: &mut [u8]) {
    let mut pages: Vec<u64> = (0..bytes.len() as u64 / 4).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut pages);
    ints(bytes, |at| usize::try_from(at).map_or(0, |at| pages[at]));
}

#[cfg(test)]
mod tests {
    use frazil_conformance::declare::declare;

    use super::*;
    use crate::bench::preset::select;

    fn images(config: &str, seed: u64) -> Vec<Image> {
        let (preset, _) = config.split_once('/').unwrap();
        let cells = select(&[preset.to_owned()]).unwrap();
        let cell = cells.into_iter().find(|cell| cell.config == config).unwrap();
        let declared = declare(&cell.case(seed)).unwrap();
        let images = draw(&cell, &declared, seed).unwrap();
        assert_eq!(
            images.iter().map(|image| image.bytes.len() as u64).sum::<u64>(),
            bytes(&declared)
        );
        images
    }

    fn of(images: &[Image], role: Role) -> &[u8] {
        &images.iter().find(|image| image.tensor.role == role).unwrap().bytes
    }

    #[test]
    fn values_are_standard_normal_and_of_their_seed() {
        let config = "quick/prefill/d64_h8_b1_s256_full";
        let (one, other) = (images(config, 1), images(config, 2));
        assert_eq!(of(&one, Role::K), of(&images(config, 1), Role::K));
        assert_ne!(of(&one, Role::K), of(&other, Role::K));
        assert_ne!(of(&one, Role::K), of(&one, Role::V));
        let values = of(&one, Role::Q).as_chunks::<4>().0;
        let values: Vec<f32> = values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let count = values.len() as f32;
        let mean = values.iter().sum::<f32>() / count;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / count;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn tables_name_every_page_once() {
        let images = images("quick/decode/d128_h32x8_b4_q1_s4096_page16_full", 3);
        let entries = of(&images, Role::TableK).as_chunks::<4>().0;
        let mut pages: Vec<i32> = entries.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect();
        assert!(!pages.is_sorted());
        pages.sort_unstable();
        assert!(pages.into_iter().eq(0..4 * 4096 / 16));
    }
}
