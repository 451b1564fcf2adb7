//! Matrices of a warp. Fragments are made here from plain matrices by the formulae of the PTX ISA ("Matrix Fragments
//! for mma.m16n8k16" and the sections beside it), and products are computed from the plain matrices in f64.

use super::warp::run_warp;

/// An element of A, B, C or D that a lane holds: row and column, by lane and index.
type Place = fn(usize, usize) -> (usize, usize);

/// One form of `mma`.
struct Form {
    opcode: &'static str,
    k: usize,
    element: Element,
    accumulator: Element,
    /// Elements of A and of B in a lane, and where each stands.
    a: (usize, Place),
    b: (usize, Place),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Element {
    F16,
    BF16,
    TF32,
    F32,
}

/// `groupID` and `threadID_in_group`.
fn group(lane: usize) -> (usize, usize) {
    (lane >> 2, lane % 4)
}

/// "Matrix Fragments for mma.m16n8k16 with floating point type".
fn a_k16(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
    let column = thread * 2 + (i & 1);
    (row, if i < 4 { column } else { column + 8 })
}

fn b_k16(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    let row = thread * 2 + (i & 1);
    (if i < 2 { row } else { row + 8 }, group)
}

/// "Matrix Fragments for mma.m16n8k8", f16 and bf16.
fn a_k8(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

fn b_k8(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    (thread * 2 + i, group)
}

/// "Matrix Fragments for mma.m16n8k4", tf32.
fn a_tf32_k4(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    (if i == 0 { group } else { group + 8 }, thread)
}

/// Of tf32 in `m16n8k4` and `m16n8k8`.
fn b_tf32(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    (if i == 0 { thread } else { thread + 4 }, group)
}

/// "Matrix Fragments for mma.m16n8k8", tf32.
fn a_tf32_k8(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    let row = if i == 0 || i == 2 { group } else { group + 8 };
    (row, if i < 2 { thread } else { thread + 4 })
}

/// C and D of all these forms.
fn c_place(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = group(lane);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

const FORMS: [Form; 7] = [
    Form {
        opcode: "m16n8k16.row.col.f32.f16.f16.f32",
        k: 16,
        element: Element::F16,
        accumulator: Element::F32,
        a: (8, a_k16),
        b: (4, b_k16),
    },
    Form {
        opcode: "m16n8k16.row.col.f32.bf16.bf16.f32",
        k: 16,
        element: Element::BF16,
        accumulator: Element::F32,
        a: (8, a_k16),
        b: (4, b_k16),
    },
    Form {
        opcode: "m16n8k16.row.col.f16.f16.f16.f16",
        k: 16,
        element: Element::F16,
        accumulator: Element::F16,
        a: (8, a_k16),
        b: (4, b_k16),
    },
    Form {
        opcode: "m16n8k8.row.col.f32.f16.f16.f32",
        k: 8,
        element: Element::F16,
        accumulator: Element::F32,
        a: (4, a_k8),
        b: (2, b_k8),
    },
    Form {
        opcode: "m16n8k8.row.col.f32.bf16.bf16.f32",
        k: 8,
        element: Element::BF16,
        accumulator: Element::F32,
        a: (4, a_k8),
        b: (2, b_k8),
    },
    Form {
        opcode: "m16n8k8.row.col.f32.tf32.tf32.f32",
        k: 8,
        element: Element::TF32,
        accumulator: Element::F32,
        a: (4, a_tf32_k8),
        b: (2, b_tf32),
    },
    Form {
        opcode: "m16n8k4.row.col.f32.tf32.tf32.f32",
        k: 4,
        element: Element::TF32,
        accumulator: Element::F32,
        a: (2, a_tf32_k4),
        b: (1, b_tf32),
    },
];

impl Element {
    /// What the bits stand for, by the definition of the formats.
    fn value(self, bits: u32) -> f64 {
        let (exponent_bits, fraction_bits) = match self {
            Self::F16 => (5, 10),
            Self::BF16 => (8, 7),
            Self::TF32 | Self::F32 => return f32::from_bits(bits).into(),
        };
        let sign = if bits >> (exponent_bits + fraction_bits) & 1 == 1 { -1.0 } else { 1.0 };
        let exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
        let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
        let bias = (1 << (exponent_bits - 1)) - 1;
        let scale = 2.0_f64.powi(exponent.max(1) as i32 - bias);
        sign * scale * if exponent == 0 { fraction } else { 1.0 + fraction }
    }

    /// Bits of a number between -2 and 2 with as many bits of fraction as the format has, from random bits.
    fn draw(self, random: u64) -> u32 {
        let bits = (random >> 32) as u32;
        match self {
            // Exponents of 2^-3 to 1, and now and then a subnormal number.
            Self::F16 if random.is_multiple_of(17) => bits & 0x83ff,
            Self::F16 => (bits & 0x83ff) | (12 + bits % 4) << 10,
            Self::BF16 => (bits & 0x807f) | (124 + bits % 4) << 7,
            Self::TF32 => (bits & 0x807f_e000) | (124 + bits % 4) << 23,
            Self::F32 => (bits & 0x807f_ffff) | (124 + bits % 4) << 23,
        }
    }

    /// Bits of a small multiple of a half.
    fn of_halves(self, halves: i64) -> u32 {
        let bits = (halves as f32 / 2.0).to_bits();
        match self {
            Self::F16 if halves == 0 => 0,
            // Bias 15 for bias 127, 10 bits of fraction for 23.
            Self::F16 => {
                (bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff)
            }
            Self::BF16 => bits >> 16,
            Self::TF32 | Self::F32 => bits,
        }
    }

    fn packed(self) -> usize {
        if matches!(self, Self::F16 | Self::BF16) { 2 } else { 1 }
    }
}

/// Numbers that look random and are always the same.
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 8
    }
}

type Matrix = Vec<Vec<u32>>;

fn matrix(rows: usize, columns: usize, mut draw: impl FnMut() -> u32) -> Matrix {
    (0..rows).map(|_| (0..columns).map(|_| draw()).collect()).collect()
}

/// The registers of a lane that hold these elements.
fn fragment(
    of: &Matrix,
    element: Element,
    lane: usize,
    (count, place): (usize, Place),
) -> Vec<u32> {
    let elements: Vec<_> = (0..count)
        .map(|i| {
            let (row, column) = place(lane, i);
            of[row][column]
        })
        .collect();
    let pack = |part: &[u32]| part.iter().rev().fold(0, |word, bits| word << 16 | bits);
    if element.packed() == 2 { elements.chunks(2).map(pack).collect() } else { elements }
}

/// Bits of D, by row and column.
fn multiply(form: &Form, a: &Matrix, b: &Matrix, c: &Matrix) -> Matrix {
    let inputs: Vec<Vec<u32>> = (0..32)
        .map(|lane| {
            let mut registers = fragment(a, form.element, lane, form.a);
            registers.extend(fragment(b, form.element, lane, form.b));
            registers.extend(fragment(c, form.accumulator, lane, (4, c_place)));
            registers
        })
        .collect();
    let per_register = form.element.packed();
    let [num_a, num_b] = [form.a.0, form.b.0].map(|count| count / per_register);
    let num_d = 4 / form.accumulator.packed();
    let mut next = 0;
    let mut list = |count: usize| {
        let names = (next..next + count).map(|i| format!("%i{i}")).collect::<Vec<_>>().join(", ");
        next += count;
        format!("{{{names}}}")
    };
    let [a, b, c] = [list(num_a), list(num_b), list(num_d)];
    let d = (0..num_d).map(|o| format!("%o{o}")).collect::<Vec<_>>().join(", ");
    let text = format!("mma.sync.aligned.{} {{{d}}}, {a}, {b}, {c};", form.opcode);
    let lanes = run_warp(&text, &inputs, num_d);
    let mut out = vec![vec![0; 8]; 16];
    for (lane, registers) in lanes.iter().enumerate() {
        for i in 0..4 {
            let (row, column) = c_place(lane, i);
            out[row][column] = match form.accumulator.packed() {
                2 => registers[i / 2] >> (16 * (i % 2)) & 0xffff,
                _ => registers[i],
            };
        }
    }
    out
}

/// The sum of products, and the sum of their magnitudes.
fn exact(form: &Form, [a, b, c]: [&Matrix; 3], row: usize, column: usize) -> (f64, f64) {
    let c = form.accumulator.value(c[row][column]);
    (0..form.k).fold((c, c.abs()), |(sum, magnitude), k| {
        let product = form.element.value(a[row][k]) * form.element.value(b[k][column]);
        (sum + product, magnitude + product.abs())
    })
}

/// Sums of small multiples of a quarter are exact in every format, whatever the order.
#[test]
fn products_of_small_numbers_are_exact_in_every_form() {
    for form in &FORMS {
        let mut next = random(form.k as u64);
        let mut small = || (next() % 9) as i64 - 4;
        let a = matrix(16, form.k, || form.element.of_halves(small()));
        let b = matrix(form.k, 8, || form.element.of_halves(small()));
        let c = matrix(16, 8, || form.accumulator.of_halves(2 * small()));
        let mut with_junk = (a.clone(), b.clone());
        if form.element == Element::TF32 {
            // The lower 13 bits of an f32 are not looked at.
            for bits in with_junk.0.iter_mut().chain(&mut with_junk.1).flatten() {
                *bits |= 0x1fff;
            }
        }
        let d = multiply(form, &with_junk.0, &with_junk.1, &c);
        for (row, of_row) in d.iter().enumerate() {
            for (column, bits) in of_row.iter().enumerate() {
                let (expected, _) = exact(form, [&a, &b, &c], row, column);
                let got = form.accumulator.value(*bits);
                assert_eq!(got, expected, "{} at {row}, {column}", form.opcode);
            }
        }
    }
}

#[test]
fn products_of_any_numbers_are_within_the_rounding_of_their_sums() {
    for form in &FORMS {
        let mut next = random(77 + form.k as u64);
        let a = matrix(16, form.k, || form.element.draw(next()));
        let b = matrix(form.k, 8, || form.element.draw(next()));
        let c = matrix(16, 8, || form.accumulator.draw(next()));
        let d = multiply(form, &a, &b, &c);
        let mut inexact = 0;
        for (row, of_row) in d.iter().enumerate() {
            for (column, bits) in of_row.iter().enumerate() {
                let (expected, magnitude) = exact(form, [&a, &b, &c], row, column);
                let error = (form.accumulator.value(*bits) - expected).abs();
                // One rounding of at most half a unit for each product, and one to f16.
                let mut bound = form.k as f64 * magnitude / f64::from(1 << 24);
                if form.accumulator == Element::F16 {
                    bound += expected.abs() / f64::from(1 << 11);
                }
                assert!(error <= bound, "{} at {row}, {column}: {error:e}", form.opcode);
                inexact += usize::from(error > 0.0);
            }
        }
        assert!(inexact > 0, "{}: nothing was rounded", form.opcode);
    }
}

/// The order that the simulator takes: 2^24 + 1 rounds to 2^24 each time, where the sum of the products would not.
#[test]
fn products_are_added_one_by_one_to_c() {
    let form = &FORMS[0];
    let ones = |rows, columns| matrix(rows, columns, || 0x3c00);
    let c = matrix(16, 8, || 16_777_216.0_f32.to_bits());
    let d = multiply(form, &ones(16, 16), &ones(16, 8), &c);
    assert_eq!(d, c);
}

#[test]
fn what_is_no_number_is_the_one_of_gpus() {
    // Infinity minus infinity in row 3: A is infinite at two places, and B has both signs.
    let mut a = matrix(16, 16, || 0);
    let mut b = matrix(16, 8, || 0);
    (a[3][2], a[3][5]) = (0x7c00, 0x7c00);
    (b[2][4], b[5][4]) = (0x3c00, 0xbc00);
    let d = multiply(&FORMS[0], &a, &b, &matrix(16, 8, || 0));
    assert_eq!((d[3][4], d[2][4]), (0x7fff_ffff, 0));
    // The rest of the row is infinity times zero.
    assert_eq!(d[3][0], 0x7fff_ffff);
}

/// Each lane writes 16 bytes of a row whose address no order of lanes gives, and addresses another lane's row.
const SCATTER: &str = "
    mad.lo.u32 %s0, %lane, 13, 5; and.b32 %s0, %s0, 31; mov.u32 %s2, s; mad.lo.u32 %s1, %s0, 48, %s2;
    st.shared.v4.b32 [%s1], {%i0, %i1, %i2, %i3};
    bar.warp.sync -1;
    mad.lo.u32 %s0, %lane, 7, 11; and.b32 %s0, %s0, 31; mad.lo.u32 %s1, %s0, 48, %s2;";

/// The lane whose bytes lie in the row that a lane addresses.
fn writer(lane: usize) -> usize {
    let row = (lane * 7 + 11) % 32;
    (0..32).find(|writer| (writer * 13 + 5) % 32 == row).unwrap()
}

/// Elements of 16 bits that are all different: lane and index.
fn rows() -> Vec<Vec<u32>> {
    let element = |lane: u32, index: u32| lane << 8 | index;
    let word = |lane: u32, word: u32| element(lane, 2 * word) | element(lane, 2 * word + 1) << 16;
    (0..32).map(|lane| (0..4).map(|i| word(lane, i)).collect()).collect()
}

/// Element of matrix `matrix` at a row and column: lanes address the rows, eight for each matrix.
fn element(matrix: usize, row: usize, column: usize) -> u32 {
    (writer(8 * matrix + row) as u32) << 8 | column as u32
}

#[test]
fn rows_of_matrices_are_loaded_where_their_addresses_say() {
    for (number, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for transposed in [false, true] {
            for (space, address) in [(".shared", "%s1"), (".shared::cta", "%s1"), ("", "%at")] {
                let trans = if transposed { ".trans" } else { "" };
                let list = (0..count).map(|o| format!("%o{o}")).collect::<Vec<_>>().join(", ");
                let text = format!(
                    "{SCATTER} cvt.u64.u32 %at, %s1; cvta.shared.u64 %at, %at;
                     ldmatrix.sync.aligned.m8n8.{number}{trans}{space}.b16 {{{list}}}, [{address}];"
                );
                for (lane, registers) in run_warp(&text, &rows(), count).iter().enumerate() {
                    for (matrix, register) in registers.iter().enumerate() {
                        // "Each thread holds a fragment of a row": four lanes for each, two elements in each.
                        let (row, column) = (lane / 4, 2 * (lane % 4));
                        let at = |column| match transposed {
                            false => element(matrix, row, column),
                            true => element(matrix, column, row),
                        };
                        let expected = at(column) | at(column + 1) << 16;
                        assert_eq!(*register, expected, "{text}: lane {lane}, matrix {matrix}");
                    }
                }
            }
        }
    }
}

/// A matrix that is stored and then loaded by its rows' addresses: lane `l` reads the row that it addresses.
#[test]
fn rows_of_matrices_are_stored_where_their_addresses_say() {
    for (number, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for transposed in [false, true] {
            let trans = if transposed { ".trans" } else { "" };
            let list = (0..count).map(|i| format!("%i{i}")).collect::<Vec<_>>().join(", ");
            let text = format!(
                "{SCATTER} bar.warp.sync -1;
                 stmatrix.sync.aligned.m8n8.{number}{trans}.shared.b16 [%s1], {{{list}}};
                 bar.warp.sync -1; ld.shared.v4.b32 {{%o0, %o1, %o2, %o3}}, [%s1];"
            );
            let held = rows();
            for (lane, words) in run_warp(&text, &held, 4).iter().enumerate() {
                let (matrix, row) = (lane / 8, lane % 8);
                for column in 0..8 {
                    let got = words[column / 2] >> (16 * (column % 2)) & 0xffff;
                    let expected = if matrix >= count {
                        element(matrix, row, column)
                    } else {
                        let (row, column) = if transposed { (column, row) } else { (row, column) };
                        held[4 * row + column / 2][matrix] >> (16 * (column % 2)) & 0xffff
                    };
                    assert_eq!(got, expected, "{text}: lane {lane}, column {column}");
                }
            }
        }
    }
}

#[test]
fn a_matrix_is_transposed_across_the_lanes() {
    let held = rows();
    let text = "movmatrix.sync.aligned.m8n8.trans.b16 %o0, %i1;";
    let at =
        |row: usize, column: usize| held[4 * row + column / 2][1] >> (16 * (column % 2)) & 0xffff;
    for (lane, registers) in run_warp(text, &held, 1).iter().enumerate() {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        let expected = at(column, row) | at(column + 1, row) << 16;
        assert_eq!(registers[0], expected, "lane {lane}");
    }
}
