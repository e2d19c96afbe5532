// Damage: how a record that failed a check came to differ, as far as its bytes prove it, down to
// the element where one bit flipped. For findings only, never on the way of an intact record; it
// doesn't know stores and repairs nothing.
#pragma once

#include "offload/bytes.h"
#include "offload/digest.h"
#include "offload/finding.h"
#include "offload/record.h"

namespace kvbed {

// Adds to `finding`, which VerifyRecord gave for these arguments, what is proved:
//   bit           flipping one bit back makes a digest match again, or it is the only one that is
//   set
//                 in the padding; the header's bits too, when the payload is right. Names the byte,
//                 expected and actual as two hexadecimal digits, and the element it lies in
//   zeroed        the record, or the header page or sectors of it, or whole slices, are zero and
//                 must not be, while the record goes on behind them
//   torn          the record is right up to a slice and from there on zero to its end, or no later
//                 slice is right either (two at least)
//   shifted       the record lies some bytes off its place: `actual` says how many
//   equals_other  all of another record, whose id is in other_id
//   byte_order    the elements' bytes in reverse order match the digests
// Nothing where the bytes leave it open. At most about a second; less than 0.1 s for slices of 8
// KiB.
void ExplainDamage(Bytes record, const RecordHeader& expected, const Digest128& expected_digest,
                   Finding& finding);

}  // namespace kvbed
