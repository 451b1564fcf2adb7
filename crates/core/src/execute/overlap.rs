//! Whether two tensors can share an address.

use super::View;
use crate::geometry::MAX_RANK;

/// A tensor's addresses as runs of consecutive bytes that repeat at some strides.
struct Runs {
    run: u64,
    strides: [u64; MAX_RANK],
    num_strides: usize,
}

impl Runs {
    /// Those of a tensor that is not empty.
    fn of(view: &View, element_bytes: u64) -> Self {
        let (axes, count) = view.geometry.ordered_axes();
        let (mut run, mut strides, mut num_strides) = (element_bytes, [0; MAX_RANK], 0);
        for &(stride, extent) in &axes[..count] {
            let stride = stride * element_bytes;
            if num_strides == 0 && stride <= run {
                run += (extent - 1) * stride;
            } else {
                strides[num_strides] = stride;
                num_strides += 1;
            }
        }
        Self { run, strides, num_strides }
    }
}

/// Whether two tensors that are not empty may share an address; element sizes in bytes.
///
/// The caller has seen that their spans meet. Where spans interleave, both repeat their runs at
/// multiples of the common divisor `g` of all strides, so runs that are apart modulo `g` never
/// meet: that admits the slices of one `[T, 3, H, D]` buffer and is never wrong about a shared
/// address. Other interleavings count as shared.
pub(super) fn may_share(a: (&View, u64), b: (&View, u64)) -> bool {
    let (first_a, first_b) = (a.0.addr, b.0.addr);
    let (a, b) = (Runs::of(a.0, a.1), Runs::of(b.0, b.1));
    let strides = a.strides[..a.num_strides].iter().chain(&b.strides[..b.num_strides]);
    let period = strides.fold(0, |divisor, &stride| gcd(divisor, stride));
    if period == 0 {
        return true;
    }
    let a_to_b = first_b.abs_diff(first_a) % period;
    // Distance from the start of a's run up to the start of b's, going upwards around the period.
    let up = if first_b >= first_a || a_to_b == 0 { a_to_b } else { period - a_to_b };
    up < a.run || up + b.run > period
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Geometry;

    fn addresses(view: &View) -> BTreeSet<u64> {
        let mut offsets = vec![0];
        for axis in 0..view.geometry.rank() {
            let step = |i| i * view.geometry.stride(axis);
            offsets = (0..view.geometry.extent(axis))
                .flat_map(|i| offsets.iter().map(move |&offset| offset + step(i)))
                .collect();
        }
        offsets.into_iter().map(|offset| view.addr + offset).collect()
    }

    /// Every pair of small strided views against the sets of their addresses: no shared address is
    /// missed.
    #[test]
    fn no_shared_address_is_missed() {
        let mut views = Vec::new();
        for addr in 0..6 {
            for (extents, strides) in
                [([2, 3], [6, 1]), ([3, 2], [4, 2]), ([2, 2], [3, 7]), ([1, 4], [9, 2])]
            {
                let geometry = Geometry::strided(&extents, &strides).unwrap();
                views.push(View { addr, geometry });
            }
        }
        let (mut admitted, mut shared) = (0, 0);
        for a in &views {
            for b in &views {
                let meet = !addresses(a).is_disjoint(&addresses(b));
                let verdict = may_share((a, 1), (b, 1));
                assert!(verdict || !meet, "{a:?} {b:?}");
                shared += usize::from(meet);
                admitted += usize::from(!verdict);
            }
        }
        assert!(admitted > 0 && shared > 0);
    }

    #[test]
    fn slices_of_one_interleaved_buffer_are_apart() {
        let (t, h, d) = (5, 2, 8);
        let slice = |at: u64| View {
            addr: 1024 + at * 2 * h * d,
            #[expect(clippy::cast_possible_wrap, reason = "small numbers")]
            geometry: Geometry::strided(
                &[t, h as i64, d as i64],
                &[3 * (h * d) as i64, d as i64, 1],
            )
            .unwrap(),
        };
        for (a, b) in [(0, 1), (1, 2), (2, 0)] {
            assert!(!may_share((&slice(a), 2), (&slice(b), 2)));
        }
        assert!(may_share((&slice(1), 2), (&slice(1), 2)));
    }
}
