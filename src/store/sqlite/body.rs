//! What a row holds of a record beyond its columns, as one value.
//!
//! Every open parses the tables' definitions, and every statement names the columns that it wants, so
//! that each column costs each call. What no statement filters or sorts on is therefore packed. The
//! first byte names the encoding: one that was ever released is read for ever, and a new one comes with
//! a new version of the schema, so that an older program refuses the store and does not stumble here.
//!
//! Numbers have seven bits a byte, the least first, and the top bit where more follow; signed ones are
//! folded (0, -1, 1, …) before. Bytes and texts come after their length, and what may be absent after
//! a 0 or a 1.

use crate::domain::name::{Fingerprint, Generation, Nonce, OpName};
use crate::domain::outcome::{Class, State};
use crate::domain::owner::{LockFileId, OwnerRef, ProcessRef};
use crate::domain::record::{
    CommandLine, Identity, OutputRef, Place, Proposal, Record, Source, Verdict,
};
use crate::domain::time::{BootId, Stamp, Ttl, UnixMs};
use crate::store::transitions::Stored;
use std::time::Duration;

/// The encoding that is written.
const ENCODING: u8 = 1;

/// What a row holds in columns of its own.
#[derive(Debug)]
pub struct Columns {
    /// Scope and key.
    pub name: OpName,
    /// The state.
    pub state: State,
    /// The generation.
    pub generation: Generation,
    /// The nonce.
    pub nonce: Nonce,
    /// The generation that minted the token.
    pub minted_by: Generation,
    /// When the state was entered, by the wall clock.
    pub since_at: UnixMs,
}

/// Packs everything but the [`Columns`].
pub fn encode(stored: &Stored) -> Vec<u8> {
    let record = &stored.record;
    let mut out = Writer {
        bytes: Vec::with_capacity(512),
    };
    out.byte(ENCODING);
    out.text(&record.token);
    out.bytes.extend_from_slice(&record.fingerprint.0);
    out.signed(record.created_at.0);
    out.signed(record.since.boot_ms);
    out.text(&record.since.boot.0);
    out.optional(record.ttl.ms(), Writer::signed);
    out.optional(record.failed_ttl.ms(), Writer::signed);
    out.optional(record.class, |out, class| out.text(class.word()));
    out.optional(record.reason.as_deref(), Writer::text);
    out.optional(record.exit_code, |out, code| out.signed(code.into()));
    out.optional(record.retry_at, |out, at| out.signed(at.0));
    out.optional(record.output.as_ref(), Writer::output);
    out.number(record.attempts.into());
    out.flag(record.dirty);
    out.optional(record.owner.as_ref(), Writer::owner);
    out.optional(record.decided_by.as_deref(), Writer::text);
    out.source(&record.source);
    out.list(&stored.kept, |out, nonce| {
        out.bytes.extend_from_slice(&nonce.0);
    });
    out.blob(&record.command.cwd);
    out.optional(record.command.argv.as_deref(), |out, argv| {
        out.list(argv, |out, argument| out.blob(argument));
    });
    out.optional(record.proposal.as_ref(), Writer::proposal);
    out.bytes
}

/// Unpacks; none for what [`encode`] does not write.
pub fn decode(columns: Columns, bytes: &[u8]) -> Option<Stored> {
    let mut from = Reader { rest: bytes };
    let from = &mut from;
    if from.byte()? != ENCODING {
        return None;
    }
    let token = from.text()?;
    let fingerprint = Fingerprint(from.array()?);
    let created_at = UnixMs(from.signed()?);
    let since = Stamp {
        wall: columns.since_at,
        boot_ms: from.signed()?,
        boot: BootId(from.text()?),
    };
    let mut record = Record {
        name: columns.name,
        state: columns.state,
        generation: columns.generation,
        nonce: columns.nonce,
        token,
        minted_by: columns.minted_by,
        fingerprint,
        created_at,
        since,
        ttl: from.ttl()?,
        failed_ttl: from.ttl()?,
        class: from.optional(|from| Class::from_word(from.word()?))?,
        reason: from.optional(Reader::text)?,
        exit_code: from.optional(|from| from.signed()?.try_into().ok())?,
        retry_at: from.optional(|from| from.signed().map(UnixMs))?,
        output: from.optional(Reader::output)?,
        attempts: from.small()?,
        dirty: from.flag()?,
        owner: from.optional(Reader::owner)?,
        decided_by: from.optional(Reader::text)?,
        source: from.source()?,
        proposal: None,
        command: CommandLine {
            argv: None,
            cwd: Vec::new(),
        },
    };
    let kept = from.list(|from| from.array().map(Nonce))?;
    record.command.cwd = from.blob()?;
    record.command.argv = from.optional(|from| from.list(Reader::blob))?;
    record.proposal = from.optional(Reader::proposal)?;
    from.rest.is_empty().then_some(Stored { record, kept })
}

