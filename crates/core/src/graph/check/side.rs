//! Batch and rows of one side.

use super::OP;
use super::tensor_ref::{TensorRef, Tensors, Types, find};
use crate::facts::SideShape;
use crate::graph::{Sequences, Side, Storage};
use crate::{InvalidGraph, Role, TensorId};

/// A side under check. `first` is Q or K, `second` O or V.
pub(super) struct SideCheck<'a> {
    pub(super) tensors: &'a dyn Tensors,
    pub(super) side: Side,
    pub(super) first: TensorRef<'a>,
    pub(super) second: TensorRef<'a>,
}

impl SideCheck<'_> {
    /// Checks the side's tensors against one another and derives batch, rows and limits.
    pub(super) fn shape(&self, storage: &Storage) -> Result<SideShape, InvalidGraph> {
        match *storage {
            Storage::Dense => self.dense(),
            Storage::Padded { lengths, bounds } => {
                let dense = self.dense()?;
                self.lengths(lengths)?.extent((0, "batch"), dense.batch, "batch of its side")?;
                Ok(SideShape { max_len: dense.rows.min(bounds.max.into()), ..dense })
            }
            Storage::Packed { sequences, bounds, .. } => {
                let (batch, rows) = (self.sequences(sequences)?, self.first.geometry.extent(0));
                Ok(SideShape { batch, rows, max_len: bounds.max.into(), page_size: rows })
            }
            Storage::Paged { table_k, table_v, lengths, bounds } => {
                let paged = self.paged([table_k, table_v], lengths)?;
                Ok(SideShape { max_len: paged.rows.min(bounds.max.into()), ..paged })
            }
        }
    }

    fn dense(&self) -> Result<SideShape, InvalidGraph> {
        let (batch, rows) = (self.first.geometry.extent(0), self.first.geometry.extent(2));
        let of = match self.side {
            Side::Q => "q",
            Side::Kv => "k",
        };
        self.second.extent((0, "batch"), batch, of)?.extent((2, "rows"), rows, of)?;
        Ok(SideShape { batch, rows, max_len: rows, page_size: rows })
    }

    /// Batch of a packed side.
    fn sequences(&self, sequences: Sequences) -> Result<u64, InvalidGraph> {
        let (_, prefix, starts) = self.side.roles();
        match sequences {
            Sequences::Lengths(id) => Ok(self.lengths(id)?.geometry.extent(0)),
            Sequences::Prefix(id) => {
                let tensor = self.vector(prefix, id, "1: [batch + 1]")?;
                tensor.at_least((0, "batch + 1"), 1, "a prefix has batch + 1 entries")?;
                Ok(tensor.geometry.extent(0) - 1)
            }
            Sequences::Starts { starts: first_rows, lengths } => {
                let batch = self.lengths(lengths)?.geometry.extent(0);
                self.vector(starts, first_rows, "1: [batch]")?.extent(
                    (0, "batch"),
                    batch,
                    "lengths of its side",
                )?;
                Ok(batch)
            }
        }
    }

    fn paged(&self, tables: [TensorId; 2], lengths: TensorId) -> Result<SideShape, InvalidGraph> {
        if self.side == Side::Q {
            let reason = "queries are never read through a page table";
            return Err(InvalidGraph::Storage { op: OP, side: "q", storage: "paged", reason });
        }
        let page_size = self.first.nonzero((2, "page_size"))?;
        self.second.extent((2, "page_size"), page_size, "k")?;
        let batch = self.lengths(lengths)?.geometry.extent(0);
        let mut rows = u64::MAX;
        for (role, id) in [Role::TableK, Role::TableV].into_iter().zip(tables) {
            let table = find(self.tensors, role, id)?
                .of_type(Types::I32)?
                .rank(2, "2: [batch, pages]")?
                .extent((0, "batch"), batch, "lengths of its side")?;
            rows = rows.min(table.geometry.extent(1) * page_size);
        }
        Ok(SideShape { batch, rows, max_len: rows, page_size })
    }

    fn lengths(&self, id: TensorId) -> Result<TensorRef<'_>, InvalidGraph> {
        let (lengths, ..) = self.side.roles();
        self.vector(lengths, id, "1: [batch]")
    }

    fn vector(
        &self,
        role: Role,
        id: TensorId,
        expected: &'static str,
    ) -> Result<TensorRef<'_>, InvalidGraph> {
        find(self.tensors, role, id)?.of_type(Types::I32)?.rank(1, expected)
    }
}
