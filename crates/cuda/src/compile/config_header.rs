//! The header that a config becomes.

use std::fmt::Write;

use frazil_core::Config;

/// `namespace frazil { struct Config { static constexpr int kBlockM = 128; }; }` for `block_m=128`.
///
/// Values outside 32 bits are `long long`. Written by the host for every config, so that sizes which
/// both sides compute (`smem_bytes`, `params_bytes`) are compared by the compiler.
pub(super) fn config_header(config: &Config) -> String {
    let mut text = String::from("#pragma once\nnamespace frazil {\nstruct Config {\n");
    for (name, value) in config.iter() {
        let constant = constant(name);
        // Writing to a string does not fail.
        let _ = match i32::try_from(value) {
            // A literal has no sign: `-2147483648` would be the negation of a `long long`.
            Ok(i32::MIN) => {
                writeln!(text, "    static constexpr int {constant} = -2147483647 - 1;")
            }
            Ok(value) => writeln!(text, "    static constexpr int {constant} = {value};"),
            Err(_) if value == i64::MIN => {
                writeln!(
                    text,
                    "    static constexpr long long {constant} = -9223372036854775807LL - 1;"
                )
            }
            Err(_) => writeln!(text, "    static constexpr long long {constant} = {value}LL;"),
        };
    }
    text.push_str("};\n}  // namespace frazil\n");
    text
}

/// `kBlockM` for `block_m`.
fn constant(name: &str) -> String {
    let mut constant = String::from("k");
    for word in name.split('_') {
        let mut letters = word.chars();
        constant.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        constant.push_str(letters.as_str());
    }
    constant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_constants() {
        let config = Config::new([
            ("block_m", 128),
            ("num_stages", -2),
            ("head_dim_qk", 2_147_483_647),
            ("bytes", 2_147_483_648),
        ]);
        let expected = "\
#pragma once
namespace frazil {
struct Config {
    static constexpr int kBlockM = 128;
    static constexpr int kNumStages = -2;
    static constexpr int kHeadDimQk = 2147483647;
    static constexpr long long kBytes = 2147483648LL;
};
}  // namespace frazil
";
        assert_eq!(config_header(&config), expected);
    }
}