const VERDICTS: [Verdict; 3] = [Verdict::Pending, Verdict::Approved, Verdict::Rejected];

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    fn flag(&mut self, value: bool) {
        self.byte(value.into());
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.byte(value.to_le_bytes()[0]);
    }

    fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    fn blob(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    fn text(&mut self, value: &str) {
        self.blob(value.as_bytes());
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, values: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.number(values.len() as u64);
        for value in values {
            write(self, value);
        }
    }

    fn output(&mut self, output: &OutputRef) {
        self.text(output.place.word());
        self.bytes.extend_from_slice(&output.nonce.0);
        self.number(output.number.into());
        self.number(output.stdout_bytes);
        self.number(output.stderr_bytes);
        self.flag(output.truncated);
        self.flag(output.lost);
    }

    fn process(&mut self, process: ProcessRef) {
        self.signed(process.pid.into());
        self.number(process.start_ticks);
    }

    fn owner(&mut self, owner: &OwnerRef) {
        self.process(owner.keeper);
        self.text(&owner.boot_id.0);
        self.number(owner.pid_namespace);
        self.number(owner.lock_file.device);
        self.number(owner.lock_file.inode);
        self.number(owner.keeper_byte);
        self.number(owner.tree_byte);
        self.optional(owner.child, Writer::process);
        self.bytes.extend_from_slice(&owner.nonce.0);
    }

    fn source(&mut self, source: &Source) {
        self.text(&source.host);
        self.text(&source.user);
        self.signed(source.pid.into());
        self.text(&source.parent);
        self.optional(source.label.as_deref(), Writer::text);
    }

    fn proposal(&mut self, proposal: &Proposal) {
        let verdict = VERDICTS.iter().position(|v| *v == proposal.verdict);
        self.number(verdict.unwrap_or(0) as u64);
        self.bytes.extend_from_slice(&proposal.identity.argv.0);
        self.bytes
            .extend_from_slice(&proposal.identity.executable.0);
        self.blob(&proposal.identity.cwd);
        self.optional(proposal.decided_by.as_deref(), Writer::text);
        self.optional(proposal.decided_at, |out, at| out.signed(at.0));
        self.optional(proposal.note.as_deref(), Writer::text);
        self.blob(&proposal.preview);
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn signed(&mut self) -> Option<i64> {
        let folded = self.number()?;
        let sign = (folded & 1).cast_signed();
        Some((folded >> 1).cast_signed() ^ -sign)
    }

    fn slice(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    fn blob(&mut self) -> Option<Vec<u8>> {
        self.slice().map(<[u8]>::to_vec)
    }

    fn word(&mut self) -> Option<&'a str> {
        str::from_utf8(self.slice()?).ok()
    }

    fn text(&mut self) -> Option<String> {
        self.word().map(str::to_owned)
    }

    /// The outer answer is whether it could be read, the inner one whether it is there.
    fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Some(None),
        }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Reader<'a>) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        // No room is made for so many before they are there: the number may be nonsense.
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(read(self)?);
        }
        Some(values)
    }

    fn ttl(&mut self) -> Option<Ttl> {
        Some(match self.optional(Reader::signed)? {
            Some(ms) => Ttl::For(Duration::from_millis(ms.try_into().ok()?)),
            None => Ttl::Forever,
        })
    }

    fn output(&mut self) -> Option<OutputRef> {
        Some(OutputRef {
            place: Place::from_word(self.word()?)?,
            nonce: Nonce(self.array()?),
            number: self.small()?,
            stdout_bytes: self.number()?,
            stderr_bytes: self.number()?,
            truncated: self.flag()?,
            lost: self.flag()?,
        })
    }

    fn process(&mut self) -> Option<ProcessRef> {
        Some(ProcessRef {
            pid: self.signed()?.try_into().ok()?,
            start_ticks: self.number()?,
        })
    }

    fn owner(&mut self) -> Option<OwnerRef> {
        Some(OwnerRef {
            keeper: self.process()?,
            boot_id: BootId(self.text()?),
            pid_namespace: self.number()?,
            lock_file: LockFileId {
                device: self.number()?,
                inode: self.number()?,
            },
            keeper_byte: self.number()?,
            tree_byte: self.number()?,
            child: self.optional(Reader::process)?,
            nonce: Nonce(self.array()?),
            lease: None,
        })
    }

    fn source(&mut self) -> Option<Source> {
        Some(Source {
            host: self.text()?,
            user: self.text()?,
            pid: self.signed()?.try_into().ok()?,
            parent: self.text()?,
            label: self.optional(Reader::text)?,
        })
    }

    fn proposal(&mut self) -> Option<Proposal> {
        let verdict = *VERDICTS.get(usize::try_from(self.number()?).ok()?)?;
        let argv = Fingerprint(self.array()?);
        let executable = Fingerprint(self.array()?);
        Some(Proposal {
            identity: Identity {
                argv,
                executable,
                cwd: self.blob()?,
            },
            verdict,
            decided_by: self.optional(Reader::text)?,
            decided_at: self.optional(|from| from.signed().map(UnixMs))?,
            note: self.optional(Reader::text)?,
            preview: self.blob()?,
        })
    }
}

#[cfg(test)]
mod tests;
