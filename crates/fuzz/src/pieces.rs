//! Input in pieces, as a network or a pipe delivers it.

/// Splits off the first bytes as numbers that steer a target; missing ones are 0.
pub(crate) fn steering<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    let (head, rest) = bytes.split_at(bytes.len().min(N));
    let mut numbers = [0; N];
    numbers[..head.len()].copy_from_slice(head);
    (numbers, rest)
}

/// The bytes in pieces of varying length; the seed says where they are cut.
pub(crate) fn pieces(bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let (mut pieces, mut rest, mut state) = (Vec::new(), bytes, u32::from(seed) + 1);
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Mostly short ones, so that marks of two and three bytes are cut in between.
        let length = match state >> 30 {
            0 => 1,
            1 => 2 + (state >> 8) as usize % 3,
            _ => 1 + (state >> 8) as usize % 64,
        };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The first control character of a text, except tabs and line endings.
pub(crate) fn control(text: &str) -> Option<char> {
    text.replace("\r\n", "\n").chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'))
}
