//! Expectations of a whole file of cases, written by hand at its head.
//!
//! A rule is `ENGINE: CONDITION -> ANSWER`; the first one that fits a case and an engine answers
//! for them, and where no rule does, any answer will do. `ENGINE` is the short name of an engine
//! (`cpu`), a full name, or `*`. `ANSWER` is as in [`Case::answers`].
//!
//! | condition | cases |
//! |---|---|
//! | `else` | all; last in a list |
//! | `dropout`, `block_mask`, `bias`, `alibi`, `sink`, `soft_cap`, `band` | that have the modifier |
//! | `lse`, `max`, `sum_exp` | that ask for the output |
//! | `padded`, `packed`, `paged` | with a side stored so |
//! | `family NAME` | of that family of the peer's file: `fp16`, `fp8`, `mxfp8` |
//! | `dtype NAME` | with Q, K and V of that type |

use std::fmt;
use std::str::FromStr;

use frazil_core::{DType, EngineId, Feature};
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize};

use crate::case::{Case, SideCase};
use crate::run::short_name;

/// Rules in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Rules(Vec<Rule>);

/// What one engine answers to some cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    engine: String,
    condition: Condition,
    answer: String,
}

/// Family of the peer's configurations, by the types that its kernels compute in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// f16 and bf16.
    Fp16,
    /// 8-bit floats with a scale per tensor.
    Fp8,
    /// 8-bit floats with a scale per block.
    Mxfp8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Else,
    Word(Word),
    Family(Family),
    DType(DType),
}

