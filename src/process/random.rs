//! Chance, straight from the kernel: a generator of this process's own would first have to be set up,
//! which takes longer than all that a call needs of it.

use rand::Rng as _;

/// Bytes that nobody can guess.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the kernel writes at most so many bytes into the array.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if usize::try_from(got) != Ok(N) {
        // A sandbox that forbids the call.
        rand::rng().fill_bytes(&mut bytes);
    }
    bytes
}

/// A whole number from 0 up to, and without, `limit`; 0 where there is none.
pub fn below<T: TryFrom<u64> + Into<u64> + Default>(limit: T) -> T {
    let limit = limit.into();
    // The remainder of 64 bits favours nothing that anyone could notice.
    let number = u64::from_ne_bytes(bytes()).checked_rem(limit);
    number.and_then(|n| T::try_from(n).ok()).unwrap_or_default()
}

/// A number from 0 up to, and without, 1.
pub fn fraction() -> f64 {
    // As many bits as the number has room for.
    (u64::from_ne_bytes(bytes()) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_does_not_repeat_itself_and_keeps_its_range() {
        assert_ne!(bytes::<16>(), bytes::<16>());
        let all: Vec<f64> = (0..1000).map(|_| fraction()).collect();
        assert!(all.iter().all(|part| (0.0..1.0).contains(part)));
        let few: Vec<u32> = (0..1000).map(|_| below(3_u32)).collect();
        assert!((0..3).all(|n| few.contains(&n)) && few.iter().all(|n| *n < 3));
        assert_eq!(below(0_u32), 0);
        assert!(all.iter().any(|part| *part < 0.5) && all.iter().any(|part| *part >= 0.5));
    }
}
