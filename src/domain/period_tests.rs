//! Tests of the periods: names, edges, and the days when clocks change.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Central European time by its rule, so that no test needs a zone database.
fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

/// Lord Howe Island: clocks change by half an hour.
fn lord_howe() -> TimeZone {
    TimeZone::posix("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0").unwrap()
}

/// A zone that goes forward at midnight, so that some days have none, and back at midnight.
fn no_midnight() -> TimeZone {
    TimeZone::posix("<-03>3<-02>,M10.3.0/0,M2.3.0/0").unwrap()
}

fn ts(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn at(period: &str, moment: &str, zone: &TimeZone) -> (String, String, String) {
    let window = Period::parse(period)
        .unwrap()
        .window(ts(moment), zone)
        .unwrap();
    let show = |at: UnixMs| Timestamp::from_millisecond(at.0).unwrap().to_string();
    (window.name, show(window.starts_at), show(window.ends_at))
}

#[track_caller]
fn check(period: &str, moment: &str, zone: &TimeZone, name: &str, start: &str, end: &str) {
    assert_eq!(
        at(period, moment, zone),
        (name.to_owned(), start.to_owned(), end.to_owned()),
        "{period} at {moment}"
    );
}

#[test]
fn calendar_periods_in_utc() {
    let (utc, now) = (TimeZone::UTC, "2026-11-30T17:20:59.999Z");
    for (period, name, start, end) in [
        (
            "day",
            "2026-11-30",
            "2026-11-30T00:00:00Z",
            "2026-12-01T00:00:00Z",
        ),
        (
            "24h",
            "2026-11-30",
            "2026-11-30T00:00:00Z",
            "2026-12-01T00:00:00Z",
        ),
        (
            "hour",
            "2026-11-30T17",
            "2026-11-30T17:00:00Z",
            "2026-11-30T18:00:00Z",
        ),
        (
            "60m",
            "2026-11-30T17",
            "2026-11-30T17:00:00Z",
            "2026-11-30T18:00:00Z",
        ),
        (
            "week",
            "2026-W49",
            "2026-11-30T00:00:00Z",
            "2026-12-07T00:00:00Z",
        ),
        (
            "7d",
            "2026-W49",
            "2026-11-30T00:00:00Z",
            "2026-12-07T00:00:00Z",
        ),
        (
            "month",
            "2026-11",
            "2026-11-01T00:00:00Z",
            "2026-12-01T00:00:00Z",
        ),
        (
            "15m",
            "2026-11-30T17:15",
            "2026-11-30T17:15:00Z",
            "2026-11-30T17:30:00Z",
        ),
        (
            "1m",
            "2026-11-30T17:20",
            "2026-11-30T17:20:00Z",
            "2026-11-30T17:21:00Z",
        ),
        (
            "6h",
            "2026-11-30T12:00",
            "2026-11-30T12:00:00Z",
            "2026-11-30T18:00:00Z",
        ),
        (
            "2d",
            "2026-11-29",
            "2026-11-29T00:00:00Z",
            "2026-12-01T00:00:00Z",
        ),
    ] {
        check(period, now, &utc, name, start, end);
    }
}

#[test]
fn a_window_holds_its_first_moment_and_not_its_last() {
    let utc = TimeZone::UTC;
    assert_eq!(at("day", "2026-11-30T00:00:00Z", &utc).0, "2026-11-30");
    assert_eq!(
        at("day", "2026-11-29T23:59:59.999999999Z", &utc).0,
        "2026-11-29"
    );
    assert_eq!(
        at("15m", "2026-11-30T17:30:00Z", &utc).0,
        "2026-11-30T17:30"
    );
    assert_eq!(
        at("hour", "1969-12-31T23:59:59.5Z", &utc).0,
        "1969-12-31T23"
    );
}

#[test]
fn a_week_belongs_to_the_year_of_its_thursday() {
    let utc = TimeZone::UTC;
    assert_eq!(at("week", "2027-01-03T12:00:00Z", &utc).0, "2026-W53");
    assert_eq!(at("week", "2027-01-04T00:00:00Z", &utc).0, "2027-W01");
    assert_eq!(at("week", "2024-12-30T00:00:00Z", &utc).0, "2025-W01");
}

#[test]
fn local_days_begin_at_local_midnight() {
    check(
        "day",
        "2026-11-30T23:30:00Z",
        &berlin(),
        "2026-12-01",
        "2026-11-30T23:00:00Z",
        "2026-12-01T23:00:00Z",
    );
    check(
        "month",
        "2026-06-30T22:00:00Z",
        &berlin(),
        "2026-07",
        "2026-06-30T22:00:00Z",
        "2026-07-31T22:00:00Z",
    );
}

#[test]
fn the_days_when_clocks_change_have_23_and_25_hours() {
    check(
        "day",
        "2026-03-29T12:00:00Z",
        &berlin(),
        "2026-03-29",
        "2026-03-28T23:00:00Z",
        "2026-03-29T22:00:00Z",
    );
    check(
        "day",
        "2026-10-25T12:00:00Z",
        &berlin(),
        "2026-10-25",
        "2026-10-24T22:00:00Z",
        "2026-10-25T23:00:00Z",
    );
    check(
        "6h",
        "2026-10-25T01:30:00Z",
        &berlin(),
        "2026-10-25T00:00",
        "2026-10-24T22:00:00Z",
        "2026-10-25T05:00:00Z",
    );
}

#[test]
fn an_hour_that_the_clock_shows_twice_is_two_hours() {
    check(
        "hour",
        "2026-10-25T00:10:00Z",
        &berlin(),
        "2026-10-25T02+02:00",
        "2026-10-25T00:00:00Z",
        "2026-10-25T01:00:00Z",
    );
    check(
        "hour",
        "2026-10-25T01:10:00Z",
        &berlin(),
        "2026-10-25T02+01:00",
        "2026-10-25T01:00:00Z",
        "2026-10-25T02:00:00Z",
    );
    check(
        "15m",
        "2026-10-25T01:50:00Z",
        &berlin(),
        "2026-10-25T02:45+01:00",
        "2026-10-25T01:45:00Z",
        "2026-10-25T02:00:00Z",
    );
    assert_eq!(
        at("hour", "2026-10-24T23:59:59Z", &berlin()).0,
        "2026-10-25T01"
    );
    assert_eq!(
        at("hour", "2026-10-25T02:00:00Z", &berlin()).0,
        "2026-10-25T03"
    );
}

#[test]
fn a_skipped_hour_is_no_window() {
    check(
        "hour",
        "2026-03-29T00:59:59Z",
        &berlin(),
        "2026-03-29T01",
        "2026-03-29T00:00:00Z",
        "2026-03-29T01:00:00Z",
    );
    check(
        "hour",
        "2026-03-29T01:00:00Z",
        &berlin(),
        "2026-03-29T03",
        "2026-03-29T01:00:00Z",
        "2026-03-29T02:00:00Z",
    );
    // 02:24 to 04:48 by the clock, whose start was jumped over
    check(
        "144m",
        "2026-03-29T01:10:00Z",
        &berlin(),
        "2026-03-29T02:24",
        "2026-03-29T01:00:00Z",
        "2026-03-29T02:48:00Z",
    );
}

#[test]
fn a_jump_of_half_an_hour_cuts_an_hour() {
    check(
        "hour",
        "2026-04-04T14:40:00Z",
        &lord_howe(),
        "2026-04-05T01+11:00",
        "2026-04-04T14:00:00Z",
        "2026-04-04T15:00:00Z",
    );
    check(
        "hour",
        "2026-04-04T15:10:00Z",
        &lord_howe(),
        "2026-04-05T01+10:30",
        "2026-04-04T15:00:00Z",
        "2026-04-04T15:30:00Z",
    );
    check(
        "hour",
        "2026-10-03T15:35:00Z",
        &lord_howe(),
        "2026-10-04T02+11:00",
        "2026-10-03T15:30:00Z",
        "2026-10-03T16:00:00Z",
    );
}

#[test]
fn a_day_without_midnight_begins_at_its_first_moment() {
    check(
        "day",
        "2026-10-18T12:00:00Z",
        &no_midnight(),
        "2026-10-18",
        "2026-10-18T03:00:00Z",
        "2026-10-19T02:00:00Z",
    );
    check(
        "day",
        "2026-02-15T02:30:00Z",
        &no_midnight(),
        "2026-02-14",
        "2026-02-14T02:00:00Z",
        "2026-02-15T03:00:00Z",
    );
}

#[test]
fn what_does_not_divide_the_day_counts_from_the_epoch() {
    check(
        "7h",
        "1970-01-01T13:59:59Z",
        &TimeZone::UTC,
        "1970-01-01T07:00",
        "1970-01-01T07:00:00Z",
        "1970-01-01T14:00:00Z",
    );
    let (utc, local) = (
        at("7h", "2026-07-01T12:00:00Z", &TimeZone::UTC),
        at("7h", "2026-07-01T12:00:00Z", &berlin()),
    );
    assert_eq!((&utc.1, &utc.2), (&local.1, &local.2));
    assert_ne!(utc.0, local.0);
}

#[test]
fn the_previous_window_ends_where_this_one_begins() {
    let zone = berlin();
    for (period, moment, name) in [
        ("day", "2026-03-01T12:00:00Z", "2026-02-28"),
        ("week", "2026-01-01T12:00:00Z", "2025-W52"),
        ("month", "2026-01-01T12:00:00Z", "2025-12"),
        ("hour", "2026-10-25T01:10:00Z", "2026-10-25T02+02:00"),
        ("15m", "2026-11-30T23:00:00Z", "2026-11-30T23:45"),
    ] {
        let period = Period::parse(period).unwrap();
        let window = period.window(ts(moment), &zone).unwrap();
        let previous = period.previous(&window, &zone).unwrap();
        assert_eq!(previous.name, name);
        assert_eq!(previous.ends_at, window.starts_at);
    }
}

#[test]
fn the_key_of_a_window() {
    let window = Period::DAY
        .window(ts("2026-11-30T17:00:00Z"), &TimeZone::UTC)
        .unwrap();
    assert_eq!(
        window.key(&Key::new("job").unwrap()).unwrap().as_str(),
        "job@2026-11-30"
    );
    let long = Key::new("x".repeat(250)).unwrap();
    assert_eq!(window.key(&long), Err(NameError::TooLong(261)));
}

#[test]
fn a_wrong_period_says_what_to_write() {
    let of = |text: &str| Period::parse(text).unwrap_err().to_string();
    assert_eq!(of("daily"), "unknown period `daily`: did you mean day?");
    assert_eq!(of("Week"), "unknown period `Week`: did you mean week?");
    assert_eq!(
        of("monthly"),
        "unknown period `monthly`: did you mean month?"
    );
    assert!(of("fortnight").contains("use hour, day, week, month"));
    assert!(of("").contains("use hour, day, week, month"));
    for text in ["30s", "90s", "1month", "0", "0m", "60001ms"] {
        assert_eq!(
            Period::parse(text),
            Err(PeriodError::NotMinutes(text.into()))
        );
    }
    assert_eq!(
        Period::parse("367d"),
        Err(PeriodError::TooLong("367d".into()))
    );
    assert!(matches!(
        Period::parse("15"),
        Err(PeriodError::Duration(DurationError::NoUnit(_)))
    ));
    assert!(matches!(
        Period::parse("-15m"),
        Err(PeriodError::Duration(DurationError::Negative(_)))
    ));
}

#[test]
fn the_ends_of_the_calendar_are_errors() {
    for period in ["day", "week", "month", "hour", "7h"] {
        let period = Period::parse(period).unwrap();
        for moment in [Timestamp::MIN, Timestamp::MAX] {
            // some windows fit at one end; none may panic
            let _ = period.window(moment, &berlin());
        }
    }
    assert_eq!(
        Period::MONTH.window(Timestamp::MAX, &TimeZone::UTC),
        Err(PeriodError::OutOfCalendar)
    );
}

const PERIODS: [&str; 14] = [
    "1m", "15m", "45m", "hour", "90m", "2h", "144m", "6h", "day", "3d", "week", "month", "7h",
    "25m",
];

proptest! {
    #[test]
    fn a_window_contains_its_moment(
        secs in 1_700_000_000i64..1_900_000_000, ms in 0i64..1000, which in 0usize..14, zone in 0usize..3,
    ) {
        let zone = [berlin(), lord_howe(), no_midnight()][zone].clone();
        let now = Timestamp::from_millisecond(secs * 1000 + ms).unwrap();
        let window = Period::parse(PERIODS[which]).unwrap().window(now, &zone).unwrap();
        prop_assert!(window.starts_at.0 <= now.as_millisecond());
        prop_assert!(now.as_millisecond() < window.ends_at.0);
    }
}

/// Walks through a year of each zone: windows follow each other without a hole or an overlap, every
/// moment of a window finds the same one, and no name comes twice.
#[test]
fn windows_tile_the_year_and_their_names_are_unique() {
    for zone in [berlin(), lord_howe(), no_midnight()] {
        for period in PERIODS.into_iter().filter(|p| *p != "1m") {
            walk(Period::parse(period).unwrap(), &zone);
        }
    }
}

fn walk(period: Period, zone: &TimeZone) {
    let mut seen = HashMap::new();
    let until = ts("2027-01-01T00:00:00Z").as_millisecond();
    let mut window = period.window(ts("2026-01-01T00:00:00Z"), zone).unwrap();
    while window.starts_at.0 < until {
        let last = Timestamp::from_millisecond(window.ends_at.0 - 1).unwrap();
        assert_eq!(period.window(last, zone).unwrap(), window, "{period:?}");
        let twin = seen.insert(window.name.clone(), window.starts_at);
        assert_eq!(twin, None, "{period:?} {}", window.name);
        let end = Timestamp::from_millisecond(window.ends_at.0).unwrap();
        let next = period.window(end, zone).unwrap();
        assert_eq!(next.starts_at, window.ends_at, "{period:?} {}", window.name);
        window = next;
    }
}
