//! What stands in the README.

const README: &str = include_str!("../../README.md");

const MARKER: &str = "<!-- recipe: ";

/// The text of a recipe: the fenced block behind its marker.
#[track_caller]
pub fn recipe(name: &str) -> String {
    let marker = format!("{MARKER}{name} -->\n```");
    let mut parts = README.split(&marker);
    let behind = parts.nth(1).unwrap_or_else(|| panic!("no recipe {name}"));
    assert!(parts.next().is_none(), "two recipes are called {name}");
    let (_, body) = behind.split_once('\n').expect("a fence");
    let (text, _) = body.split_once("```\n").expect("the end of the fence");
    text.to_owned()
}

/// The words of the first column of the table that has this heading.
#[track_caller]
pub fn table(heading: &str) -> Vec<String> {
    let (_, behind) = README.split_once(heading).expect("the table's heading");
    let rows = behind.lines().skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap_or_default());
    cells
        .map(|cell| cell.trim_matches([' ', '`']).to_owned())
        .collect()
}

#[test]
fn every_recipe_is_run() {
    let tests = [
        include_str!("agents.rs"),
        include_str!("ci.rs"),
        include_str!("cron.rs"),
        include_str!("publishing.rs"),
        include_str!("services.rs"),
    ];
    let names = README
        .split(MARKER)
        .skip(1)
        .map(|behind| behind.split(' ').next().unwrap_or_default());
    let mut count = 0;
    for name in names {
        let used = format!("\"{name}\"");
        assert!(tests.iter().any(|test| test.contains(&used)), "{name}");
        count += 1;
    }
    assert!(count >= 15, "{count} recipes were found");
}