macro_rules! words {
    ($($variant:ident => $name:literal, $holds:expr;)*) => {
        /// A condition of one word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Word {
            $($variant,)*
        }

        impl Word {
            const ALL: &[(Self, &'static str)] = &[$((Self::$variant, $name),)*];

            fn holds(self, case: &Case) -> bool {
                let holds: fn(&Case) -> bool = match self {
                    $(Self::$variant => $holds,)*
                };
                holds(case)
            }
        }
    };
}

words! {
    Dropout => "dropout", |case| case.dropout.is_some();
    BlockMask => "block_mask", |case| case.block_mask;
    Bias => "bias", |case| case.bias.is_some();
    Alibi => "alibi", |case| case.alibi.is_some();
    Sink => "sink", |case| case.sink.is_some();
    SoftCap => "soft_cap", |case| case.soft_cap.is_some();
    Band => "band", |case| case.band.is_some_and(|band| band.is_bounded());
    Lse => "lse", |case| case.lse.is_some();
    Max => "max", |case| case.max;
    SumExp => "sum_exp", |case| case.sum_exp;
    Padded => "padded", |case| either(case, |side| matches!(side, SideCase::Padded { .. }));
    Packed => "packed", |case| either(case, SideCase::is_packed);
    Paged => "paged", |case| either(case, |side| matches!(side, SideCase::Paged { .. }));
}

fn either(case: &Case, holds: impl Fn(&SideCase) -> bool) -> bool {
    holds(&case.q) || holds(&case.kv)
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule `{rule}`: {reason}")]
pub struct ParseRuleError {
    rule: String,
    reason: String,
}

impl Rules {
    /// The rules of these lines.
    ///
    /// # Errors
    ///
    /// The first line that is no rule, or that stands after an `else` for the same engines.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, ParseRuleError> {
        let mut rules: Vec<Rule> = Vec::new();
        for line in lines {
            let rule: Rule = line.parse()?;
            let closed = rules.iter().any(|earlier| {
                earlier.condition == Condition::Else
                    && (earlier.engine == "*" || earlier.engine == rule.engine)
            });
            if closed {
                let reason = "stands after an `else` for the same engine".into();
                return Err(ParseRuleError { rule: line.into(), reason });
            }
            rules.push(rule);
        }
        Ok(Self(rules))
    }

    /// What an engine is expected to answer to a case: `None` where no rule says.
    pub fn answer(&self, engine: &EngineId, family: Option<Family>, case: &Case) -> Option<&str> {
        let rule = self.0.iter().find(|rule| rule.speaks_of(engine) && rule.fits(family, case));
        rule.map(|rule| rule.answer.as_str())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Vec<String>> for Rules {
    type Error = ParseRuleError;

    fn try_from(lines: Vec<String>) -> Result<Self, Self::Error> {
        Self::parse(lines.iter().map(String::as_str))
    }
}

impl From<Rules> for Vec<String> {
    fn from(rules: Rules) -> Self {
        rules.0.iter().map(Rule::to_string).collect()
    }
}

impl Rule {
    fn speaks_of(&self, engine: &EngineId) -> bool {
        ["*", engine.as_str(), short_name(engine)].contains(&self.engine.as_str())
    }

    fn fits(&self, family: Option<Family>, case: &Case) -> bool {
        match self.condition {
            Condition::Else => true,
            Condition::Word(word) => word.holds(case),
            Condition::Family(of) => family == Some(of),
            Condition::DType(dtype) => case.dtype == dtype,
        }
    }
}

/// As it is written.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, condition, answer } = self;
        match condition {
            Condition::Else => write!(f, "{engine}: else -> {answer}"),
            Condition::Word(word) => {
                let name = Word::ALL.iter().find(|(known, _)| known == word).map_or("", |(_, n)| n);
                write!(f, "{engine}: {name} -> {answer}")
            }
            Condition::Family(family) => {
                let name = format!("{family:?}").to_lowercase();
                write!(f, "{engine}: family {name} -> {answer}")
            }
            Condition::DType(dtype) => write!(f, "{engine}: dtype {dtype} -> {answer}"),
        }
    }
}

impl FromStr for Rule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason: String| ParseRuleError { rule: text.into(), reason };
        let malformed = || refuse("expected `ENGINE: CONDITION -> ANSWER`".into());
        let (engine, rest) = text.split_once(':').ok_or_else(malformed)?;
        let (condition, answer) = rest.split_once("->").ok_or_else(malformed)?;
        let (engine, condition, answer) = (engine.trim(), condition.trim(), answer.trim());
        if engine.is_empty() || answer.is_empty() || engine.contains(' ') || answer.contains(' ') {
            return Err(malformed());
        }
        let condition = parse_condition(condition)
            .ok_or_else(|| refuse(format!("unknown condition `{condition}`")))?;
        if !is_answer(answer) {
            return Err(refuse(format!("unknown answer `{answer}`")));
        }
        Ok(Self { engine: engine.into(), condition, answer: answer.into() })
    }
}

fn parse_condition(text: &str) -> Option<Condition> {
    if text == "else" {
        return Some(Condition::Else);
    }
    if let Some(name) = text.strip_prefix("family ") {
        return named(name).map(Condition::Family);
    }
    if let Some(name) = text.strip_prefix("dtype ") {
        return named(name).map(Condition::DType);
    }
    let word = Word::ALL.iter().find(|(_, name)| *name == text);
    word.map(|&(word, _)| Condition::Word(word))
}

/// What a rule may expect: `served`, or a decline by its kind.
const ANSWERS: &[&str] = &[
    "served",
    "Operation",
    "Device",
    "ComputeCapability",
    "DType",
    "Dim",
    "Value",
    "Stride",
    "Alignment",
    "SharedMemory",
    "Toolchain",
    "Overrides",
    "WorkspaceLimit",
    "Foreign",
];

fn is_answer(text: &str) -> bool {
    let feature = text.strip_prefix("Feature(").and_then(|text| text.strip_suffix(')'));
    let names_a_feature = |name| Feature::ALL.iter().any(|feature| feature.name() == name);
    ANSWERS.contains(&text) || feature.is_some_and(names_a_feature)
}

