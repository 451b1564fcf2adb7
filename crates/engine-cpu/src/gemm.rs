//! The two matrix products of a tile, on row-major f32 scratch.

use nano_gemm::Plan;

/// A row-major matrix in scratch: `rows x columns`, rows `pitch` elements apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) pitch: usize,
}

impl Shape {
    /// Elements from the first to one past the last.
    fn span(self) -> usize {
        assert!(self.columns <= self.pitch, "rows overlap");
        match self.rows {
            0 => 0,
            rows => (rows - 1) * self.pitch + self.columns,
        }
    }
}

/// How a product is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    /// `c = factor * a b`; what `c` held is not read.
    Scaled(f32),
    /// `c = c + a b`.
    Added,
}

/// `a b` into `c`, all row-major; `c` has the rows of `a` and the columns of `b`.
pub(crate) fn multiply(
    store: Store,
    (a, a_shape): (&[f32], Shape),
    (b, b_shape): (&[f32], Shape),
    (c, c_shape): (&mut [f32], Shape),
) {
    assert_eq!(a_shape.columns, b_shape.rows, "inner extents");
    assert_eq!((c_shape.rows, c_shape.columns), (a_shape.rows, b_shape.columns), "outer extents");
    assert!(a.len() >= a_shape.span(), "a is too short");
    assert!(b.len() >= b_shape.span(), "b is too short");
    assert!(c.len() >= c_shape.span(), "c is too short");
    if !is_served_here() {
        return portable(store, (a, a_shape), (b, b_shape), (c, c_shape));
    }
    let (c_factor, factor) = match store {
        Store::Scaled(factor) => (0.0, factor),
        Store::Added => (1.0, 1.0),
    };
    // Column-major is what the library calls a matrix whose first axis is contiguous: all three
    // are passed transposed, as `c^T = b^T a^T`.
    let (m, n, k) = (c_shape.columns, c_shape.rows, a_shape.columns);
    let pitch = |shape: Shape| isize::try_from(shape.pitch).unwrap_or(isize::MAX);
    let plan = Plan::new_colmajor_lhs_and_dst_f32(m, n, k);
    // SAFETY: the shapes agree and every element they reach lies in its slice, both asserted above;
    // the plan is for these extents and unit strides of `b` and `c`; the instructions that the
    // library picks are there, by `is_served_here`.
    unsafe {
        plan.execute_unchecked(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            pitch(c_shape),
            b.as_ptr(),
            1,
            pitch(b_shape),
            a.as_ptr(),
            1,
            pitch(a_shape),
            c_factor,
            factor,
            false,
            false,
        );
    }
}

/// Whether the library has vectors for this processor. Where it finds AVX2 it also uses FMA, which
/// a hypervisor may hide.
fn is_served_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// The same with plain loops, the inner one over contiguous elements.
fn portable(
    store: Store,
    (a, a_shape): (&[f32], Shape),
    (b, b_shape): (&[f32], Shape),
    (c, c_shape): (&mut [f32], Shape),
) {
    for (a_row, c_row) in
        a.chunks(a_shape.pitch).zip(c.chunks_mut(c_shape.pitch)).take(a_shape.rows)
    {
        let c_row = &mut c_row[..c_shape.columns];
        if let Store::Scaled(_) = store {
            c_row.fill(0.0);
        }
        for (&factor, b_row) in a_row[..a_shape.columns].iter().zip(b.chunks(b_shape.pitch)) {
            for (c, &b) in c_row.iter_mut().zip(b_row) {
                *c += factor * b;
            }
        }
        if let Store::Scaled(factor) = store {
            c_row.iter_mut().for_each(|c| *c *= factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_multiply_agree() {
        for (rows, inner, columns) in [(1, 1, 1), (3, 5, 7), (16, 64, 33), (5, 130, 128)] {
            let a_shape = Shape { rows, columns: inner, pitch: inner + 3 };
            let b_shape = Shape { rows: inner, columns, pitch: columns + 1 };
            let c_shape = Shape { rows, columns, pitch: columns + 2 };
            let number = |at: usize| ((at * 37) % 17) as f32 - 8.0;
            let a: Vec<f32> = (0..rows * a_shape.pitch).map(number).collect();
            let b: Vec<f32> = (0..inner * b_shape.pitch).map(number).collect();
            for store in [Store::Scaled(0.5), Store::Added] {
                let start = if let Store::Added = store { 1.0 } else { f32::NAN };
                let mut fast = vec![start; rows * c_shape.pitch];
                let mut plain = fast.clone();
                multiply(store, (&a, a_shape), (&b, b_shape), (&mut fast, c_shape));
                portable(store, (&a, a_shape), (&b, b_shape), (&mut plain, c_shape));
                let bits = |c: &[f32]| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&fast), bits(&plain), "{rows} {inner} {columns} {store:?}");
            }
        }
    }
}
