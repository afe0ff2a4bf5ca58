"""Sessions of handlers name what a handler looks for."""

import copy

import pytest

from sluicegate.connectors.sessions import SqlSession


def test_a_method_of_the_connection_that_is_called_on_the_session_is_explained() -> None:
    session = SqlSession("connection")
    with pytest.raises(AttributeError, match="a session has no execute; session"):
        session.execute("select 1")
    assert (copy.copy(session), hasattr(session, "commit")) == (session, False)
