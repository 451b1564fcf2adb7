//! Files and device functions that have grown too long to be read in one go.

use std::fs;

use crate::{Failure, root, say, tracked};

/// Most lines of a file, tests included, by how its name ends.
const MAX_LINES: [(&str, usize); 3] = [(".rs", 500), (".cu", 600), (".cuh", 400)];

/// Most lines of a function in CUDA; in Rust clippy counts them.
const MAX_DEVICE_FUNCTION: usize = 150;

pub(crate) fn sizes() -> Result<(), Failure> {
    let mut long = Vec::new();
    let mut num_files = 0;
    for name in tracked(&["*.rs", "*.cu", "*.cuh"])? {
        // A file deleted but still tracked has no size.
        let Ok(text) = fs::read_to_string(root().join(&name)) else { continue };
        num_files += 1;
        long.extend(too_long(&name, &text));
    }
    if long.is_empty() {
        return say(&format!("sizes: {num_files} files, none too long"));
    }
    Err(long.join("\n"))
}

/// What of a file is too long.
fn too_long(name: &str, text: &str) -> Vec<String> {
    let Some((ending, most)) = MAX_LINES.iter().find(|(ending, _)| name.ends_with(ending)) else {
        return Vec::new();
    };
    let lines = text.lines().count();
    let file = (lines > *most).then(|| format!("{name}: {lines} lines, the limit is {most}"));
    let functions = if *ending == ".rs" { Vec::new() } else { device_functions(text) };
    let functions = functions.into_iter().filter(|(_, lines)| *lines > MAX_DEVICE_FUNCTION);
    let functions = functions.map(|(first, lines)| {
        format!("{name}:{first}: a function of {lines} lines, the limit is {MAX_DEVICE_FUNCTION}")
    });
    file.into_iter().chain(functions).collect()
}

/// First line and length in lines, braces included, of each outermost block that is no namespace
/// and no type: the functions.
fn device_functions(text: &str) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    // For each open brace whether it is of a function, and its line.
    let mut open: Vec<(bool, usize)> = Vec::new();
    // What stands between the last brace or semicolon and here.
    let mut before = String::new();
    for (at, line) in text.lines().enumerate() {
        for character in line.split("//").next().unwrap_or_default().chars() {
            match character {
                '{' => {
                    let within = open.iter().any(|(is_function, _)| *is_function);
                    open.push((!within && before.contains('('), at));
                    before.clear();
                }
                '}' => {
                    if let Some((true, first)) = open.pop() {
                        functions.push((first + 1, at - first + 1));
                    }
                    before.clear();
                }
                ';' => before.clear(),
                other => before.push(other),
            }
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_has_its_limit() {
        for (name, most) in [("a/b.rs", 500), ("k.cu", 600), ("k.cuh", 400)] {
            assert!(too_long(name, &"\n".repeat(most)).is_empty(), "{name}");
            assert_eq!(too_long(name, &"\n".repeat(most + 1)).len(), 1, "{name}");
        }
        assert!(too_long("README.md", &"\n".repeat(9999)).is_empty());
    }

    #[test]
    fn device_functions_are_measured() {
        let text = "\
namespace frazil {
// A brace { in a comment.
struct State {
    float max[2] = {0.f, 0.f};
    __device__ float sum(int i) const {
        return i ? 1.f : 0.f;
    }
};

template <int kN>
__device__ void step(float (&scores)[kN],
                     State& state) {
    for (int n = 0; n < kN; ++n) {
        if (n) { state.max[0] = scores[n]; }
    }
}

extern \"C\" __global__ void frazil_step() {}
}  // namespace frazil
";
        assert_eq!(device_functions(text), [(5, 3), (12, 5), (18, 1)]);
        let long = format!("__device__ void f() {{\n{}}}\n", "    g();\n".repeat(149));
        let found = too_long("k.cu", &long);
        assert_eq!(found, ["k.cu:1: a function of 151 lines, the limit is 150"]);
    }
}
