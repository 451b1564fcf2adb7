//! Where the sequences of one side lie.

use safetensors::{Dtype, SafeTensors};

/// How the rows of Q and O, or of K and V, are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// `[B, H, S, D]`.
    Dense,
    /// `[B, H, S, D]` and lengths.
    Padded(Vec<i32>),
    /// `[T, H, D]` and lengths.
    Lengths(Vec<i32>),
    /// `[T, H, D]` and running sums.
    Prefix(Vec<i32>),
}

/// One side: its rows and the live part of each sequence.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) rows: Rows,
    /// Sequences.
    pub(crate) batch: usize,
    /// Rows of the extents: per sequence where there is a batch axis, else in all.
    pub(crate) extent: usize,
    /// First row, 0 where there is a batch axis, and live rows of each sequence; empty for dense
    /// rows, whose batch a header of a few bytes can make huge.
    sequences: Vec<(usize, usize)>,
}

impl Side {
    /// Reads and checks the lengths of the side `name` (`q` or `kv`) whose first tensor has this
    /// shape.
    pub(super) fn read(
        file: &SafeTensors<'_>,
        name: &str,
        tensor: &str,
        shape: &[usize],
    ) -> Result<Self, String> {
        let (prefix_name, lengths_name) = (format!("{name}_prefix"), format!("{name}_lengths"));
        let prefix = counts(file, &prefix_name)?;
        let lengths = counts(file, &lengths_name)?;
        if prefix.is_some() && lengths.is_some() {
            return Err(format!(
                "both `{prefix_name}` and `{lengths_name}` are there; one is enough"
            ));
        }
        match (shape, prefix, lengths) {
            (&[batch, _, extent, _], None, None) => {
                Ok(Self { rows: Rows::Dense, batch, extent, sequences: Vec::new() })
            }
            (&[batch, _, extent, _], None, Some(lengths)) => Self::padded(lengths, batch, extent)
                .map_err(|what| format!("tensor `{lengths_name}`: {what}")),
            (&[extent, _, _], Some(prefix), None) => Self::from_prefix(prefix, extent)
                .map_err(|what| format!("tensor `{prefix_name}`: {what} of `{tensor}`")),
            (&[extent, _, _], None, Some(lengths)) => Self::from_lengths(lengths, extent)
                .map_err(|what| format!("tensor `{lengths_name}`: {what} of `{tensor}`")),
            ([_, _, _, _], Some(_), _) => Err(format!(
                "tensor `{prefix_name}`: running sums belong to packed rows, `{tensor}` is {shape:?}"
            )),
            ([_, _, _], None, None) => Err(format!(
                "tensor `{tensor}` {shape:?} is packed rows; `{prefix_name}` or `{lengths_name}` \
                 must say where sequences start"
            )),
            _ => Err(format!(
                "tensor `{tensor}` has rank {}, needed: 3 [tokens, heads, columns] or 4 [batch, \
                 heads, rows, columns]",
                shape.len()
            )),
        }
    }

    fn padded(lengths: Vec<i32>, batch: usize, extent: usize) -> Result<Self, String> {
        if lengths.len() != batch {
            return Err(format!("{} entries for a batch of {batch}", lengths.len()));
        }
        let rows = |(b, &length): (usize, &i32)| match usize::try_from(length) {
            Ok(rows) if rows <= extent => Ok((0, rows)),
            _ => Err(format!("entry {b} is {length}, the limits are 0 and {extent} rows")),
        };
        let sequences = lengths.iter().enumerate().map(rows).collect::<Result<_, _>>()?;
        Ok(Self { rows: Rows::Padded(lengths), batch, extent, sequences })
    }

    fn from_lengths(lengths: Vec<i32>, extent: usize) -> Result<Self, String> {
        let mut begin = 0;
        let mut sequences = Vec::with_capacity(lengths.len());
        for (b, &length) in lengths.iter().enumerate() {
            let rows = usize::try_from(length)
                .map_err(|_| format!("entry {b} is {length}, the least is 0; rows"))?;
            sequences.push((begin, rows));
            begin += rows;
        }
        covers(begin, extent)?;
        Ok(Self { batch: lengths.len(), rows: Rows::Lengths(lengths), extent, sequences })
    }

    fn from_prefix(prefix: Vec<i32>, extent: usize) -> Result<Self, String> {
        let Some(&base) = prefix.first() else {
            return Err("has no entry, needed: sequences + 1; rows".into());
        };
        let mut sequences = Vec::with_capacity(prefix.len() - 1);
        for (b, pair) in prefix.windows(2).enumerate() {
            let (begin, end) = (i64::from(pair[0]), i64::from(pair[1]));
            if end < begin {
                return Err(format!("falls from {begin} to {end} at entry {}; rows", b + 1));
            }
            // Not below 0: no entry before was below the one before it.
            let first = usize::try_from(begin - i64::from(base)).unwrap_or(0);
            sequences.push((first, usize::try_from(end - begin).unwrap_or(0)));
        }
        covers(sequences.last().map_or(0, |(first, rows)| first + rows), extent)?;
        Ok(Self { batch: sequences.len(), rows: Rows::Prefix(prefix), extent, sequences })
    }

    /// First row and live rows of a sequence.
    pub(crate) fn sequence(&self, seq: usize) -> (usize, usize) {
        self.sequences.get(seq).copied().unwrap_or((0, self.extent))
    }

    /// Least and greatest live length.
    pub(crate) fn length_range(&self) -> (usize, usize) {
        let lengths = || self.sequences.iter().map(|&(_, rows)| rows);
        let whole = if self.rows == Rows::Dense { self.extent } else { 0 };
        (lengths().min().unwrap_or(whole), lengths().max().unwrap_or(whole))
    }

    /// Whether rows are `[T, H, D]`.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.rows, Rows::Lengths(_) | Rows::Prefix(_))
    }

    /// Index of row `row` of head `head` among all rows of a tensor of this side, each a run of
    /// columns.
    pub(crate) fn row_index(&self, num_heads: usize, seq: usize, head: usize, row: usize) -> usize {
        if self.is_packed() {
            (self.sequence(seq).0 + row) * num_heads + head
        } else {
            (seq * num_heads + head) * self.extent + row
        }
    }
}

/// Sequences must take up all rows, no more and no fewer.
fn covers(total: usize, extent: usize) -> Result<(), String> {
    if total == extent {
        return Ok(());
    }
    Err(format!("sequences cover {total} rows, there are {extent} rows"))
}

/// A vector of row counts.
fn counts(file: &SafeTensors<'_>, name: &str) -> Result<Option<Vec<i32>>, String> {
    let Ok(view) = file.tensor(name) else { return Ok(None) };
    if view.dtype() != Dtype::I32 {
        return Err(format!("tensor `{name}` is {}; I32 is needed: counts of rows", view.dtype()));
    }
    if view.shape().len() != 1 {
        return Err(format!("tensor `{name}` has shape {:?}; rank 1 is needed", view.shape()));
    }
    Ok(Some(view.data().as_chunks().0.iter().map(|&word| i32::from_le_bytes(word)).collect()))
}
