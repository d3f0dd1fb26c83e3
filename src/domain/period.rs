//! Calendar periods of keys: once per day, once per quarter of an hour.
//!
//! Where the wall clock jumps, every moment still belongs to exactly one window, and no two windows
//! of one period share a name.

use super::duration::{DurationError, parse_duration};
use super::name::{Key, NameError};
use super::nearest::nearest;
use super::time::UnixMs;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan};
use std::fmt;

const HOUR_MINUTES: i64 = 60;
const DAY_MINUTES: i64 = 24 * HOUR_MINUTES;
const MAX_MINUTES: i64 = 366 * DAY_MINUTES;
const MINUTE_SECS: i64 = 60;
const DAY_SECS: i64 = DAY_MINUTES * MINUTE_SECS;
/// The Unix epoch was a Thursday; ISO 8601 weeks begin on Mondays.
const EPOCH_AFTER_MONDAY_SECS: i64 = 3 * DAY_SECS;
const CALENDAR_WORDS: [&str; 4] = ["hour", "day", "week", "month"];

/// A length of time that a key is valid for, cut at fixed places of the calendar.
///
/// - `day`, `week` (ISO 8601, from Monday) and `month` begin at local midnight. Where a day begins
///   within a jump of the clock, it begins at the first moment that belongs to it.
/// - Minutes and hours that divide the day (`15m`, `hour`, `6h`) count from local midnight. Up to an
///   hour, windows have their real length, so an hour that the clock shows twice is two hours; longer
///   ones are as long as the clock takes to pass them: where clocks change, `6h` may last 5 or 7 hours.
/// - Whole days (`2d`) count local days from 1970-01-01.
/// - Everything else (`7h`, `25m`) counts from the Unix epoch, regardless of the time zone.
///
/// `60m`, `24h` and `7d` are the same as `hour`, `day` and `week`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Cut);

/// Where the windows of a period begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cut {
    /// At multiples of these minutes on the local clock; they divide a day or are whole days.
    Clock { minutes: i64 },
    /// On Mondays.
    Week,
    /// On the first of a month.
    Month,
    /// At multiples of these minutes since the Unix epoch.
    Epoch { minutes: i64 },
}

/// One window of a period: from `starts_at` until just before `ends_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// What is added to keys: `2026-11-30`, `2026-11-30T17`, `2026-W49`, `2026-11`,
    /// `2026-11-30T17:15`; with the offset (`2026-10-25T02+01:00`) where a clock shows a time twice.
    pub name: String,
    /// Its first millisecond.
    pub starts_at: UnixMs,
    /// The first millisecond after it.
    pub ends_at: UnixMs,
}

impl Window {
    /// The key of this window: the base, `@`, and the window's name, as `job@2026-11-30`.
    pub fn key(&self, base: &Key) -> Result<Key, NameError> {
        Key::new(format!("{base}@{}", self.name))
    }
}

/// Why a text is no period, or why there is no window at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeriodError {
    /// Neither a calendar word nor a duration; with the word that may be meant.
    Unknown(String, Option<&'static str>),
    /// The duration cannot be read.
    Duration(DurationError),
    /// Shorter than a minute, or not whole minutes.
    NotMinutes(String),
    /// Longer than 366 days.
    TooLong(String),
    /// The moment is at the end of the calendar.
    OutOfCalendar,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeriodError::Unknown(text, Some(meant)) => {
                write!(f, "unknown period `{text}`: did you mean {meant}?")
            }
            PeriodError::Unknown(text, None) => write!(
                f,
                "unknown period `{text}`: use hour, day, week, month or a duration as 15m"
            ),
            PeriodError::Duration(e) => e.fmt(f),
            PeriodError::NotMinutes(text) => write!(
                f,
                "period `{text}` is not a whole number of minutes: \
                 use hour, day, week, month or a duration as 15m"
            ),
            PeriodError::TooLong(text) => write!(
                f,
                "period `{text}` is longer than 366 days: use a shorter one, or none and a longer ttl"
            ),
            PeriodError::OutOfCalendar => {
                write!(f, "the clock is at the end of the calendar: set it right")
            }
        }
    }
}

impl std::error::Error for PeriodError {}

impl From<jiff::Error> for PeriodError {
    /// The only way that calendar arithmetic fails here is to leave the years that it knows.
    fn from(_: jiff::Error) -> PeriodError {
        PeriodError::OutOfCalendar
    }
}

impl Period {
    /// 60 minutes by the clock.
    pub const HOUR: Period = Period(Cut::Clock {
        minutes: HOUR_MINUTES,
    });
    /// From local midnight to local midnight.
    pub const DAY: Period = Period(Cut::Clock {
        minutes: DAY_MINUTES,
    });
    /// From Monday to Sunday (ISO 8601).
    pub const WEEK: Period = Period(Cut::Week);
    /// A calendar month.
    pub const MONTH: Period = Period(Cut::Month);

