//! Text to syntax tree. Nothing here knows what an instruction means.

pub(crate) mod ast;
mod body;
mod lex;
mod module;
mod number;
mod operand;
mod parser;

pub(crate) use module::parse;
