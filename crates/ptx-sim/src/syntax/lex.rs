//! Text to tokens (PTX ISA 4.1 to 4.5).

use crate::error::LoadError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// A name, a directive or an opcode with its modifiers: `%tid.x`, `.reg`, `ld.global.v2.u32`.
    Word(&'a str),
    Number(&'a str),
    Text(&'a str),
    Punct(char),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: u32,
}

pub(super) fn lex(text: &str) -> Result<Vec<Token<'_>>, LoadError> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut tokens = Vec::with_capacity(text.len() / 4);
    loop {
        lexer.skip_blank()?;
        let line = lexer.line;
        let Some(first) = lexer.rest().chars().next() else { return Ok(tokens) };
        let kind = if first == '"' {
            lexer.quoted()?
        } else if first.is_ascii_digit() {
            Kind::Number(lexer.number())
        } else if starts_word(lexer.rest().as_bytes()) {
            Kind::Word(lexer.word())
        } else {
            lexer.at += first.len_utf8();
            Kind::Punct(first)
        };
        tokens.push(Token { kind, line });
    }
}

fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

/// A dot begins a word only before a name, so that a lone dot stays a mark.
fn starts_word(bytes: &[u8]) -> bool {
    match bytes {
        [b'.', next, ..] => in_word(*next),
        [first, ..] => in_word(*first),
        [] => false,
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blank(&mut self) -> Result<(), LoadError> {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let length = rest.find("*/").ok_or_else(|| self.unended("comment"))? + 2;
                self.advance(length);
            } else if rest.starts_with(|c: char| c.is_ascii_whitespace()) {
                self.advance(1);
            } else {
                return Ok(());
            }
        }
    }

    /// Moves on, counting lines.
    fn advance(&mut self, length: usize) {
        let passed = &self.text[self.at..self.at + length];
        let lines = passed.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.at += length;
    }

    fn unended(&self, what: &str) -> LoadError {
        LoadError::syntax(self.line, format!("a {what} has no end"))
    }

    fn quoted(&mut self) -> Result<Kind<'a>, LoadError> {
        let inside = &self.rest()[1..];
        let length = inside.find('"').ok_or_else(|| self.unended("text"))?;
        self.advance(length + 2);
        Ok(Kind::Text(&inside[..length]))
    }

    fn number(&mut self) -> &'a str {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let is_hexadecimal = rest.len() > 1 && bytes[1].is_ascii_alphabetic();
        let mut end = 0;
        while end < bytes.len() {
            let byte = bytes[end];
            let is_exponent_sign = !is_hexadecimal
                && matches!(byte, b'+' | b'-')
                && matches!(bytes[end - 1], b'e' | b'E');
            if !byte.is_ascii_alphanumeric() && byte != b'.' && !is_exponent_sign {
                break;
            }
            end += 1;
        }
        self.at += end;
        &rest[..end]
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        // Directives stand alone, also where no blank is between them: `.reg.b32`.
        let is_directive = bytes[0] == b'.';
        let mut end = 1;
        while end < bytes.len() {
            let tail = &bytes[end..];
            let continues = tail[0] == b'.' && !is_directive && starts_word(tail);
            if in_word(tail[0]) || continues {
                end += 1;
            } else if tail.starts_with(b"::") && tail.get(2).is_some_and(|byte| in_word(*byte)) {
                end += 2;
            } else {
                break;
            }
        }
        self.at += end;
        &rest[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        lex(text).unwrap().iter().map(|token| token.kind).collect()
    }

    #[test]
    fn words_keep_their_modifiers_and_labels_their_colon() {
        let expected = [
            Kind::Word("$L__BB0_1"),
            Kind::Punct(':'),
            Kind::Word("fence.proxy.async.shared::cta"),
            Kind::Punct(';'),
        ];
        assert_eq!(kinds("$L__BB0_1: fence.proxy.async.shared::cta;"), expected);
        assert_eq!(kinds(".reg.b32 a"), [".reg", ".b32", "a"].map(Kind::Word));
    }

    #[test]
    fn comments_and_lines_are_counted() {
        let tokens = lex("/* a\nb */ // c\n  x").unwrap();
        assert_eq!((tokens[0].kind, tokens[0].line), (Kind::Word("x"), 3));
    }

    #[test]
    fn what_has_no_end_is_an_error() {
        assert!(lex("\"abc").is_err());
        assert!(lex("/* abc").is_err());
    }
}
