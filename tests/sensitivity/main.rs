//! Every attribute has an effect: asked with and without it, on data where the answers must
//! differ, they do, and each is right. An engine that ignored one would be right half of the time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod ask;
#[path = "../common/mod.rs"]
mod common;
mod visible;

use frazil::{Align, LseForm};

use ask::{Answer, Ask, Keys};

/// Both asks are answered rightly by every engine, and differently.
fn assert_differ(what: &str, one: &Ask, other: &Ask) {
    assert_lse_differs(what, one, other);
    for (one, other) in one.answers().iter().zip(other.answers()) {
        let num_unlike = one.o.iter().zip(&other.o).filter(|(a, b)| (*a - *b).abs() > 1e-3).count();
        assert!(num_unlike > one.o.len() / 20, "{what}: {num_unlike} values of O differ");
    }
}

fn assert_lse_differs(what: &str, one: &Ask, other: &Ask) {
    let (one, other) = (one.answers(), other.answers());
    assert!(!one.is_empty() && one.len() == other.len(), "{what}: engines answer both");
    for (Answer { lse: one, .. }, Answer { lse: other, .. }) in one.iter().zip(&other) {
        let unlike =
            |(a, b): &(&f32, &f32)| a.is_finite() != b.is_finite() || (*a - *b).abs() > 1e-3;
        let num_unlike = one.iter().zip(other).filter(unlike).count();
        assert!(num_unlike > one.len() / 20, "{what}: {num_unlike} values of the LSE differ");
    }
}

#[test]
fn the_left_bound_counts() {
    let (align, right) = (Align::BottomRight, Some(1));
    let with = |left| Ask::plain().band(align, left, right);
    assert_differ("left or none", &with(None), &with(Some(2)));
    assert_differ("left 1 or 2", &with(Some(1)), &with(Some(2)));
    assert_differ("left 0 or 1", &with(Some(0)), &with(Some(1)));
}

#[test]
fn the_right_bound_counts() {
    let with = |right| Ask::plain().band(Align::TopLeft, Some(4), right);
    assert_differ("right or none", &with(None), &with(Some(2)));
    assert_differ("right 1 or 2", &with(Some(1)), &with(Some(2)));
    assert_differ("right 0 or 1", &with(Some(0)), &with(Some(1)));
}

#[test]
fn the_alignment_counts() {
    for (left, right) in [(None, Some(0)), (Some(1), None), (Some(2), Some(1))] {
        let with = |align| Ask::plain().band(align, left, right);
        assert_differ("corner", &with(Align::TopLeft), &with(Align::BottomRight));
    }
}

#[test]
fn the_alignment_follows_each_sequences_lengths() {
    let with = |kv| Ask { kv, ..Ask::plain().band(Align::BottomRight, Some(2), Some(0)) };
    assert_differ("lengths", &with(Keys::Padded([9, 9])), &with(Keys::Padded([8, 7])));
    let with = |q| Ask { q_lengths: Some(q), ..with(Keys::Dense) };
    assert_differ("lengths of q", &with([6, 6]), &with([5, 4]));
}

#[test]
fn the_scale_counts() {
    let with = |softmax_scale| Ask { softmax_scale, ..Ask::plain() };
    assert_differ("scale", &with(0.5), &with(0.25));
    assert_differ("sign of the scale", &with(0.5), &with(-0.5));
    assert_differ("no scale", &with(0.5), &with(0.0));
}

#[test]
fn the_soft_cap_counts() {
    let with = |soft_cap| Ask { soft_cap, softmax_scale: 1.0, ..Ask::plain() };
    assert_differ("cap", &with(None), &with(Some(1.0)));
    assert_differ("size of the cap", &with(Some(1.0)), &with(Some(2.0)));
}

#[test]
fn the_bias_counts_and_is_not_capped() {
    let with = |bias| Ask { bias, ..Ask::plain() };
    assert_differ("bias", &with(false), &with(true));
    let with = |bias| Ask { bias, soft_cap: Some(1.0), ..Ask::plain() };
    assert_differ("bias beside a cap", &with(false), &with(true));
}

#[test]
fn alibi_counts_and_so_does_its_corner() {
    let with = |alibi| Ask { alibi, ..Ask::plain() };
    assert_differ("alibi", &with(false), &with(true));
    let with = |align| Ask { alibi: true, ..Ask::plain().band(align, None, None) };
    assert_differ("corner of alibi alone", &with(Align::TopLeft), &with(Align::BottomRight));
}

#[test]
fn the_sink_counts() {
    let with = |sink| Ask { sink, ..Ask::plain() };
    assert_differ("sink", &with(false), &with(true));
    let with = |sink| Ask { sink, ..Ask::plain().band(Align::BottomRight, None, Some(0)) };
    assert_differ("sink beside a band", &with(false), &with(true));
}

#[test]
fn lengths_count() {
    let with = |kv| Ask { kv, ..Ask::plain() };
    assert_differ("lengths or none", &with(Keys::Dense), &with(Keys::Padded([5, 9])));
    assert_differ("one key more", &with(Keys::Padded([5, 8])), &with(Keys::Padded([6, 9])));
    let with = |q_lengths| Ask { q_lengths, ..Ask::plain() };
    assert_differ("lengths of q", &with(None), &with(Some([3, 6])));
}

#[test]
fn full_lengths_change_nothing() {
    let with = |kv| Ask { kv, ..Ask::plain() };
    assert_eq!(with(Keys::Dense).answers(), with(Keys::Padded([9, 9])).answers());
}

#[test]
fn the_page_table_counts() {
    let with = |table| Ask {
        kv: Keys::Paged(table),
        ..Ask::plain().band(Align::BottomRight, None, Some(0))
    };
    let in_order = with([[0, 1, 2], [3, 4, 5]]);
    assert_differ("order of pages", &in_order, &with([[2, 1, 0], [3, 5, 4]]));
    assert_differ("pages of another sequence", &in_order, &with([[3, 4, 5], [0, 1, 2]]));
    let dense = Ask { kv: Keys::Dense, ..in_order.clone() };
    assert_eq!(in_order.answers(), dense.answers(), "pages in order are the dense rows");
}

#[test]
fn the_form_of_the_lse_counts() {
    let with = |lse| Ask { lse, ..Ask::plain() };
    assert_lse_differs("form", &with(LseForm::Natural), &with(LseForm::Base2));
    let (natural, base2) = (with(LseForm::Natural).answers(), with(LseForm::Base2).answers());
    for (one, other) in natural.iter().zip(&base2) {
        assert_eq!(one.o, other.o);
    }
}