/// A value by the name that serde gives it.
fn named<'a, T: Deserialize<'a>>(name: &'a str) -> Option<T> {
    let name: StrDeserializer<'a, serde::de::value::Error> = name.trim().into_deserializer();
    T::deserialize(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(text: &str) -> Case {
        let plain = "name = 'a'
            dtype = 'f16'
            batch = 1
            num_q_heads = 1
            num_kv_heads = 1
            head_dim_qk = 8
            seqlen_q = 2
            seqlen_kv = 2\n";
        toml::from_str(&format!("{plain}{text}")).unwrap()
    }

    const CPU: EngineId = EngineId::new("sdpa_fwd_cpu");

    #[test]
    fn the_first_rule_that_fits_answers() {
        let rules = Rules::parse([
            "sm80: else -> Device",
            "cpu: dropout -> Feature(dropout)",
            "*: family fp8 -> DType",
            "*: dtype bf16 -> DType",
            "cpu: packed -> Stride",
            "cpu: else -> served",
        ])
        .unwrap();
        let answer = |family, text| rules.answer(&CPU, family, &case(text));
        assert_eq!(answer(None, ""), Some("served"));
        assert_eq!(answer(Some(Family::Fp8), ""), Some("DType"));
        assert_eq!(answer(Some(Family::Fp8), "dropout = 0.1"), Some("Feature(dropout)"));
        assert_eq!(
            answer(Some(Family::Fp16), "kv = { form = 'packed_lengths', lengths = [2] }"),
            Some("Stride")
        );
        let sm80 = EngineId::new("sdpa_fwd_sm80");
        assert_eq!(rules.answer(&sm80, None, &case("dropout = 0.1")), Some("Device"));
        assert_eq!(rules.answer(&EngineId::new("zoo/sdpa_fwd_fox"), None, &case("")), None);
    }

    /// Each word holds for a case that has what it names, and for no plain case.
    #[test]
    fn every_word_reads_its_own_field() {
        let with = |word| match word {
            Word::Dropout => "dropout = 0.5",
            Word::BlockMask => "block_mask = true",
            Word::Bias => "bias = { dtype = 'f32' }",
            Word::Alibi => "alibi = 'per_head'",
            Word::Sink => "sink = 'as_inputs'",
            Word::SoftCap => "soft_cap = 2.0",
            Word::Band => "band = { align = 'top_left', right = 0 }",
            Word::Lse => "lse = 'natural'",
            Word::Max => "max = true",
            Word::SumExp => "sum_exp = true",
            Word::Padded => "q = { form = 'padded', lengths = [1] }",
            Word::Packed => "q = { form = 'packed_lengths', lengths = [1] }",
            Word::Paged => "kv = { form = 'paged', lengths = [1], page_size = 1 }",
        };
        for &(word, name) in Word::ALL {
            assert!(!word.holds(&case("")), "{name}");
            for &(other, _) in Word::ALL {
                assert_eq!(other.holds(&case(with(word))), word == other, "{name}");
            }
        }
        assert!(!Word::Band.holds(&case("band = { align = 'bottom_right' }")));
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        let lines =
            ["*: dropout -> Feature(dropout)", "cpu: family mxfp8 -> DType", "*: else -> served"];
        let rules = Rules::parse(lines).unwrap();
        assert_eq!(Vec::<String>::from(rules), lines);
    }

    #[test]
    fn a_line_that_is_no_rule_is_refused_by_what_is_wrong_with_it() {
        for (lines, reason) in [
            (&["cpu dropout -> served"][..], "expected"),
            (&["cpu: dropout"], "expected"),
            (&[": dropout -> served"], "expected"),
            (&["cpu: dropuot -> served"], "unknown condition `dropuot`"),
            (&["cpu: family fp4 -> DType"], "unknown condition"),
            (&["cpu: dtype f12 -> DType"], "unknown condition"),
            (&["cpu: dropout -> Feature(drop)"], "unknown answer"),
            (&["cpu: dropout -> maybe"], "unknown answer"),
            (&["*: else -> served", "cpu: dropout -> DType"], "after an `else`"),
        ] {
            let refusal = Rules::parse(lines.iter().copied()).unwrap_err();
            assert!(refusal.reason.contains(reason), "{refusal}");
        }
    }
}
