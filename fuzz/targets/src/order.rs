//! How a tensor lies in memory: the order of its axes, gaps between them, alignment.

use frazil::DType;

use crate::source::Source;

/// The layout of one tensor. The default is the plain one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    /// Which permutation of the axes; 0: row-major.
    permutation: u8,
    /// Elements between the columns, less one.
    step: u8,
    /// Elements left free after each axis.
    gap: u8,
    /// An axis whose elements are repeated, for inputs.
    repeated: Option<u8>,
    align: u8,
    chooses_id: bool,
}

impl Order {
    pub(crate) fn draw(source: &mut Source<'_>) -> Self {
        if !source.one_in(3) {
            return Self { chooses_id: source.flag(), ..Self::default() };
        }
        Self {
            permutation: source.byte(),
            step: source.pick(&[0, 0, 0, 1, 2]),
            gap: source.pick(&[0, 0, 1, 8, 13]),
            repeated: source.maybe(8, Source::byte),
            align: source.byte() % 7,
            chooses_id: source.flag(),
        }
    }

    /// The id to ask for, for the tensor at a position; never that of another position.
    pub(crate) fn id(self, at: usize) -> Option<i64> {
        self.chooses_id.then(|| -1 - i64::try_from(at).unwrap_or(0) * 1_000_003)
    }

    /// A power of two of at least an element.
    pub(crate) fn align(self, dtype: DType) -> Option<u32> {
        let least = u32::try_from(dtype.bytes()).unwrap_or(8);
        (self.align > 0).then(|| least.max(1 << (self.align - 1)))
    }

    /// Strides in elements; `None` where they are the plain ones.
    pub(crate) fn strides(self, extents: &[i64], is_output: bool) -> Option<Vec<i64>> {
        let repeated = self.repeated.filter(|_| !is_output);
        if self.permutation == 0 && self.step == 0 && self.gap == 0 && repeated.is_none() {
            return None;
        }
        let mut axes: Vec<usize> = (0..extents.len()).rev().collect();
        // The permutation of that number, in the factorial number system.
        let mut number = usize::from(self.permutation);
        let rank = axes.len();
        for left in (2..=rank).rev() {
            axes[rank - left..].rotate_left(number % left);
            number /= left;
        }
        let mut strides = vec![0; extents.len()];
        let mut next = 1 + i64::from(self.step);
        for &axis in &axes {
            strides[axis] = next;
            let extent = extents[axis].max(1);
            next = next.saturating_mul(extent).saturating_add(self.gap.into());
        }
        if let Some(axis) = repeated {
            strides[usize::from(axis) % extents.len()] = 0;
        }
        Some(strides)
    }
}
