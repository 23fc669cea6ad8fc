"""Errors keep their facts as fields, and spell options in the words of who reads them."""

import pickle
import warnings

import numpy as np
import pytest

import outtrees.errors
from outtrees import OutTreeDistribution
from outtrees._common.arguments import check_count, check_number, check_option
from outtrees.errors import (
    ArgumentError,
    Message,
    ModelFileError,
    NoSpanningTreeError,
    Option,
    OutTreesError,
    RecordsError,
    message_of,
)


def shout(option):
    return option.name.upper()


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (Option("strict_dates", False), "strict_dates=False"),
        (Option("id", "case"), "id='case'"),
        (Option("root", None), "root=None"),
        (Option("kinds", {"x": "date"}), "kinds={'x': 'date'}"),
        (Option("forbidden"), "forbidden"),
    ],
)
def test_an_option_spells_itself_in_python(option, text):
    assert str(option) == text


def test_a_message_is_a_text_with_parts():
    message = Message("pass ", Option("id", "case"), " or ", Option("max_iter"))
    assert message == "pass id='case' or max_iter"
    assert message.options == (Option("id", "case"), Option("max_iter"))
    assert message.spelled(shout) == "pass ID or MAX_ITER"


def test_names_in_a_message_are_never_taken_for_options_or_placeholders():
    message = Message("column 'id={0} %s max_iter=3' is empty; see ", Option("max_iter"))
    assert message.spelled(shout) == "column 'id={0} %s max_iter=3' is empty; see MAX_ITER"


def test_messages_within_messages_keep_their_options():
    inner = Message("raise ", Option("max_iter"))
    assert Message("in group 3: ", inner).spelled(shout) == "in group 3: raise MAX_ITER"


@pytest.mark.parametrize(
    "message", [Message(), Message("plain"), Message("a ", Option("id", "x"), Option("root", None))]
)
def test_a_message_survives_another_process(message):
    copy = pickle.loads(pickle.dumps(message))
    assert copy == message
    assert copy.parts == message.parts
    assert type(copy) is Message


def test_any_error_has_a_message():
    assert message_of(KeyError("a")) == "'a'"
    assert message_of(MemoryError()) == ""
    assert message_of(UserWarning(Message(Option("id")))).options == (Option("id"),)


def test_a_warning_keeps_the_parts_of_its_message():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(Message("raise ", Option("max_iter")), UserWarning, stacklevel=1)
    assert message_of(caught[0].message).options == (Option("max_iter"),)


def test_an_error_has_its_facts_as_fields():
    error = RecordsError(
        "a.csv, line 3: pass ", Option("id", "x"), records=["c"], column="d", file="a.csv", line=3
    )
    assert str(error) == "a.csv, line 3: pass id='x'"
    assert (error.records, error.column, error.file, error.line) == (("c",), "d", "a.csv", 3)
    assert error.option == Option("id", "x")
    assert error.options == (Option("id", "x"),)


def test_an_error_without_facts_has_empty_fields():
    error = ModelFileError("damaged")
    assert (error.records, error.column, error.file, error.line) == ((), None, None, None)
    assert error.option is None


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in vars(outtrees.errors).values()
        if isinstance(kind, type) and issubclass(kind, OutTreesError)
    ],
)
def test_every_error_survives_another_process(kind):
    error = kind("pass ", Option("id", "x"), records=[1], line=2)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == "pass id='x'"
    assert (copy.records, copy.line, copy.option) == ((1,), 2, Option("id", "x"))


def test_a_failure_to_span_says_why_in_fields():
    error = NoSpanningTreeError("…", cause="separate groups", groups=[[0], [1, 2]], records=[0])
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.cause, copy.groups, copy.records) == ("separate groups", ((0,), (1, 2)), (0,))


@pytest.mark.parametrize(
    ("check", "arguments"),
    [(check_option, ("a", ["b"])), (check_number, (-1, 0)), (check_count, (0.5, 1))],
)
def test_a_refused_argument_is_named(check, arguments):
    with pytest.raises(ArgumentError, match="solver") as failure:
        check("fit", "solver", *arguments)
    assert failure.value.option == Option("solver")
    assert isinstance(failure.value, ValueError)


@pytest.mark.parametrize(
    ("check", "limits"), [(check_option, [["b"]]), (check_number, [0]), (check_count, [1])]
)
def test_an_array_for_a_word_or_a_number_is_refused_in_one_line(check, limits):
    with pytest.raises(ArgumentError, match=r"got array\(\[\[") as failure:
        check("fit", "solver", np.ones((30, 30)), *limits)
    assert len(str(failure.value).splitlines()) == 1


def test_weights_that_leave_no_tree_are_an_error_of_the_library():
    with pytest.raises(OutTreesError):
        OutTreeDistribution([[0.0, float("-inf")], [float("-inf"), 0.0]])
