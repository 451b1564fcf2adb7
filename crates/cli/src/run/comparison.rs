//! Elements of an answer against what they should be.

use frazil::DType;
use serde::Serialize;

use crate::input::Tensor;

/// Status of what nothing was compared in.
pub(super) const NOT_COMPARED: &str = "not compared";

/// One output against one source of truth.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Comparison {
    /// `o` or `lse`.
    pub(super) tensor: &'static str,
    /// `reference` or the name of the expected tensor.
    pub(super) against: &'static str,
    /// `right`, `wrong`, `off` (missed, and does not count) or `not compared`.
    pub(super) status: &'static str,
    /// Whether a miss counts. Expected tensors answer the inputs as stored, not as converted.
    pub(super) held: bool,
    /// Absolute error of the element that is worst relative to its tolerance; NaN where none was
    /// compared, as is the tolerance.
    pub(super) max_err: f64,
    /// Tolerance of that element.
    pub(super) tol: f64,
    /// Elements that are not a number.
    pub(super) num_nan: usize,
    /// Elements outside their tolerance.
    pub(super) num_bad: usize,
    /// Elements that were compared.
    pub(super) num_compared: usize,
    /// Elements that NaN or infinity in the input reached, which are not judged.
    pub(super) num_excused: usize,
    /// The first element outside.
    pub(super) first_bad: Option<Vec<usize>>,
    /// Why nothing was compared, where that is for what was asked.
    pub(super) reason: Option<String>,
    #[serde(skip)]
    used: f64,
    #[serde(skip)]
    pub(super) first_bad_element: Option<usize>,
}

impl Comparison {
    /// Says what came of it, once all elements are seen.
    pub(super) fn conclude(&mut self, shape: &[usize]) {
        self.first_bad = self.first_bad_element.map(|at| index(at, shape));
        // An output without elements is right; one of which no element could be judged is not.
        let unjudged = self.reason.is_some() || self.num_compared == 0 && self.num_excused != 0;
        self.status = match (unjudged, self.num_bad, self.held) {
            (true, ..) => NOT_COMPARED,
            (false, 0, _) => "right",
            (false, _, true) => "wrong",
            (false, _, false) => "off",
        };
        if unjudged {
            (self.max_err, self.tol) = (f64::NAN, f64::NAN);
        }
    }

    pub(super) fn excuse(&mut self, got: f32) {
        self.num_nan += usize::from(got.is_nan());
        self.num_excused += 1;
    }

    fn see(&mut self, element: usize, got: f32, want: f64, tol: f64) {
        let got = f64::from(got);
        self.num_compared += 1;
        self.num_nan += usize::from(got.is_nan());
        // Infinities of one sign are equal; their difference is NaN.
        let err = if got == want { 0.0 } else { (got - want).abs() };
        // A tolerance of 0 allows an error of 0; NaN is never allowed.
        let used = if err == 0.0 { 0.0 } else { err / tol };
        let bad = used.is_nan() || used > 1.0;
        self.num_bad += usize::from(bad);
        if bad && self.first_bad_element.is_none_or(|first| element < first) {
            self.first_bad_element = Some(element);
        }
        let used = if used.is_nan() { f64::INFINITY } else { used };
        if used > self.used || self.tol == 0.0 {
            (self.used, self.max_err, self.tol) = (used, err, tol);
        }
    }

    fn merge(mut self, other: &Self) -> Self {
        self.num_nan += other.num_nan;
        self.num_bad += other.num_bad;
        self.num_compared += other.num_compared;
        self.num_excused += other.num_excused;
        self.first_bad_element =
            [self.first_bad_element, other.first_bad_element].into_iter().flatten().min();
        if other.used > self.used || self.tol == 0.0 {
            (self.used, self.max_err, self.tol) = (other.used, other.max_err, other.tol);
        }
        self
    }
}

/// A tensor of the file that says what the answer is.
pub(super) struct Expected {
    values: Vec<f32>,
    /// Half a unit in the last place, relative: the file's own rounding.
    rounding: f64,
    /// Half the distance of subnormal numbers, which are rounded by an absolute amount.
    floor: f64,
}

impl Expected {
    pub(super) fn of(tensor: &Tensor) -> Self {
        // Of numbers just above a power of two, where it is most: bf16 keeps 8 bits, f16 11, f32 24.
        let (rounding, floor) = match tensor.dtype {
            DType::F16 => (-11, -25),
            DType::Bf16 => (-8, -134),
            _ => (-24, -150),
        };
        let (rounding, floor) = (2_f64.powi(rounding), 2_f64.powi(floor));
        Self { values: tensor.values(), rounding, floor }
    }

    fn at(&self, element: usize) -> (f64, f64) {
        let value = f64::from(self.values[element]);
        // Not 0 around a value of 0, to which small numbers are rounded too.
        let rounding = (self.rounding * value.abs()).max(self.floor);
        (value, if value.is_finite() { rounding } else { 0.0 })
    }
}

/// One output against the reference and against the file.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) reference: Comparison,
    pub(super) expected: Comparison,
}

impl Pair {
    pub(super) fn new(tensor: &'static str, expected: &'static str, held: bool) -> Self {
        let new = |against, held| Comparison { tensor, against, held, ..Comparison::default() };
        Self { reference: new("reference", true), expected: new(expected, held) }
    }

    pub(super) fn see(
        &mut self,
        element: usize,
        got: f32,
        (want, tol): (f64, f64),
        expected: Option<&Expected>,
    ) {
        self.reference.see(element, got, want, tol);
        if let Some(expected) = expected {
            let (want, rounding) = expected.at(element);
            self.expected.see(element, got, want, tol + rounding);
        }
    }

    pub(super) fn excuse(&mut self, got: f32) {
        self.reference.excuse(got);
        self.expected.excuse(got);
    }

    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            reference: self.reference.merge(&other.reference),
            expected: self.expected.merge(&other.expected),
        }
    }
}

/// Position of an element of a contiguous tensor.
fn index(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let at = element % extent;
            element /= extent;
            at
        })
        .collect();
    index.reverse();
    index
}
