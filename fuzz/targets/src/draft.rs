//! Graphs as they are asked for, before anybody has checked them.

use frazil::{
    Band, BlockMask, DType, Dropout, LseForm, Role, SdpaFwd, Sequences, Storage, TensorId,
    TensorSpec,
};

/// A tensor to declare.
#[derive(Clone, Debug)]
pub(crate) struct TensorDraft {
    pub(crate) name: String,
    /// The id to ask for; `None` leaves it to the builder.
    pub(crate) id: Option<i64>,
    pub(crate) dtype: DType,
    pub(crate) extents: Vec<i64>,
    /// `None`: contiguous.
    pub(crate) strides: Option<Vec<i64>>,
    /// `None`: the default of the type.
    pub(crate) align: Option<u32>,
}

impl TensorDraft {
    pub(crate) fn spec(&self) -> TensorSpec {
        let (name, extents) = (self.name.as_str(), &self.extents);
        let mut spec = match &self.strides {
            Some(strides) => TensorSpec::strided(name, self.dtype, extents, strides),
            None => TensorSpec::contiguous(name, self.dtype, extents),
        };
        if let Some(id) = self.id {
            spec = spec.id(TensorId(id));
        }
        match self.align {
            Some(align) => spec.align(align),
            None => spec,
        }
    }
}

/// Attention forward to add. A draft names tensors by their position among the calls; [`map_ids`]
/// makes ids of them.
///
/// [`map_ids`]: Self::map_ids
#[derive(Clone, Debug)]
pub(crate) struct OpDraft {
    pub(crate) q: TensorId,
    pub(crate) k: TensorId,
    pub(crate) v: TensorId,
    pub(crate) o: TensorId,
    pub(crate) q_storage: Storage,
    pub(crate) kv_storage: Storage,
    pub(crate) softmax_scale: Option<f32>,
    pub(crate) band: Option<Band>,
    pub(crate) soft_cap: Option<f32>,
    pub(crate) bias: Option<TensorId>,
    pub(crate) alibi: Option<TensorId>,
    pub(crate) sink: Option<TensorId>,
    pub(crate) block_mask: Option<TensorId>,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) lse: Option<(TensorId, LseForm)>,
    pub(crate) max: Option<TensorId>,
    pub(crate) sum_exp: Option<TensorId>,
}

impl OpDraft {
    /// The operation with the same numbers.
    pub(crate) fn op(&self) -> SdpaFwd {
        let mut op =
            SdpaFwd::new(self.q, self.k, self.v, self.o).storage(self.q_storage, self.kv_storage);
        if let Some(scale) = self.softmax_scale {
            op = op.softmax_scale(scale);
        }
        if let Some(band) = self.band {
            op = op.band(band);
        }
        if let Some(cap) = self.soft_cap {
            op = op.soft_cap(cap);
        }
        if let Some(bias) = self.bias {
            op = op.bias(bias);
        }
        if let Some(slopes) = self.alibi {
            op = op.alibi(slopes);
        }
        if let Some(sink) = self.sink {
            op = op.sink(sink);
        }
        if let Some(bits) = self.block_mask {
            op = op.block_mask(BlockMask { bits });
        }
        if let Some(dropout) = self.dropout {
            op = op.dropout(dropout);
        }
        if let Some((lse, form)) = self.lse {
            op = op.lse(lse, form);
        }
        if let Some(max) = self.max {
            op = op.max(max);
        }
        match self.sum_exp {
            Some(sum_exp) => op.sum_exp(sum_exp),
            None => op,
        }
    }

    /// The same with other names of its tensors.
    pub(crate) fn map_ids(&self, map: impl Fn(TensorId) -> TensorId) -> Self {
        let mut mapped = self.clone();
        for (_, id) in mapped.ids_mut() {
            *id = map(*id);
        }
        mapped
    }

    /// Role and tensor of every place that is taken.
    pub(crate) fn ids(&self) -> Vec<(Role, TensorId)> {
        self.clone().ids_mut().into_iter().map(|(role, id)| (role, *id)).collect()
    }

    /// Every place that is taken, with its role.
    pub(crate) fn ids_mut(&mut self) -> Vec<(Role, &mut TensorId)> {
        let mut ids = vec![
            (Role::Q, &mut self.q),
            (Role::K, &mut self.k),
            (Role::V, &mut self.v),
            (Role::O, &mut self.o),
        ];
        ids.extend(storage_ids(&mut self.q_storage, Q_ROLES));
        ids.extend(storage_ids(&mut self.kv_storage, KV_ROLES));
        let optional = [
            (Role::Bias, &mut self.bias),
            (Role::AlibiSlopes, &mut self.alibi),
            (Role::Sink, &mut self.sink),
            (Role::BlockMask, &mut self.block_mask),
            (Role::Max, &mut self.max),
            (Role::SumExp, &mut self.sum_exp),
        ];
        ids.extend(optional.into_iter().filter_map(|(role, id)| Some((role, id.as_mut()?))));
        ids.extend(self.lse.as_mut().map(|(id, _)| (Role::Lse, id)));
        if let Some(dropout) = &mut self.dropout {
            ids.push((Role::DropoutSeed, &mut dropout.seed));
            ids.push((Role::DropoutOffset, &mut dropout.offset));
        }
        ids
    }
}

/// Roles of the lengths, the prefix and the starts of a side.
type SideRoles = [Role; 3];

const Q_ROLES: SideRoles = [Role::QLengths, Role::QPrefix, Role::QStarts];
const KV_ROLES: SideRoles = [Role::KvLengths, Role::KvPrefix, Role::KvStarts];

fn storage_ids(storage: &mut Storage, roles: SideRoles) -> Vec<(Role, &mut TensorId)> {
    let [lengths_role, prefix_role, starts_role] = roles;
    match storage {
        Storage::Padded { lengths, .. } => vec![(lengths_role, lengths)],
        Storage::Packed { sequences, .. } => match sequences {
            Sequences::Lengths(lengths) => vec![(lengths_role, lengths)],
            Sequences::Prefix(prefix) => vec![(prefix_role, prefix)],
            Sequences::Starts { starts, lengths } => {
                vec![(starts_role, starts), (lengths_role, lengths)]
            }
            _ => Vec::new(),
        },
        Storage::Paged { table_k, table_v, lengths, .. } => {
            vec![(Role::TableK, table_k), (Role::TableV, table_v), (lengths_role, lengths)]
        }
        _ => Vec::new(),
    }
}