    /// Reads `hour`, `day`, `week`, `month`, or a duration of 1 minute to 366 days in whole minutes.
    pub fn parse(text: &str) -> Result<Period, PeriodError> {
        match text {
            "hour" => Ok(Period::HOUR),
            "day" => Ok(Period::DAY),
            "week" => Ok(Period::WEEK),
            "month" => Ok(Period::MONTH),
            _ => Period::from_duration(text),
        }
    }

    fn from_duration(text: &str) -> Result<Period, PeriodError> {
        let duration = parse_duration(text).map_err(|e| unknown(text, e))?;
        let secs = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let minutes = secs / MINUTE_SECS;
        if minutes == 0 || secs % MINUTE_SECS != 0 || duration.subsec_nanos() != 0 {
            return Err(PeriodError::NotMinutes(text.to_owned()));
        }
        if minutes > MAX_MINUTES {
            return Err(PeriodError::TooLong(text.to_owned()));
        }
        Ok(Period(if minutes == 7 * DAY_MINUTES {
            Cut::Week
        } else if DAY_MINUTES % minutes == 0 || minutes % DAY_MINUTES == 0 {
            Cut::Clock { minutes }
        } else {
            Cut::Epoch { minutes }
        }))
    }

    /// The window that `at` lies in, in time zone `zone`.
    pub fn window(&self, at: Timestamp, zone: &TimeZone) -> Result<Window, PeriodError> {
        match self.0 {
            Cut::Clock { minutes } if minutes <= HOUR_MINUTES => {
                self.real_length(minutes, at, zone)
            }
            Cut::Epoch { minutes } => self.since_epoch(minutes, at, zone),
            _ => self.by_wall_clock(at, zone),
        }
    }

    /// The window just before `window`, which must be one of this period in `zone`.
    pub fn previous(&self, window: &Window, zone: &TimeZone) -> Result<Window, PeriodError> {
        let last_ms = window.starts_at.0.saturating_sub(1);
        self.window(Timestamp::from_millisecond(last_ms)?, zone)
    }

    /// Windows of up to an hour: cut by the clock that is in force, and where that clock ends or begins.
    fn real_length(
        &self,
        minutes: i64,
        at: Timestamp,
        zone: &TimeZone,
    ) -> Result<Window, PeriodError> {
        let offset = zone.to_offset(at);
        let length = minutes * MINUTE_SECS;
        let wall = wall_secs(at, offset);
        let floor = wall - wall.rem_euclid(length);
        let first = Timestamp::from_second(floor - i64::from(offset.seconds()))?;
        let last = Timestamp::from_second(first.as_second() + length)?;
        let start = clock_since(first, at, zone).unwrap_or(first);
        let end = clock_until(at, last, zone).unwrap_or(last);
        let cut_short = start != first || end != last;
        let name = self.name(civil(floor)?);
        if cut_short || shown_twice(floor, zone)? || shown_twice(floor + length - 1, zone)? {
            return Ok(window(format!("{name}{}", OffsetText(offset)), start, end));
        }
        Ok(window(name, start, end))
    }

    /// Windows that no clock changes, named by the local time of their start.
    fn since_epoch(
        &self,
        minutes: i64,
        at: Timestamp,
        zone: &TimeZone,
    ) -> Result<Window, PeriodError> {
        let length = minutes * MINUTE_SECS;
        let now = wall_secs(at, Offset::UTC);
        let start = Timestamp::from_second(now - now.rem_euclid(length))?;
        let end = Timestamp::from_second(start.as_second() + length)?;
        let offset = zone.to_offset(start);
        let wall = wall_secs(start, offset);
        let name = self.name(civil(wall)?);
        if shown_twice(wall, zone)? {
            return Ok(window(format!("{name}{}", OffsetText(offset)), start, end));
        }
        Ok(window(name, start, end))
    }

    /// Longer windows: each begins when the clock first shows its start, or jumps over it.
    fn by_wall_clock(&self, at: Timestamp, zone: &TimeZone) -> Result<Window, PeriodError> {
        let mut from = self.floor(wall_secs(at, zone.to_offset(at)))?;
        loop {
            let to = self.next(from)?;
            let end = first_moment(to, zone)?;
            if at < end {
                return Ok(window(
                    self.name(civil(from)?),
                    first_moment(from, zone)?,
                    end,
                ));
            }
            // The clock was set back over the boundary: the next window has begun already.
            from = to;
        }
    }

