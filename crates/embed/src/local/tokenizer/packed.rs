//! Numbers and bytes one after the other: how a tokenizer is kept in a file that needs no parsing.

/// Collects.
#[derive(Debug, Default)]
pub(in crate::local) struct Packed(Vec<u8>);

/// Takes out again; every piece may be missing.
#[derive(Debug)]
pub(in crate::local) struct Unpacked<'a>(&'a [u8]);

impl Packed {
    pub(in crate::local) fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(in crate::local) fn numbers(&mut self, numbers: &[u32]) {
        self.number(u32::try_from(numbers.len()).unwrap_or(u32::MAX));
        numbers.iter().for_each(|number| self.number(*number));
    }

    pub(in crate::local) fn bytes(&mut self, bytes: &[u8]) {
        self.number(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(bytes);
    }

    pub(in crate::local) fn finish(self) -> Vec<u8> {
        self.0
    }
}

impl<'a> Unpacked<'a> {
    pub(in crate::local) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(in crate::local) fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    pub(in crate::local) fn numbers(&mut self) -> Option<Vec<u32>> {
        let count = self.number()? as usize;
        let bytes = self.take(count.checked_mul(4)?)?;
        Some(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    pub(in crate::local) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()? as usize;
        self.take(count)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}
