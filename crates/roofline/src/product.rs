//! The f32 matrix product of the `gemm` crate.

use std::time::{Duration, Instant};

use gemm_common::Parallelism;

/// `C = A B` of square f32 matrices, with its memory.
#[derive(Debug)]
pub struct Product {
    n: usize,
    num_threads: usize,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Product {
    /// Matrices of `n` rows and columns, multiplied on that many threads; 0 counts as 1.
    pub fn new(n: usize, num_threads: usize) -> Self {
        // Never zeros: some processors run faster on them.
        let matrix = |phase: usize| -> Vec<f32> {
            let value = |at: usize| ((at * 2_654_435_761 + phase) % 1024) as f32 / 512.0 - 1.0;
            (0..n * n).map(value).collect()
        };
        Self { n, num_threads: num_threads.max(1), a: matrix(1), b: matrix(2), c: vec![0.0; n * n] }
    }

    /// Floating-point operations of one product: a multiplication and an addition are two.
    pub fn flops(&self) -> f64 {
        2.0 * (self.n as f64).powi(3)
    }

    /// Multiplies once.
    pub fn run(&mut self) -> Duration {
        let start = Instant::now();
        self.multiply();
        let time = start.elapsed();
        std::hint::black_box(&self.c);
        time
    }

    /// The best rate of that many runs, one before them not counted, in operations a second.
    pub fn best_flops_per_second(&mut self, runs: u32) -> f64 {
        self.run();
        let best = (0..runs.max(1)).map(|_| self.run()).min().unwrap_or(Duration::MAX);
        self.flops() / best.as_secs_f64()
    }

    #[expect(unsafe_code, reason = "the product takes pointers")]
    fn multiply(&mut self) {
        let parallelism = match self.num_threads {
            1 => Parallelism::None,
            num_threads => Parallelism::Rayon(num_threads),
        };
        let (n, row_stride) = (self.n, 1);
        let column_stride = isize::try_from(n).expect("a matrix in memory");
        let multiply = gemm_f32::gemm::f32::get_gemm_fn();
        // SAFETY: the three matrices are vectors of `n * n` elements, which is all that `n` rows and
        // columns at these strides reach; `c` is borrowed exclusively and is no part of the others.
        unsafe {
            multiply(
                n,
                n,
                n,
                self.c.as_mut_ptr(),
                column_stride,
                row_stride,
                false,
                self.a.as_ptr(),
                column_stride,
                row_stride,
                self.b.as_ptr(),
                column_stride,
                row_stride,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_product() {
        for num_threads in [0, 2] {
            let mut product = Product::new(65, num_threads);
            product.run();
            let n = product.n;
            for (row, column) in [(0, 0), (64, 64), (3, 60)] {
                let term = |k: usize| {
                    f64::from(product.a[row + k * n]) * f64::from(product.b[k + column * n])
                };
                let want: f64 = (0..n).map(term).sum();
                let got = f64::from(product.c[row + column * n]);
                assert!((got - want).abs() < 1e-4, "{got} {want}");
            }
            assert!(product.best_flops_per_second(2) > 0.0);
        }
    }
}
