//! What runs a file again that went wrong. A file is not written into a line: the line names it, and
//! its checksum tells whether another machine has the same one.

use std::fmt;
use std::path::Path;

use crate::args::{self, Corner, FloatType, Scores, Window};
use crate::files;

/// A line for a shell, and the file that it is about.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    pub(super) line: String,
    /// As the program `cksum` of POSIX prints it: checksum and bytes. `None` where the file can no
    /// longer be read.
    pub(super) cksum: Option<String>,
}

impl Repeat {
    /// `engine`: the one that answered, where one did.
    pub(super) fn new(args: &args::Run, path: &Path, engine: Option<&str>) -> Self {
        let mut line = "frazil run".to_owned();
        let mut add = |text: String| {
            line.push(' ');
            line.push_str(&text);
        };
        if let Some(engine) = engine.or(args.engine.as_deref()) {
            add(format!("--engine {engine}"));
        }
        if let Some(dtype) = args.dtype {
            let name = match dtype {
                FloatType::F16 => "f16",
                FloatType::Bf16 => "bf16",
                FloatType::F32 => "f32",
            };
            add(format!("--dtype {name}"));
        }
        let Scores { causal, window, align, soft_cap, scale } = args.scores;
        if causal {
            add("--causal".to_owned());
        }
        if let Some(Window { left, right }) = window {
            let side = |side: Option<u32>| side.map_or("-1".to_owned(), |side| side.to_string());
            add(format!("--window={},{}", side(left), side(right)));
        }
        match align {
            Some(Corner::TopLeft) => add("--align top-left".to_owned()),
            Some(Corner::BottomRight) => add("--align bottom-right".to_owned()),
            None => {}
        }
        let numbers = [("soft-cap", soft_cap), ("scale", scale)];
        for (name, number) in numbers.into_iter().filter_map(|(name, n)| Some((name, n?))) {
            add(format!("--{name}={number}"));
        }
        add(quoted(path));
        let bytes = files::read(path).ok();
        let cksum = bytes.map(|bytes| format!("{} {}", cksum(&bytes), bytes.len()));
        Self { line, cksum }
    }
}

/// The line, and under it what the file must be.
impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)?;
        let Some(cksum) = &self.cksum else { return Ok(()) };
        write!(f, "\n             with the file of which `cksum` says {cksum}")
    }
}

/// A path for a shell; what of it is not UTF-8 is replaced.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if text.starts_with('-') {
        return quoted(&Path::new(".").join(path));
    }
    if text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The checksum of POSIX, "cksum": CRC-32 of the bytes and of their number, highest bit first.
fn cksum(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x04c1_1db7;
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0_u32;
        while byte < 256 {
            let (mut crc, mut bit) = (byte << 24, 0);
            while bit < 8 {
                crc = if crc >> 31 == 1 { crc << 1 ^ POLYNOMIAL } else { crc << 1 };
                bit += 1;
            }
            table[byte as usize] = crc;
            byte += 1;
        }
        table
    };
    // The number of bytes has no zeros at its upper end.
    let length = (bytes.len() as u64).to_le_bytes();
    let num_used = 8 - length.iter().rev().take_while(|&&byte| byte == 0).count();
    let all = bytes.iter().chain(&length[..num_used]);
    let step = |crc: u32, &byte: &u8| crc << 8 ^ TABLE[usize::from((crc >> 24) as u8 ^ byte)];
    !all.fold(0, step)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn checksums_are_those_of_posix() {
        // As the program prints them.
        let long: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        for (bytes, sum) in
            [(&b""[..], 4_294_967_295), (b"123456789", 930_766_865), (&long, 4_026_004_798)]
        {
            assert_eq!(cksum(bytes), sum);
        }
    }

    /// The line reads back as the arguments it was made of.
    #[test]
    fn a_line_says_every_argument_that_changes_an_answer() {
        for (given, line) in [
            ("run a.safetensors", "run --engine sdpa_fwd_cpu a.safetensors"),
            (
                "run --dtype bf16 --causal --align top-left a --repeat 9 --json",
                "run --engine sdpa_fwd_cpu --dtype bf16 --causal --align top-left a",
            ),
            (
                "run --window 8 --soft-cap 0.1 --scale=-1e-30 ./-a --output b",
                "run --engine sdpa_fwd_cpu --window=7,0 --soft-cap=0.1 \
                 --scale=-0.000000000000000000000000000001 ./-a",
            ),
            (
                "run --window=-1,3 --align bottom-right a",
                "run --engine sdpa_fwd_cpu --window=-1,3 --align bottom-right a",
            ),
        ] {
            let parse = |line: &str| {
                let words = ["frazil"].into_iter().chain(line.split(' '));
                match Cli::try_parse_from(words).unwrap().command {
                    Command::Run(run) => run,
                    other => panic!("{other:?}"),
                }
            };
            let args = parse(given);
            let repeat = Repeat::new(&args, &args.files[0], Some("sdpa_fwd_cpu"));
            assert_eq!(repeat.line, format!("frazil {line}"));
            assert_eq!(repeat.cksum, None, "there is no such file");
            let again = parse(line);
            let scores = |run: &args::Run| format!("{:?} {:?}", run.scores, run.dtype);
            assert_eq!(scores(&again), scores(&args));
        }
    }

    #[test]
    fn paths_are_quoted() {
        for (path, expected) in [
            ("a/b-c_1.safetensors", "a/b-c_1.safetensors"),
            ("-a", "./-a"),
            ("a b", "'a b'"),
            ("it's $(x)", r"'it'\''s $(x)'"),
            ("é", "'é'"),
            ("~a", "'~a'"),
        ] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
