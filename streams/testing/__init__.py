"""Testing an app without a broker and without waiting: `driver.TestDriver`, the pytest plugin, and the file's own
`tests:`."""
