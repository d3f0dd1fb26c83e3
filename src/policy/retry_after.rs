//! The value of Retry-After (RFC 9110, section 10.2.3): seconds, or an HTTP-date (section 5.6.7).

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::text::digits;
use crate::domain::time::UnixMs;

/// No hint makes a call wait longer than this.
pub const LONGEST_HINT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long to wait after `now`: `120`, or a date in one of the three HTTP forms. A date that has
/// passed is no wait at all; a wait beyond [`LONGEST_HINT`] is cut to it.
pub fn parse(value: &[u8], now: UnixMs) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let wait = if text.starts_with(|c: char| c.is_ascii_digit()) {
        delta_seconds(text)?
    } else {
        let wait_ms = date(text, now)?.saturating_sub(now.0);
        Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
    };
    Some(wait.min(LONGEST_HINT))
}

fn delta_seconds(text: &str) -> Option<Duration> {
    let all_digits = text.bytes().all(|b| b.is_ascii_digit());
    // A number too large for any integer is still a number of seconds.
    all_digits.then(|| digits(text).map_or(LONGEST_HINT, Duration::from_secs))
}

/// The moment that an HTTP-date names, in milliseconds since the Unix epoch.
fn date(text: &str, now: UnixMs) -> Option<i64> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words.as_slice() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        [weekday, day, month_name, year, time, "GMT"] => {
            short_weekday(weekday.strip_suffix(',')?)?;
            moment(four_digits(year)?, month(month_name)?, day, time)
        }
        // Sunday, 06-Nov-94 08:49:37 GMT
        [weekday, date, time, "GMT"] => {
            long_weekday(weekday.strip_suffix(',')?)?;
            let mut parts = date.split('-');
            let (day, month_name, year) = (parts.next()?, parts.next()?, parts.next()?);
            let year = nearest_century(two_digits(year)?, now);
            parts
                .next()
                .is_none()
                .then(|| moment(year, month(month_name)?, day, time))?
        }
        // Sun Nov  6 08:49:37 1994
        [weekday, month_name, day, time, year] => {
            short_weekday(weekday)?;
            moment(four_digits(year)?, month(month_name)?, day, time)
        }
        _ => None,
    }
}

fn moment(year: i16, month: i8, day: &str, time: &str) -> Option<i64> {
    let mut parts = time.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    // A leap second counts as the second before it.
    let second = two_digits(second)?.min(if second == "60" { 59 } else { 60 });
    let civil = DateTime::new(
        year,
        month,
        digits::<i8>(day)?,
        two_digits(hour)?,
        two_digits(minute)?,
        second,
        0,
    );
    let timestamp = Offset::UTC.to_timestamp(civil.ok()?).ok()?;
    Some(timestamp.as_millisecond())
}

/// A two-digit year means the latest year with these digits that is not more than 50 years ahead.
fn nearest_century(two_digit_year: i8, now: UnixMs) -> i16 {
    let this_year = jiff::Timestamp::from_millisecond(now.0)
        .map_or(1970, |t| Offset::UTC.to_datetime(t).year());
    let century = this_year - this_year.rem_euclid(100);
    let year = century + i16::from(two_digit_year);
    if year > this_year + 50 {
        year - 100
    } else if year <= this_year - 50 {
        year + 100
    } else {
        year
    }
}

fn four_digits(text: &str) -> Option<i16> {
    (text.len() == 4).then(|| digits(text)).flatten()
}

fn two_digits(text: &str) -> Option<i8> {
    (text.len() == 2).then(|| digits(text)).flatten()
}

const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

fn short_weekday(text: &str) -> Option<()> {
    let known = WEEKDAYS.iter().any(|day| day.get(..3) == Some(text));
    known.then_some(())
}

fn long_weekday(text: &str) -> Option<()> {
    WEEKDAYS.contains(&text).then_some(())
}

/// 1 for `Jan` to 12 for `Dec`.
fn month(name: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let position = MONTHS.iter().position(|m| *m == name)?;
    i8::try_from(position + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // 1994-11-06 08:49:07 UTC, half a minute before the date that RFC 9110 uses as its example.
    const NOW: UnixMs = UnixMs(784_111_747_000);

    fn wait_s(value: &str) -> Option<u64> {
        parse(value.as_bytes(), NOW).map(|d| d.as_secs())
    }

    #[test]
    fn seconds_are_read() {
        assert_eq!(wait_s("0"), Some(0));
        assert_eq!(wait_s(" 120 "), Some(120));
        assert_eq!(wait_s("86401"), Some(86_400));
        assert_eq!(wait_s("99999999999999999999999999"), Some(86_400));
        for bad in ["", "-1", "+1", "1.5", "1s", "soon"] {
            assert_eq!(wait_s(bad), None, "{bad}");
        }
        assert_eq!(parse(b"\xff", NOW), None);
    }

    #[test]
    fn the_three_forms_of_a_date_are_read() {
        assert_eq!(wait_s("Sun, 06 Nov 1994 08:49:37 GMT"), Some(30));
        assert_eq!(wait_s("Sunday, 06-Nov-94 08:49:37 GMT"), Some(30));
        assert_eq!(wait_s("Sun Nov  6 08:49:37 1994"), Some(30));
    }

    #[test]
    fn the_past_is_no_wait_and_the_far_future_is_cut() {
        assert_eq!(wait_s("Sat, 05 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(wait_s("Sat, 06 Nov 2094 08:49:37 GMT"), Some(86_400));
        // 95 is next year, 93 was last year, 50 years on is ahead and 60 is behind.
        assert_eq!(wait_s("Monday, 06-Nov-95 08:49:37 GMT"), Some(86_400));
        assert_eq!(wait_s("Monday, 06-Nov-93 08:49:37 GMT"), Some(0));
        assert_eq!(wait_s("Monday, 06-Nov-44 08:49:37 GMT"), Some(86_400));
        assert_eq!(wait_s("Monday, 06-Nov-60 08:49:37 GMT"), Some(0));
    }

    #[test]
    fn a_date_that_is_none_is_refused() {
        for bad in [
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "Sunny, 06 Nov 1994 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94-1 08:49:37 GMT",
            "Sun Nov  6 08:49:37 94",
            "1994-11-06T08:49:37Z",
        ] {
            assert_eq!(wait_s(bad), None, "{bad}");
        }
        assert_eq!(wait_s("Sun, 06 Nov 1994 08:49:60 GMT"), Some(52));
    }

    proptest! {
        #[test]
        fn no_value_makes_it_panic(
            value in prop::collection::vec(any::<u8>(), 0..40), now in any::<i64>(),
            date in "[A-Z][a-z]{2,8},? [0-9A-Za-z-]{1,9} [A-Za-z0-9:]{1,8} [0-9:]{1,8}( [0-9:GMT]{1,8})?",
        ) {
            let _ = parse(&value, UnixMs(now));
            if let Some(wait) = parse(date.as_bytes(), UnixMs(now)) {
                prop_assert!(wait <= LONGEST_HINT);
            }
        }

        #[test]
        fn a_written_date_is_read_back(ahead_s in 0i64..86_400, now_s in 0i64..4_000_000_000) {
            let moment = Offset::UTC.to_datetime(jiff::Timestamp::from_second(now_s + ahead_s).unwrap());
            for form in ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"] {
                let text = moment.strftime(form).to_string();
                let wait = parse(text.as_bytes(), UnixMs(now_s * 1000));
                prop_assert_eq!(wait, Some(Duration::from_secs(ahead_s.unsigned_abs())), "{}", text);
            }
        }
    }
}
