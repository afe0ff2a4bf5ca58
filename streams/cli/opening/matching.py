"""The topics that the patterns of a file match now."""

from sluicegate.streams.agent import App
from sluicegate.streams.cli.opening.waiting import call_timeout
from sluicegate.streams.topic_names import by_pattern, resolved


def existing(app: App) -> list[str]:
    """The names of all topics of the brokers. Raises SystemNotReady."""
    from sluicegate.connectors.kafka import admin

    return admin.names_of(app.brokers, call_timeout(app))


def with_matches(app: App) -> App:
    """The app whose agents name the topics that their patterns match now. With the embedded broker, which answers only
    its own run, patterns match none. Raises SystemNotReady."""
    if not by_pattern(app):
        return app
    return resolved(app, [] if app.embedded else existing(app))
