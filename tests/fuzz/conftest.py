from fuzz.timed import SECONDS, counts


def pytest_terminal_summary(terminalreporter):
    if SECONDS:
        for name, count in counts.items():
            terminalreporter.write_line(f"{count:9,} cases  {name}")
        terminalreporter.write_line(f"{counts.total():9,} cases in all")