    /// The start of the window on the wall clock, in seconds of that clock.
    fn floor(&self, wall: i64) -> Result<i64, PeriodError> {
        Ok(match self.0 {
            Cut::Clock { minutes } | Cut::Epoch { minutes } => {
                wall - wall.rem_euclid(minutes * MINUTE_SECS)
            }
            Cut::Week => wall - (wall + EPOCH_AFTER_MONDAY_SECS).rem_euclid(7 * DAY_SECS),
            Cut::Month => seconds_of(
                civil(wall)?
                    .date()
                    .first_of_month()
                    .to_datetime(Default::default()),
            )?,
        })
    }

    /// The start of the window after the one that starts at `from`.
    fn next(&self, from: i64) -> Result<i64, PeriodError> {
        Ok(match self.0 {
            Cut::Clock { minutes } | Cut::Epoch { minutes } => from + minutes * MINUTE_SECS,
            Cut::Week => from + 7 * DAY_SECS,
            Cut::Month => seconds_of(civil(from)?.checked_add(1.month())?)?,
        })
    }

    fn name(&self, start: DateTime) -> String {
        let date = start.date();
        match self.0 {
            Cut::Week => {
                let week = date.iso_week_date();
                format!("{:04}-W{:02}", week.year(), week.week())
            }
            Cut::Month => format!("{:04}-{:02}", date.year(), date.month()),
            Cut::Clock { minutes } if minutes % DAY_MINUTES == 0 => date.to_string(),
            Cut::Clock {
                minutes: HOUR_MINUTES,
            } => format!("{date}T{:02}", start.hour()),
            Cut::Clock { .. } | Cut::Epoch { .. } => {
                format!("{date}T{:02}:{:02}", start.hour(), start.minute())
            }
        }
    }
}

/// A word is more likely meant than a duration when no digit is in the text.
fn unknown(text: &str, error: DurationError) -> PeriodError {
    let meant = match text {
        "daily" | "today" => Some("day"),
        _ => nearest(text, &CALENDAR_WORDS),
    };
    if meant.is_some() || !text.contains(|c: char| c.is_ascii_digit()) {
        return PeriodError::Unknown(text.to_owned(), meant);
    }
    PeriodError::Duration(error)
}

fn window(name: String, start: Timestamp, end: Timestamp) -> Window {
    Window {
        name,
        starts_at: UnixMs(start.as_millisecond()),
        ends_at: UnixMs(end.as_millisecond()),
    }
}

/// What a clock with this offset shows, in whole seconds since its own 1970-01-01T00:00.
fn wall_secs(at: Timestamp, offset: Offset) -> i64 {
    at.as_millisecond().div_euclid(1000) + i64::from(offset.seconds())
}

fn civil(wall: i64) -> Result<DateTime, PeriodError> {
    Ok(Offset::UTC.to_datetime(Timestamp::from_second(wall)?))
}

fn seconds_of(wall: DateTime) -> Result<i64, PeriodError> {
    Ok(Offset::UTC.to_timestamp(wall)?.as_second())
}

/// Whether the clock shows this time twice, because it is set back.
fn shown_twice(wall: i64, zone: &TimeZone) -> Result<bool, PeriodError> {
    let offset = zone.to_ambiguous_timestamp(civil(wall)?).offset();
    Ok(matches!(offset, AmbiguousOffset::Fold { .. }))
}

/// The first moment when the clock shows `wall` or, where it is set forward over it, a later time.
fn first_moment(wall: i64, zone: &TimeZone) -> Result<Timestamp, PeriodError> {
    let ambiguous = zone.to_ambiguous_timestamp(civil(wall)?);
    let offset = ambiguous.offset();
    let earlier = ambiguous.earlier()?;
    let jump = match offset {
        AmbiguousOffset::Gap { after, .. } => zone
            .following(earlier)
            .find(|change| change.offset() == after)
            .map(|change| change.timestamp()),
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => None,
    };
    Ok(jump.unwrap_or(earlier))
}

/// The moment after `first` since when the clock of `at` has its offset.
fn clock_since(first: Timestamp, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let offset = zone.to_offset(at);
    let after_at = at.checked_add(1.nanosecond()).ok()?;
    zone.preceding(after_at)
        .map(|change| change.timestamp())
        .take_while(|change| *change > first)
        .find(|change| {
            let before = change.checked_sub(1.nanosecond());
            before.is_ok_and(|before| zone.to_offset(before) != offset)
        })
}

/// The moment before `last` until when the clock of `at` keeps its offset.
fn clock_until(at: Timestamp, last: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let offset = zone.to_offset(at);
    zone.following(at)
        .take_while(|change| change.timestamp() < last)
        .find(|change| change.offset() != offset)
        .map(|change| change.timestamp())
}

/// An offset as RFC 3339 writes it: `+02:00`.
struct OffsetText(Offset);

impl fmt::Display for OffsetText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0.seconds();
        let minutes = secs.unsigned_abs() / 60;
        let sign = if secs < 0 { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
#[path = "period_tests.rs"]
mod tests;
