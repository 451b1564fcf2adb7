//! Inputs made of seeds by a few edits, and inputs of bytes alone.

use proptest::prelude::*;
use proptest::sample::Index;

/// What takes the place of a number.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "128",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967296",
    "18446744073709551615",
    "1e39",
    "0.5",
];

/// One change of a text.
#[derive(Clone, Debug)]
enum Edit {
    /// Another byte.
    Byte(Index, u8),
    /// A number becomes another one.
    Number(Index, Index),
    /// A word becomes another word of some seed.
    Word(Index, Index, Index),
    /// A stretch is left out.
    Cut(Index, u8),
    /// A stretch is there twice.
    Repeat(Index, u8),
    /// A line is replaced by one of another seed.
    Line(Index, Index, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<Index>;
    prop_oneof![
        2 => (index(), any::<u8>()).prop_map(|(at, byte)| Edit::Byte(at, byte)),
        6 => (index(), index()).prop_map(|(at, to)| Edit::Number(at, to)),
        4 => (index(), index(), index()).prop_map(|(at, seed, to)| Edit::Word(at, seed, to)),
        1 => (index(), 1..40_u8).prop_map(|(at, len)| Edit::Cut(at, len)),
        1 => (index(), 1..40_u8).prop_map(|(at, len)| Edit::Repeat(at, len)),
        3 => (index(), index(), index()).prop_map(|(at, seed, to)| Edit::Line(at, seed, to)),
    ]
}

/// Inputs for a target.
pub(crate) fn inputs(target: &str, seeds: Vec<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..500);
    let is_text = !["builder", "execute"].contains(&target);
    let header = match target {
        "safetensors" => Some(Header { length_at: 0, text_at: 8 }),
        "cache_entry" => Some(Header { length_at: 16, text_at: 32 }),
        _ => None,
    };
    let edited =
        (any::<Index>(), prop::collection::vec(edit(), 0..4)).prop_map(move |(at, edits)| {
            let seed = at.get(&seeds);
            match header {
                Some(header) => header.edit(seed, &edits, &seeds),
                None => apply(seed, &edits, &seeds),
            }
        });
    if is_text {
        prop_oneof![30 => edited, 1 => bytes()].boxed()
    } else {
        prop_oneof![1 => edited, 3 => bytes()].boxed()
    }
}

/// Where files of a kind have a header of text, and where its length stands.
#[derive(Clone, Copy, Debug)]
struct Header {
    length_at: usize,
    text_at: usize,
}

impl Header {
    /// The text, and what is behind it; `None` where the file is no such file.
    fn split<'a>(&self, file: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let length = file.get(self.length_at..)?.first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        file.get(self.text_at..)?.split_at_checked(length)
    }

    /// Edits the text, and keeps its length true.
    fn edit(&self, file: &[u8], edits: &[Edit], seeds: &[Vec<u8>]) -> Vec<u8> {
        let Some((text, data)) = self.split(file) else { return file.to_vec() };
        let texts = seeds.iter().filter_map(|seed| self.split(seed));
        let texts: Vec<_> = texts.map(|(text, _)| text.to_vec()).collect();
        let text = apply(text, edits, &texts);
        let length = (text.len() as u64).to_le_bytes();
        let (before, after) = (&file[..self.length_at], &file[self.length_at + 8..self.text_at]);
        [before, &length, after, &text, data].concat()
    }
}

fn apply(seed: &[u8], edits: &[Edit], seeds: &[Vec<u8>]) -> Vec<u8> {
    edits.iter().fold(seed.to_vec(), |text, edit| apply_one(text, edit, seeds))
}

fn apply_one(mut text: Vec<u8>, edit: &Edit, seeds: &[Vec<u8>]) -> Vec<u8> {
    let stretch = |at: &Index, len: u8, text: &[u8]| {
        let begin = at.index(text.len());
        begin..text.len().min(begin + usize::from(len))
    };
    if text.is_empty() {
        return text;
    }
    match edit {
        Edit::Byte(at, byte) => *at.get_mut(&mut text) = *byte,
        Edit::Cut(at, len) => drop(text.drain(stretch(at, *len, &text))),
        Edit::Repeat(at, len) => {
            let range = stretch(at, *len, &text);
            let copy = text[range.clone()].to_vec();
            text.splice(range.start..range.start, copy);
        }
        Edit::Number(at, to) => {
            let numbers =
                parts(&text, |byte| byte.is_ascii_digit() || byte == b'-' || byte == b'.');
            replace(&mut text, at, &numbers, to.get(&NUMBERS).as_bytes());
        }
        Edit::Word(at, seed, to) => {
            let is_word = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
            let other = seed.get(seeds);
            let words = parts(other, is_word);
            if !words.is_empty() {
                let word = other[to.get(&words).clone()].to_vec();
                let own = parts(&text, is_word);
                replace(&mut text, at, &own, &word);
            }
        }
        Edit::Line(at, seed, to) => {
            let is_in_line = |byte: u8| !b"\n,".contains(&byte);
            let other = seed.get(seeds);
            let lines = parts(other, is_in_line);
            if !lines.is_empty() {
                let line = other[to.get(&lines).clone()].to_vec();
                let own = parts(&text, is_in_line);
                replace(&mut text, at, &own, &line);
            }
        }
    }
    text
}

fn replace(text: &mut Vec<u8>, at: &Index, parts: &[std::ops::Range<usize>], by: &[u8]) {
    if !parts.is_empty() {
        text.splice(at.get(parts).clone(), by.iter().copied());
    }
}

/// The runs of bytes that are of a kind.
fn parts(text: &[u8], is_of: impl Fn(u8) -> bool) -> Vec<std::ops::Range<usize>> {
    let mut parts: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| is_of(**byte)) {
        match parts.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => parts.push(at..at + 1),
        }
    }
    parts
}
