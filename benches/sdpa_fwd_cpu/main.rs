//! Attention forward on the host: frazil's engine, candle's, and a matrix product as the yardstick.

fn main() {}
